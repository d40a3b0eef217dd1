"""The anomalies that `check` looks for: name, source of the name, definition, and the smallest history that shows
it."""

from __future__ import annotations

from typing import Final, NamedTuple


class Anomaly(NamedTuple):
    source: str
    definition: str
    example: str
    """One line for each operation, in the order of their ends; ``docs/judge.md`` describes the format."""


ANOMALIES: Final[dict[str, Anomaly]] = {
    "lost-write": Anomaly(
        "Jepsen",
        "A record was acknowledged, by itself or with its committed transaction, or a consumer read it. A scan that "
        "began later does not find it, although nobody deleted it and compaction did not overwrite it.",
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
        "Two acknowledged records of one idempotent producer are in a partition in another order than the producer "
        "sent them; or a record of any producer is before one that was already acknowledged when it was sent.",
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
        "A reader received a value that no client sent.",
        """
c read r/0@0 v=1
""",
    ),
    "misplaced-record": Anomaly(
        "ours",
        "A record was read from another partition than it was sent to, or with another key.",
        """
p send r/0@0 v=1
c read r/1@0 v=1
""",
    ),
    "internal-gap": Anomaly(
        "Jepsen (related to int-send-skip)",
        "In a partition that is not compacted, the scan found offsets with neither a record nor a marker, above the "
        "known start of the log. Offsets of lost writes are not counted again.",
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
        "In a compacted topic the scan found a record of a key, but not the acknowledged tombstone that came after it.",
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
        "A reader received a record from below the offset of an acknowledged DeleteRecords that had ended before the "
        "reader began with the partition.",
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
        "A committed reader received a record of a transaction that was aborted, or whose commit was never requested "
        "or certainly failed; or any reader received a record whose send certainly failed.",
        """
client c isolation=read_committed
p send r/0@0 v=1 t=1
p abort t=1
c read r/0@0 v=1
""",
    ),
    "precommitted-read": Anomaly(
        "Jepsen (dirty read)",
        "A committed reader received a record before a commit of its transaction was requested. A commit that "
        "certainly failed does not count.",
        """
client c isolation=read_committed
p send r/0@0 v=1 t=1
c read r/0@0 v=1
p commit t=1
""",
    ),
    "torn-transaction": Anomaly(
        "Adya's fractured read",
        "Of the records of one transaction that were acknowledged or consumed, committed readers find some but not "
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
        "A committed record of a key was written on another record than the one before it in the log (two on the same"
        " one, for example): the record between them is undone.",
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
        "Committed readers saw two different sums of a bank's accounts, although money is only moved between them.",
        """
a total @400 g=bank
b total @399 g=bank
""",
    ),
    "G0": Anomaly(
        "Adya",
        "Committed transactions form a cycle by the order of their records in partitions: T's records are before U's "
        "in one partition, and after them in another. Kafka does not isolate writes, so this is always the limit "
        "`writes-not-isolated`.",
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
        "A committed transaction read some records of another one in a partition, and ended before it read the last "
        "of them. In Kafka a poll may end anywhere, so this is always the limit `poll-within-transaction`.",
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
        "Committed transactions form a cycle in which each read a record that the one before it wrote. If some steps "
        "of the cycle are the order of writes, it is the limit `writes-not-isolated`.",
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
        "Within one assignment, a consumer received an offset that is not above the one before it, or that is below "
        "the start of the assignment.",
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
        "Within one assignment, a consumer did not receive a record that other readers with its isolation level "
        "received, between two records that it received, or between the start of the assignment and its first record.",
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
        "A partition's high watermark, last stable offset or log start offset was reported below a value that had "
        "been reported, read or, for the log start offset, deleted before the request; or a high watermark was "
        "reported below one of the other two.",
        """
a high-watermark r/0@5
b high-watermark r/0@4
""",
    ),
    "stale-committed-offset": Anomaly(
        "ours",
        "A group was told a committed offset although a later commit had been acknowledged, or told to somebody, "
        "before the request; or an offset that nobody had committed; or, of two concurrent commits, now the one and "
        "now the other.",
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
        "A group that commits its offsets in transactions has passed a record that none of these transactions has "
        "read.",
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
        "At the end committed readers stop below the high watermark, although every transaction in the partition has "
        "its marker.",
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
        "A partition has records of a transaction without a marker after them, although the transaction's end was "
        "acknowledged before the scan began, or its timeout had passed 30 s before that.",
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
        "The producer did not ask for acks=all: a leader that dies loses the records that its followers do not have "
        "yet."
    ),
    "unclean-leader-election": (
        "The topic allows a leader that was not in sync: it lacks records that other replicas had."
    ),
    "isolated-leader": (
        "A leader or coordinator that reaches neither ZooKeeper nor the other brokers does not know that another "
        "broker has taken over its role. Until its links are back, clients that still reach it get outdated answers."
    ),
    "log-start-checkpoint": (
        "A killed broker restores the start offsets of its logs from a checkpoint, which may be a minute old "
        "(`log.flush.start.offset.checkpoint.interval.ms`): records that were deleted since then may come back."
    ),
    "no-idempotence": (
        "The producer was not idempotent: a record that it sends again may be there twice, and behind later records."
    ),
    "writes-not-isolated": (
        "Kafka's transactions are atomic, but they are not isolated from each other: their records interleave."
    ),
    "poll-within-transaction": (
        "A poll, and so a transaction that reads, may end between two records of another transaction."
    ),
    "franz-go-sequence-reuse": (
        "franz-go (up to 1.22.2) gives up a record of a transaction that a leader may have appended before it lost "
        "its leadership, and sends the next record to that partition with the same producer epoch and sequence. The "
        "broker takes it for a repetition of the record that it has: it acknowledges the new record without appending"
        " it."
    ),
    "librdkafka-first-batch": (
        "A leader that does not know its leadership yet refuses the first batch of a producer in a partition. Later "
        "it takes the second batch, because a broker takes any first sequence of a producer that it does not know. "
        "librdkafka (2.16.0) then counts the first batch as delivered: the acknowledged record has no offset, and is "
        "in no log."
    ),
    "librdkafka-new-epoch": (
        "When a broker refuses a batch because the batches before it are missing (librdkafka's issue 4953), "
        "librdkafka (up to 2.16.0) takes another producer epoch by itself. Under it, librdkafka sends all unanswered "
        "records again, even written ones, which no broker can recognize. The limit holds for idempotent producers "
        "outside of transactions, if all copies that anybody read were seen in the log (by the scan or before it), "
        "under one producer id, in epochs that grow with the offsets, and if the producer was told of none but the "
        "last copy. A broker that refuses a batch without reason has the same effect."
    ),
    "librdkafka-validation": (
        "librdkafka (up to 2.16.0) asks a new leader where the epoch of its position ends (KIP-320). If it has read "
        "on before the answer comes, it still applies the answer to its new position: it goes back, and reads records"
        " again."
    ),
    "librdkafka-stale-leader": (
        "A broker that does not know yet that it has lost a leadership refuses an offset beyond its own log's end; "
        "and if it is asked about an epoch that it does not know, it answers that there is none before it (KIP-320). "
        "librdkafka (up to 2.16.0) takes either answer for a truncated log, and starts over (`auto.offset.reset`). "
        "The limit holds for a reader that goes back to the start of the log, while a broker is paused or cut off "
        "from ZooKeeper."
    ),
    "KAFKA-18137": (
        "A transaction coordinator of Apache Kafka before 4.0 may regain its role with an empty or outdated cache, "
        "and then nobody ends an open or prepared transaction any more. The limit holds only if the brokers are known"
        " to have such a version, and in one of three cases. 1: The coordinators' log shows that a new producer's "
        "state was written over this very transaction. 2: The coordinator answers COORDINATOR_LOAD_IN_PROGRESS for "
        "half a minute, in one epoch, without any load: a failed load of its log left an entry behind that is never "
        "removed. 3: The log has the transaction open in two epochs of the coordinator, or in the later epoch the "
        "producer's next transaction in its place; its end was acknowledged in between; and the producer's next end "
        "in the log ends it as well: a late load left an outdated cache behind, from which that end was answered. An "
        "end that the client never sent, or that the log lost, at such a change of the coordinator looks the same."
    ),
    "KAFKA-17754": (
        "With transactions of version 1 (before Kafka 4.0's, KIP-890, or with a client from before it) a late EndTxn "
        "ends whatever transaction of that id is open when it arrives. That transaction can be torn, lost, or "
        "committed although it is aborted."
    ),
}
