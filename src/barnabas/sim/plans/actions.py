"""The names an action of a plan may have, and what each means: faults of 39 kinds, clients, and administrators.

Where an argument is a `node`, it is a node's name (``broker-1``, ``zookeeper``) or a role that is looked up when the
action begins: ``controller``, ``leader:topic-0``, ``follower:topic-0`` (the first of the ISR that does not lead).

Every fault takes `when`, `nth` and `later_ms`: it strikes at the n-th event of that kind from its time on, or so long
behind it, and lasts from there (`barnabas.sim.plans.events`).
"""

from __future__ import annotations

from typing import Final

FAULTS: Final[dict[str, str]] = {
    # processes
    "kill": "node, also one of those that `transact` or `work`. kill -9; the page cache stays. Started again when the "
    "action is over",
    "blackout": "coordinator. kill -9 of all brokers at once, and of ZooKeeper as well. Started again when it is over",
    "power-loss": "node. The page cache goes, peers are not told. Started again when the action is over",
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
    "half-open": "links. Connections of the two lose their peer; nobody is told, new ones work",
    "slow-reader": "node. It reads nothing from its connections",
    "fragment": "links. Every write arrives in pieces of a few bytes",
    "clog": "links, wave_ns. Cut and healed in waves",
    "refuse": "links. New connections are refused",
    "lose-reply": "node, api, count. The next replies to that API that leave node are lost with their connection",
    "bit-flip": "links, count. A bit of the next records that pass is another",
    "intruder": "node. Somebody asks for too much, in one way after the other, amid whatever else happens",
    # disks
    "eio-read": "node, path (a log directory; all by default, here and below). Reads of log files fail",
    "eio-write": "node, path, after, suffix (of the files; all by default). Writes fail from the n-th on",
    "eio-fsync": "node, path. fsync fails once, and the pages it was to write are lost",
    "enospc": "node, free. So many bytes are left; the write that needs more is cut short",
    "torn-sector": "node. Power is lost, and of the last page only some sectors were written",
    "lost-pages": "node. Power is lost, and any subset of the unsynced pages",
    "lost-rename": "node. Power is lost, and with it every name that was not synced",
    "bit-rot": "node. One bit of a closed part of a log is another",
    "slow-fsync": "node, takes_ns. fsync takes so long",
    "dir-gone": "node, path. The log directory's device is gone: every operation fails",
    # clocks
    "clock-jump": "node, by_ms. The wall clock jumps, and jumps back when the action is over",
    "clock-drift": "node, parts_per_million. The wall clock goes too fast or slow",
    # ZooKeeper
    "zk-loss": "node, applied. The node's connection is lost with its request applied or not",
    "zk-expire": "node. The server ends the node's session",
    "zk-stale": "node. The node's front end is behind; reads are old until it asks for sync",
    "zk-late": "node, by_ns. Ephemeral znodes of ended sessions go late, and so do watches",
    "zk-auth-fail": "node. New sessions are refused as if authentication had failed",
}

CLIENTS: Final[dict[str, str]] = {
    "produce": "client, topic, records, acks, idempotent, sequence, linger_ms, request_timeout_ms, "
    "delivery_timeout_ms, batch_bytes, compression, skew_ms (timestamps are up to so much before or after now), "
    "headers, keys (so few, those of end markers among them), keyless (so many of a hundred have none), tombstones (a "
    "key is deleted behind so many of a hundred), at_once (so many of them). Distinct values over its duration",
    "transact": "client, topic, also (another topic, for some records), keys, transactional_id (another client's, "
    "which this one succeeds), records, transaction_timeout_ms, delivery_timeout_ms, request_timeout_ms, batch_bytes, "
    "nap_ms (the first that is written to stays open for so long), dawdle_ms (from record to record). A few records at "
    "once; some transactions are slow, some are aborted, and now and then it begins anew",
    "pipeline": "client, topic, records, transactional. Several batches of a partition are under way at once, as with "
    "the producers of Java and of librdkafka",
    "produce-old": "client, topic, records. Messages of magic 0 and 1, some of them in wrappers, by Produce 0 to 2",
    "consume": "client, topic, isolation, rack (it reads from the replica there), sessions (it fetches in some), "
    "fetch_version (the version of an old one). Follows every partition to its end",
    "stranger": "node. Somebody connects and sends what is no request",
    "silent-member": "client, group, topic. Joins a group and sends heartbeats, and never asks for its share",
    "group": "client, group, topic, also (another topic, from also_ms on), session_timeout_ms, rebalance_timeout_ms, "
    "assignors (names, the best first), static, stays (until all has healed and is read), auto_commit_ms (its consumer "
    "commits by itself), sessions, fetch_version. A member of a consumer group that commits what it has read",
    "roam": "as group, and pattern (it subscribes by one), instance (the name of another that is static). A member "
    "with habits: it holds partitions back, goes back, is busy for too long, takes other topics, and begins anew",
    "visit": "client, group, topic, partitions (of the topic). A member that speaks the group's protocol by hand, and "
    "wrongly now and then",
    "tend": "client, group, topic, fences (a transactional id). Describes groups and transactions, deletes what a "
    "group has committed, or the group, where that is possible, and fences a producer",
    "wander": "client, topic, isolation, in_group. Goes back and forth in what it reads",
    "keep-books": "client, topic, pause_ms, thorough (several transactions at once, and offsets that are kept for a "
    "while), also (another group that these commit for). Commits for a group without members, some of it in "
    "transactions, and deletes what is committed, as tools do",
    "ask": "client, group, topic. What the group has committed, which groups and transactions are there, lookups",
    "survey": "client. What is set of topics and brokers, which moves are under way, what is in directories",
    "keep": "client, passing (also what goes by itself). An application that writes znodes of its own, several at "
    "once, some of them ephemeral",
    "look-on": "client. Follows those by watches",
    "mirror": "client, recursive (one watch for all). Has a copy of those, and reads again what watches tell of alone",
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
    "legacy-reassign": "topic, partition, also (other partitions' names), replicas. By /admin/reassign_partitions, as "
    "tools before KIP-455",
    "legacy-elect": "topic. Preferred election by /admin/preferred_replica_election, as tools before KIP-460",
    "legacy-delete": "topic, or what is none. By /admin/delete_topics, as tools before KIP-4",
    "legacy-grow": "topic. One more partition, by the topic's znode, as tools before KIP-195",
    "elect": "topic, unclean. Preferred or unclean election of every partition",
    "config": "topic, or broker (neither: of all brokers), key, value, operation (SET; DELETE, APPEND, SUBTRACT)",
    "quota": "user, client-id, ip (some of them; an empty name: who has none of its own), key, value (none: removed)",
    "permit": "topic, user. An ACL by which the user may read the topic",
    "forbid": "topic, user. That ACL is taken back",
    "delete-records": "topic, partition, share (half by default; 1: all that is committed). So much of what is there",
    "move-replica": "topic, partition, broker, path. To another of its log directories",
    "lookup": "topic, partition, back_ms. The first record that is not older than so long ago",
    "depose": "The controller's znode is deleted: another broker, or the same, is elected",
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
"""What a run evaluates, beside S4: an exception that nobody caught is always a finding."""
