"""The anomalies that `check` looks for: their names and whose these are, what they mean, and the smallest history of
each."""

from __future__ import annotations

from typing import Final, NamedTuple


class Anomaly(NamedTuple):
    source: str
    definition: str
    example: str
    """A line for an operation, in the order of their ends, as ``docs/judge.md`` says."""


ANOMALIES: Final[dict[str, Anomaly]] = {
    "lost-write": Anomaly(
        "Jepsen",
        "A record was acknowledged, alone or with its committed transaction, or a consumer had it, and a scan that "
        "began after that does not have it, though nobody deleted it and compaction did not overwrite it.",
        """
client s scan=yes
p send r/0@0 v=1
s scanned r/0@0
""",
    ),
    "duplicate": Anomaly(
        "Jepsen",
        "A value that an idempotent producer sent once is at two offsets.",
        """
p send r/0@0 v=1
c read r/0@0 v=1
c read r/0@1 v=1
""",
    ),
    "nonmonotonic-send": Anomaly(
        "Jepsen",
        "Two acknowledged records of one idempotent producer stand in a partition in another order than it sent them, "
        "or anybody's stands before one that had been acknowledged when it was sent.",
        """
client s scan=yes
p send r/0@1 v=1
p send r/0@0 v=2
s read r/0@0 v=2
s read r/0@1 v=1
s scanned r/0@2
""",
    ),
    "inconsistent-offsets": Anomaly(
        "Jepsen",
        "Two values were seen at one offset, or an acknowledged record is at another offset than its producer was "
        "told.",
        """
p send r/0@0 v=1
p send r/0 v=2 unknown
c read r/0@0 v=1
d read r/0@0 v=2
""",
    ),
    "phantom-record": Anomaly(
        "ours",
        "A reader was given a value that nobody has sent.",
        """
c read r/0@0 v=1
""",
    ),
    "misplaced-record": Anomaly(
        "ours",
        "A record was read from another partition than it was sent to, or under another key.",
        """
p send r/0@0 v=1
c read r/1@0 v=1
""",
    ),
    "internal-gap": Anomaly(
        "Jepsen (int-send-skip is its kin)",
        "Inside a partition that is not compacted, the scan found offsets with neither a record nor a marker, above "
        "where its log is known to begin; those of lost writes are not counted again.",
        """
client s scan=yes
p send r/0@0 v=1
p send r/0@2 v=2
s read r/0@0 v=1
s read r/0@2 v=2
s scanned r/0@3
""",
    ),
    "resurrected-key": Anomaly(
        "ours",
        "In a compacted topic the scan found a record of a key, and no longer the acknowledged tombstone that came "
        "behind it.",
        """
client s scan=yes
topic r cleanup.policy=compact delete.retention.ms=0
p send r/0@0 k=1 v=1
p send r/0@1 k=1 v=2 g=tombstone
s read r/0@0 k=1 v=1
s scanned r/0@2
""",
    ),
    "deleted-read": Anomaly(
        "ours",
        "A reader was given a record from below where an acknowledged DeleteRecords had ended, before that reader "
        "began with the partition.",
        """
client s scan=yes
p send r/0@0 v=1
a delete r/0@1
s read r/0@0 v=1
s scanned r/0@1
""",
    ),
    "aborted-read": Anomaly(
        "Adya's G1a, Jepsen",
        "A committed reader was given a record of a transaction that was aborted, or whose commit was never asked for "
        "or certainly failed; or any reader one whose send certainly failed.",
        """
client c isolation=read_committed
p send r/0@0 v=1 t=1
p abort t=1
c read r/0@0 v=1
""",
    ),
    "precommitted-read": Anomaly(
        "Jepsen (dirty read)",
        "A committed reader was given a record before anybody asked for its transaction's commit, but for one that "
        "certainly failed.",
        """
client c isolation=read_committed
p send r/0@0 v=1 t=1
c read r/0@0 v=1
p commit t=1
""",
    ),
    "torn-transaction": Anomaly(
        "Adya's fractured read",
        "Of the records of one transaction that were acknowledged or consumed, committed readers find some and not "
        "others.",
        """
client s scan=yes
client f scan=yes isolation=read_committed
p send r/0@0 v=1 t=1
p send r/1@0 v=2 t=1
p commit t=1
s read r/0@0 v=1
s marker r/0@1 v=1
s scanned r/0@2
s read r/1@0 v=2
s marker r/1@1 v=2
s scanned r/1@2
f read r/0@0 v=1
f scanned r/0@2
f scanned r/1@2
""",
    ),
    "lost-update": Anomaly(
        "Adya (P4)",
        "Two committed records of a key were written on the same one, or on one that is not the one before it: what "
        "came between them is undone.",
        """
client f scan=yes isolation=read_committed
p send r/0@0 k=1 v=1 t=1
p commit t=1
p send r/0@2 k=1 v=2 t=2 f=1
p commit t=2
p send r/0@4 k=1 v=3 t=3 f=1
p commit t=3
f read r/0@0 k=1 v=1
f read r/0@2 k=1 v=2
f read r/0@4 k=1 v=3
f scanned r/0@6
""",
    ),
    "wrong-total": Anomaly(
        "Jepsen (bank)",
        "Committed readers saw two sums in the accounts of a bank, within which money is moved and nothing else.",
        """
a total @400 g=bank
b total @399 g=bank
""",
    ),
    "G0": Anomaly(
        "Adya",
        "Committed transactions form a cycle by the order of their records in partitions: T's are before U's in one, "
        "and behind them in another. Kafka does not isolate writes: always the limit `writes-not-isolated`.",
        """
client s scan=yes
client f scan=yes isolation=read_committed
p send r/0@0 v=1 t=1
q send r/0@1 v=2 t=2
q send r/1@0 v=3 t=2
p send r/1@1 v=4 t=1
p commit t=1
q commit t=2
f read r/0@0 v=1
f read r/0@1 v=2
f scanned r/0@4
f read r/1@0 v=3
f read r/1@1 v=4
f scanned r/1@4
""",
    ),
    "G1b": Anomaly(
        "Adya",
        "A committed transaction read some records of another in a partition, and ended before the last of them. A "
        "poll may end anywhere in Kafka: always the limit `poll-within-transaction`.",
        """
client s scan=yes
client f scan=yes isolation=read_committed
client c isolation=read_committed
p send r/0@0 v=1 t=1
p send r/0@1 v=2 t=1
p commit t=1
c read r/0@0 v=1 t=2
c commit t=2
f read r/0@0 v=1
f read r/0@1 v=2
f scanned r/0@3
""",
    ),
    "G1c": Anomaly(
        "Adya",
        "Committed transactions form a cycle in which each read what the one before it wrote. Where some of the steps "
        "are the order of writes, it is the limit `writes-not-isolated`.",
        """
p send r/0@0 v=1 t=1
q send r/1@0 v=2 t=2
p read r/1@0 v=2 t=1
q read r/0@0 v=1 t=2
p commit t=1
q commit t=2
""",
    ),
    "nonmonotonic-poll": Anomaly(
        "Jepsen",
        "Within one assignment, a consumer was given an offset that is not above the one before it, or below where it "
        "began.",
        """
p send r/0@0 v=1
p send r/0@1 v=2
c assign r/0@0
c read r/0@0 v=1
c read r/0@1 v=2
c read r/0@0 v=1
""",
    ),
    "poll-skip": Anomaly(
        "Jepsen",
        "Within one assignment, a consumer was not given a record that others with its isolation level were, between "
        "two that it was given, or between where it began and its first.",
        """
p send r/0@0 v=1
p send r/0@1 v=2
d read r/0@0 v=1
c assign r/0@0
c read r/0@1 v=2
""",
    ),
    "nonmonotonic-offset": Anomaly(
        "ours (KIP-207)",
        "A partition's high watermark, last stable offset or log start offset was told to be below what had been told, "
        "read or, of the last, deleted before it was asked for; a high watermark also below either of the others.",
        """
a high-watermark r/0@5
b high-watermark r/0@4
""",
    ),
    "stale-committed-offset": Anomaly(
        "ours",
        "A group was told an offset though another commit had followed it, and was acknowledged or told to somebody "
        "before the question, or one that nobody had committed; or, of two that were committed at once, now the one "
        "and now the other.",
        """
c commit-offset r/0@5 g=g
c commit-offset r/0@9 g=g
d fetch-offset r/0@5 g=g
""",
    ),
    "reprocessed-record": Anomaly(
        "ours (KIP-447)",
        "Two committed transactions that commit offsets of one group have read the same record.",
        """
client c group=g isolation=read_committed
d send r/0@0 v=1
c read r/0@0 v=1 t=1
c commit-offset r/0@1 g=g t=1
c commit t=1
c assign r/0@0
c read r/0@0 v=1 t=2
c commit-offset r/0@1 g=g t=2
c commit t=2
""",
    ),
    "unprocessed-record": Anomaly(
        "ours (KIP-447)",
        "A group that commits its offsets in transactions has come past a record that none of those has read.",
        """
client c group=g isolation=read_committed
client f scan=yes isolation=read_committed
d send r/0@0 v=1
d send r/0@1 v=2
c read r/0@0 v=1 t=1
c commit-offset r/0@2 g=g t=1
c commit t=1
f read r/0@0 v=1
f read r/0@1 v=2
f scanned r/0@2
""",
    ),
    "stuck-last-stable-offset": Anomaly(
        "ours",
        "In the end committed readers come no further than below the high watermark, and every transaction in the "
        "partition has its marker.",
        """
client s scan=yes
client f scan=yes isolation=read_committed
p send r/0@0 v=1
p send r/0@1 v=2
s read r/0@0 v=1
s read r/0@1 v=2
s scanned r/0@2
f read r/0@0 v=1
f scanned r/0@1
""",
    ),
    "hanging-transaction": Anomaly(
        "KIP-664",
        "A partition has records of a transaction and no marker behind them, though its end was acknowledged, or its "
        "timeout had passed by 30 s, before the scan began.",
        """
client s scan=yes
client f scan=yes isolation=read_committed
p send r/0@0 v=1 t=1
p commit t=1
s read r/0@0 v=1
s scanned r/0@1
f scanned r/0@0
""",
    ),
}

LIMITS: Final[dict[str, str]] = {
    "acks": (
        "The producer did not ask for acks=all: a leader that dies takes along what its followers did not have yet."
    ),
    "unclean-leader-election": ("The topic allows a leader that was not in sync: it does not have what others had."),
    "isolated-leader": (
        "A leader or coordinator that reaches neither ZooKeeper nor the other brokers does not know that its office is "
        "another's by now: clients that still reach it are told what was true before, until it is back."
    ),
    "log-start-checkpoint": (
        "A broker that is killed knows where its logs start from a checkpoint, which is up to a minute old "
        "(`log.flush.start.offset.checkpoint.interval.ms`): what was deleted since then may come back with it."
    ),
    "no-idempotence": (
        "The producer was not idempotent: what it sends again may be there twice, and behind later records."
    ),
    "writes-not-isolated": (
        "Kafka's transactions are atomic, and are not isolated from each other: records interleave."
    ),
    "poll-within-transaction": (
        "A poll, and so a transaction that reads, may end between two records of one transaction."
    ),
    "franz-go-sequence-reuse": (
        "franz-go (up to 1.22.2) gives up a record of a transaction that a leader may have appended before it "
        "lost its office, and sends the next one to that partition with its epoch and sequence. The broker takes "
        "it for the record that it has, and the acknowledged one is nowhere."
    ),
    "librdkafka-first-batch": (
        "librdkafka (2.16.0) counts its first batch in a partition as delivered where the leader refused it, as one "
        "does that does not know its office yet, and took the batch behind it: a broker takes any first sequence of a "
        "producer that it does not know. The acknowledged record has no offset, and is nowhere."
    ),
    "librdkafka-new-epoch": (
        "librdkafka (up to 2.16.0) takes another producer epoch by itself when a broker refuses a batch because those "
        "before it are not there (its issue 4953), and sends under it whatever is not answered, also what has been "
        "written: no broker can know that again. Told of its idempotent producers outside of transactions, where all "
        "copies that anybody read were seen in the log, by the scan or before it, under one producer id, in epochs "
        "that grow with the offsets, and the producer was told of none but the last. That a broker refused without "
        "reason is not told from that."
    ),
    "librdkafka-validation": (
        "librdkafka (up to 2.16.0) asks a new leader where the epoch of its position ends (KIP-320), may have gone on "
        "when the answer comes, and takes it for one about its new position: it goes back, and reads again what it has "
        "read."
    ),
    "librdkafka-stale-leader": (
        "A broker that has not heard that it leads no more refuses an offset behind its own end, and of an epoch that "
        "it does not know it says that there is none before it (KIP-320). librdkafka (up to 2.16.0) takes either for "
        "a log that was cut, and starts over (`auto.offset.reset`). Told while a broker is paused or cut off from "
        "ZooKeeper, of a reader that goes back to where the log starts."
    ),
    "KAFKA-18137": (
        "A transaction coordinator of Apache Kafka before 4.0 may come back to its office with an empty cache, and "
        "write a new producer's state over a transaction that is open or prepared: nobody ends that any more. Told "
        "where the brokers are known to be of such a version, and the coordinators' log shows it of this very "
        "transaction; or where its coordinator answers COORDINATOR_LOAD_IN_PROGRESS for half a minute, in one epoch, "
        "when all is quiet: a load that ended with an error left its entry behind, and nothing takes that away; or "
        "where that log has it open in two epochs of the coordinator's office, or in the later one the producer's next "
        "transaction in its place, its end was acknowledged between, and the producer's next end in the log ends it as "
        "well: a load that ran late left a cache behind, and that answered. An end that the client never sent, or that "
        "the log lost, just as the office changed hands is not told from that."
    ),
    "KAFKA-17754": (
        "Under transactions of version 1 (before Kafka 4.0's, KIP-890, or with a client from before it) an EndTxn that "
        "comes late ends whatever transaction of that id is open by then: it can be torn, lost, or committed though it "
        "is aborted."
    ),
}
