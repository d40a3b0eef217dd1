"""The names of a plan's actions, their arguments, and what each does: 39 faults, clients, and administrators.

A `node` is a node's name (``broker-1``, ``zookeeper``) or a role that is looked up when the action begins:
``controller``, ``leader:topic-0``, ``follower:topic-0`` (the first member of the ISR that does not lead).

Every fault takes `when`, `nth` and `later_ms`: it strikes at the n-th such event from its time on, or so long after it,
and lasts from there (`barnabas.sim.plans.events`).
"""

from __future__ import annotations

from typing import Final

FAULTS: Final[dict[str, str]] = {
    # processes
    "kill": "node, also a client that `transact`s or `work`s. kill -9; the page cache stays. Started again when the "
    "action is over",
    "blackout": "coordinator. kill -9 of all brokers at once, perhaps also of ZooKeeper. Started again when it is over",
    "power-loss": "node. The page cache is lost, peers are not told. Started again when the action is over",
    "pause": "node. Stopped as by SIGSTOP until the action is over",
    "bounce": "node. kill -9 and a start, both within the session timeout",
    "slow-start": "node. Killed; when it starts again, every callback of its first seconds is late",
    "shutdown": "node. Controlled shutdown. Started again when the action is over",
    "twin": "node. A second process with the same broker id tries to start on a machine of its own",
    "slow-cpu": "node, lag_ns. Every callback is late by up to this much",
    # network; `links` are "a>b", one way each
    "partition": "node, others. No byte in either direction",
    "one-way": "node, others. No byte from node to the others",
    "delay": "links, delay_ns. Added to every byte's way",
    "jitter": "links, jitter_ns. Mean of an exponential delay, drawn per delivery",
    "reset": "links. All connections between the two are reset",
    "half-open": "links. Connections between the two are dead, and neither side is told; new ones work",
    "slow-reader": "node. It reads nothing from its connections",
    "fragment": "links. Every write arrives in pieces of a few bytes",
    "clog": "links, wave_ns. Cut and healed in waves",
    "refuse": "links. New connections are refused",
    "lose-reply": "node, api, count. The next answers to that API that leave node are lost with their connection",
    "bit-flip": "links, count. A bit flips in each of the next records that pass",
    "intruder": "node. Somebody sends requests that ask for too much, whatever else happens",
    # disks
    "eio-read": "node, path (a log directory; by default all, here and below). Reads of log files fail",
    "eio-write": "node, path, after, suffix (of the files; by default all). Writes fail after so many",
    "eio-fsync": "node, path. fsync fails once and loses its pages",
    "enospc": "node, free. So many bytes are left; a write that needs more is cut short",
    "torn-sector": "node. Power is lost while the last page is written: only some of its sectors are",
    "lost-pages": "node. Power is lost, and with it any subset of the unsynced pages",
    "lost-rename": "node. Power is lost, and with it every unsynced name",
    "bit-rot": "node. One bit of a log's closed part flips",
    "slow-fsync": "node, takes_ns. Each fsync takes so long",
    "dir-gone": "node, path. The log directory's device is gone: every operation fails",
    # clocks
    "clock-jump": "node, by_ms. The wall clock jumps, and jumps back when the action is over",
    "clock-drift": "node, parts_per_million. The wall clock goes too fast or slow",
    # ZooKeeper
    "zk-loss": "node, applied. The node's connection is lost with its request applied or not",
    "zk-expire": "node. The server ends the node's session",
    "zk-stale": "node. Its front end is behind: reads are old until it asks for sync",
    "zk-late": "node, by_ns. Ephemeral znodes of ended sessions are deleted late, and watches fire late",
    "zk-auth-fail": "node. New sessions are refused as if authentication had failed",
}

CLIENTS: Final[dict[str, str]] = {
    "produce": "client, topic, records, acks, idempotent, sequence, linger_ms, request_timeout_ms, "
    "delivery_timeout_ms, batch_bytes, compression, skew_ms (how far timestamps are from now, at most), headers, "
    "keys (how many, those of end markers among them), keyless (percent without a key), tombstones (percent followed "
    "by a tombstone), at_once (records at a time). Writes distinct values over its duration",
    "transact": "client, topic, also (another topic, for some records), keys, transactional_id (another client's, "
    "which this one takes over), records, transaction_timeout_ms, delivery_timeout_ms, request_timeout_ms, "
    "batch_bytes, nap_ms (how long its first transaction stays open), dawdle_ms (between records). Transactions of a "
    "few records; some are slow, some are aborted, and now and then it begins again",
    "pipeline": "client, topic, records, transactional. Has several batches of a partition in flight, as the "
    "producers of Java and librdkafka do",
    "produce-old": "client, topic, records. Writes messages of magic 0 and 1, some of them in wrappers, by Produce 0 "
    "to 2",
    "consume": "client, topic, isolation, rack (it reads from the replica there), sessions (it fetches within fetch "
    "sessions), fetch_version (of an old client). Reads every partition to its end",
    "stranger": "node. Somebody connects and sends what is no request",
    "silent-member": "client, group, topic. Joins a group and sends heartbeats, and never asks for its assignment",
    "group": "client, group, topic, also (another topic, from also_ms on), session_timeout_ms, rebalance_timeout_ms, "
    "assignors (names, the preferred one first), static, stays (until all has healed and is read), auto_commit_ms, "
    "sessions, fetch_version. A member of a consumer group that commits what it has read",
    "roam": "as group, and pattern (it subscribes by one), instance (another member's static name). A member that "
    "pauses partitions, seeks back, is busy for too long, changes its subscription, and begins again",
    "visit": "client, group, topic, partitions (of the topic). A member that speaks the group's protocol by hand, "
    "now and then wrongly",
    "tend": "client, group, topic, fences (a transactional id). Describes groups and transactions, deletes committed "
    "offsets or a group where that is possible, and fences a producer",
    "wander": "client, topic, isolation, in_group. A consumer that seeks back and forth",
    "keep-books": "client, topic, pause_ms, thorough (several transactions at once, and offsets that expire), also "
    "(another group that the transactions commit for). Commits for a group without members, also in transactions, and "
    "deletes committed offsets, as tools do",
    "ask": "client, group, topic. Asks for committed offsets, groups and transactions, and looks up offsets",
    "survey": "client. Asks for settings of topics and brokers, moves under way, and log directories",
    "keep": "client, passing (also containers and znodes with a time to live). An application that writes znodes of "
    "its own, several at once, some of them ephemeral",
    "look-on": "client. Watches those znodes",
    "mirror": "client, recursive (one watch for all). Keeps a copy of those, and reads again only what a watch names",
    "work": "client, topic, session_timeout_ms, transaction_timeout_ms, delivery_timeout_ms, dawdle_ms (before some "
    "commits). Writes a result of each record exactly once",
}

ADMINISTRATION: Final[dict[str, str]] = {
    "create-topic": "topic, partitions, replication_factor, or replicas (the first partition's, then in turn)",
    "delete-topic": "topic",
    "recreate-topic": "topic, partitions. Deleted and created again at once",
    "add-partitions": "topic, partitions",
    "reassign": "topic, partition, replicas",
    "cancel-reassignment": "topic, partition",
    "legacy-reassign": "topic, partition, also (other partitions' names), replicas. By /admin/reassign_partitions, "
    "as tools before KIP-455",
    "legacy-elect": "topic. Preferred election by /admin/preferred_replica_election, as tools before KIP-460",
    "legacy-delete": "topic, or what is none. By /admin/delete_topics, as tools before KIP-4",
    "legacy-grow": "topic. One more partition, by the topic's znode, as tools before KIP-195",
    "elect": "topic, unclean. Preferred or unclean election of every partition",
    "config": "topic, or broker (neither: of all brokers), key, value, operation (SET; DELETE, APPEND, SUBTRACT)",
    "quota": "user, client-id, ip (some of them; an empty name is the default), key, value (none: removed)",
    "permit": "topic, user. Adds an ACL by which the user may read the topic",
    "forbid": "topic, user. Removes that ACL",
    "delete-records": "topic, partition, share (half by default; 1: all committed records). Deletes that share of "
    "the records",
    "move-replica": "topic, partition, broker, path. Moves the replica to that log directory of its broker",
    "lookup": "topic, partition, back_ms. Looks up the first record that is no older than that",
    "depose": "Deletes the controller's znode: another broker, or the same, is elected",
    "rolling-restart": "pause_ns, version (of the protocol among brokers, from now on). Each broker in turn: "
    "controlled shutdown, start",
}

INVARIANTS: Final = (
    "C1", "C2", "C3", "C4", "C5", "C6", "C7", "C8", "C9", "C10", "C11", "C12", "C13", "C14", "C15", "C16", "C17", "C18",
    "C19", "C20", "C21", "C22", "C23", "C24", "C25", "C26",
    "R1", "R2", "R3", "R4", "R5", "R6", "R7", "R8", "R9", "R10", "R11", "R12", "R13", "R14", "R15", "R16", "R17", "R18",
    "R19", "R20", "R22", "R23", "R24", "R25", "R26", "R27", "R28", "R29", "R30", "R31",
    "T1", "T2", "T3", "T4", "T5", "T6", "T7", "T8", "T9", "T10",
    "G1", "G2", "G3", "G4", "G5", "G6", "G7", "G8", "G9", "G10", "L1",
)  # fmt: skip
"""What a run evaluates, besides S2 and S4: an exception that nobody caught is always a violation."""
