"""Which plays provoke which kind of bug, and plays of their own for bugs that a drawn plan meets too seldom.

A play is a scenario (`barnabas.sim.scenarios`): a plan with an expectation of its end.
"""

from __future__ import annotations

from typing import Any, Final

from mutants.table import Mutant

from barnabas.sim.plans.plan import Plan
from barnabas.sim.run import Outcome
from barnabas.sim.scenarios import SCENARIOS, Scenario, at, plan, produce

Step = tuple[float, float, str, dict[str, Any]]

OF_PROFILE: Final[dict[str, tuple[str, ...]]] = {
    "GC": ("zombie-controller", "controller-failover"),
    "ZKX": ("session-expiry", "controller-failover"),
    "BNC": ("broker-bounce", "duplicate-broker-id"),
    "SHUT": ("controlled-shutdown",),
    "LDRx2": ("kip-101", "kip-279"),
    "UNCLEAN": ("unclean-election", "kip-279"),
    "KILL": ("isr-shrink-and-expand", "controller-failover", "last-replica-standing"),
    "DLY": ("isr-shrink-and-expand",),
    "PART": ("isr-shrink-and-expand", "kip-279"),
    "REAS": ("reassignment",),
    "ADMIN": ("deletion-with-a-dead-broker",),
}

_LEADER: Final = "leader:orders-0"
_FOLLOWER: Final = "follower:orders-0"
_BROKERS: Final = ["broker-0", "broker-1", "broker-2"]


def _nothing_more(_: Outcome) -> tuple[str, ...]:
    """The invariants say it all."""
    return ()


def _own(bug: str, plan: Plan) -> tuple[str, Scenario]:
    return bug, Scenario(bug, f"provokes {bug}", "", plan, _nothing_more)


_OF_THE_TOPIC: Final = {
    "segment_bytes": "segment.bytes",
    "retention_ms": "retention.ms",
    "unclean": "unclean.leader.election.enable",
}


def _plan(*steps: Step, length: float, brokers: int = 3, min_isr: int = 2, **config: Any) -> Plan:
    configs = {"min.insync.replicas": str(min_isr)}
    for name, key in _OF_THE_TOPIC.items():
        if name in config:
            configs[key] = str(config.pop(name))
    own = {key.replace("_", "."): str(value) for key, value in config.items()}
    return plan(*steps, length=length, brokers=brokers, configs=configs, config=own)


_CUT_FOLLOWER: Final = at(2, "partition", 17, node=_FOLLOWER, others=[_LEADER])

OWN: Final = dict(
    (
        # A controller that is slow to reach ZooKeeper is deposed while it begins a reassignment.
        _own(
            "B02",
            _plan(
                produce(24),
                at(2.5, "delay", 14, links=["controller>zookeeper"], delay_ns=1_500_000_000),
                at(3, "reassign", topic="orders", partition=0, replicas=[1, 2, 3]),
                at(3.7, "depose"),
                length=26,
                brokers=4,
            ),
        ),
        # Controllers come and go, and so do topics.
        _own(
            "B04",
            _plan(
                produce(30),
                *(
                    step
                    for number in range(6)
                    for step in (
                        at(2 + 4 * number, "create-topic", topic=f"new-{number}", partitions=1, replication_factor=3),
                        at(4 + 4 * number, "depose"),
                        at(5.2 + 4 * number, "delete-topic", topic=f"new-{number}"),
                    )
                ),
                length=30,
            ),
        ),
        # A replica is told of the last epoch and gets nothing to copy; then it is not wanted any more.
        _own(
            "B10",
            _plan(
                produce(15),
                at(1.9, "lose-reply", 5, node=_LEADER, api="Fetch", count=1_000),
                at(2, "reassign", topic="orders", partition=0, replicas=[0, 1, 2]),
                at(5, "cancel-reassignment", topic="orders", partition=0),
                length=16,
                brokers=4,
            ),
        ),
        # The first connections after an expiry are refused.
        _own(
            "B12",
            _plan(
                produce(20),
                at(2.9, "refuse", 3, links=["broker-1>zookeeper"]),
                at(3, "zk-expire", node="broker-1"),
                length=20,
            ),
        ),
        # The controller's connection goes, its session stays; a topic is made afterwards.
        _own(
            "B13",
            _plan(
                produce(15),
                at(3, "reset", links=["controller>zookeeper", "zookeeper>controller"]),
                at(5, "create-topic", topic="new", partitions=1, replication_factor=3),
                length=15,
            ),
        ),
        # The answers to the leader's changes of the ISR are lost.
        _own(
            "B16",
            _plan(
                produce(30),
                _CUT_FOLLOWER,
                at(1, "lose-reply", 30, node="controller", api="AlterPartition", count=3),
                length=32,
            ),
        ),
        # A change of the ISR is on its way while the controller raises the leader epoch.
        _own(
            "B17",
            _plan(
                produce(36),
                _CUT_FOLLOWER,
                at(10, "delay", 12, links=["controller>leader:orders-0"], delay_ns=4_000_000_000),
                at(14, "reassign", topic="orders", partition=0, replicas=[1, 2, 0]),
                length=36,
                brokers=4,
            ),
        ),
        # Nobody writes any more when the ISR shrinks.
        _own("B18", _plan(produce(5), _CUT_FOLLOWER, length=30)),
        # The replica that is removed hears of it late, and goes on fetching.
        _own(
            "B20",
            _plan(
                produce(24, 400),
                at(3, "delay", 15, links=["controller>broker-3"], delay_ns=3_000_000_000),
                at(4, "reassign", topic="orders", partition=0, replicas=[1, 2, 0]),
                length=26,
                brokers=4,
            ),
        ),
        # A follower is elected while it waits for an answer of the leader; nobody writes meanwhile.
        _own(
            "B21",
            _plan(
                at(0.2, "create-topic", topic="others", partitions=6, replication_factor=3),
                *(
                    step
                    for begins, replicas in ((0, [1, 2, 0]), (14, [2, 0, 1]))
                    for step in (
                        at(begins, "produce", 4.3, client=f"producer-{begins}", topic="orders", records=300, acks=1),
                        at(begins + 1, "reassign", topic="orders", partition=0, replicas=replicas),
                        at(
                            begins + 3.9,
                            "delay",
                            0.6,
                            links=[f"leader:orders-0>broker-{replicas[0]}"],
                            delay_ns=2_500_000_000,
                        ),
                        at(begins + 4.4, "elect", topic="orders", unclean=False),
                    )
                ),
                length=30,
            ),
        ),
        # Whoever is elected does not hear of it.
        _own(
            "B24",
            _plan(
                produce(22),
                at(3, "kill", 12, node="controller"),
                *(at(8.5, "zk-loss", 3, node=node, applied=True, count=1) for node in _BROKERS),
                length=22,
            ),
        ),
        # Two failovers without a record written in between.
        *(
            _own(
                bug,
                _plan(
                    produce(2, 60, acks=1),
                    at(4, "kill", 9, node=_LEADER),
                    at(16, "partition", 9, node=_LEADER, others=[*_BROKERS, "zookeeper"]),
                    at(28, "produce", 6, client="second", topic="orders", records=60, acks=1, idempotent=False),
                    length=36,
                    min_isr=1,
                ),
            )
            for bug in ("B30", "B34", "B44")
        ),
        # A leader that is cut off from all but its clients goes on appending, and comes back with that tail.
        _own(
            "B36",
            _plan(
                produce(28, 400, acks=1),
                at(3, "partition", 14, node=_LEADER, others=[*_BROKERS, "zookeeper"]),
                at(12, "produce", 10, client="second", topic="orders", records=150, acks=-1, idempotent=True),
                length=30,
            ),
        ),
        # Two of three are gone, and somebody writes with acks=1.
        _own(
            "B38",
            _plan(
                produce(26, 300, acks=1),
                at(2, "kill", 20, node=_FOLLOWER),
                at(12, "kill", 12, node=_FOLLOWER),
                length=28,
            ),
        ),
        _own("B39", _plan(produce(20, 400), at(3, "kill", 12, node=_FOLLOWER), length=20)),
        # A clean stop, then again and again half a page of what was not synced.
        _own(
            "B52",
            _plan(
                at(0, "produce", 40, client="producer", topic="orders", records=1_500, bytes=200),
                at(1, "shutdown", 1, node="broker-1"),
                *(at(seconds, "lost-pages", 0.5, node="broker-1") for seconds in (7, 17, 27)),
                length=42,
                segment_bytes=8_000,
            ),
        ),
        # Leadership moves on, and nobody tells the producer.
        _own(
            "B47",
            _plan(
                produce(30, 1_500, acks=0),
                at(3, "reassign", topic="orders", partition=0, replicas=[1, 2, 0]),
                at(10, "reassign", topic="orders", partition=0, replicas=[2, 0, 1]),
                *(at(seconds, "elect", topic="orders", unclean=False) for seconds in (5, 12)),
                length=32,
            ),
        ),
        # Segments are rolled, and the pages of some are lost.
        _own(
            "B53",
            _plan(
                at(0, "produce", 40, client="producer", topic="orders", records=1_500, bytes=200),
                *(at(seconds, "lost-pages", 0.5, node="broker-1") for seconds in (9, 27)),
                length=42,
                segment_bytes=8_000,
            ),
        ),
        # A clean stop; the names go with the next loss of power, and half a page.
        _own(
            "B54",
            _plan(
                at(0, "produce", 40, client="producer", topic="orders", records=1_500, bytes=200),
                *(
                    step
                    for begins in (1, 11, 21)
                    for step in (
                        at(begins, "shutdown", 1, node="broker-1"),
                        at(begins + 2.8, "lost-rename", 0.5, node="broker-1"),
                    )
                ),
                length=42,
            ),
        ),
        # Who comes back has to wait for its old session, and for the first word of a controller.
        _own(
            "B40",
            _plan(produce(20), at(3, "bounce", 0.1, node="broker-1"), at(7, "kill", 1, node="broker-1"), length=20),
        ),
        # The time index has room for the last entry alone, so that an empty segment is full.
        _own(
            "B56",
            _plan(
                produce(18, 200),
                at(3, "kill", 4, node=_LEADER),
                length=20,
                segment_bytes=400,
                log_index_size_max_bytes=16,
            ),
        ),
        # Topics go while a slow disk keeps a broker at the flushing of one log after the other.
        _own(
            "B57",
            _plan(
                produce(30, 600),
                *(
                    step
                    for n in range(6)
                    for step in (
                        at(0.3 * n + 0.3, "create-topic", topic=f"new-{n}", partitions=4, replication_factor=3),
                        at(
                            0.3 * n + 0.6,
                            "produce",
                            9,
                            client=f"other-{n}",
                            topic=f"new-{n}",
                            records=200,
                            acks=1,
                            idempotent=False,
                        ),
                    )
                ),
                at(6, "slow-fsync", 22, node="broker-2", takes_ns=150_000_000),
                *(at(13.2 + 0.1 * n, "delete-topic", topic=f"new-{n}") for n in (5, 4, 3, 2)),
                length=32,
                log_segment_delete_delay_ms=1,
            ),
        ),
        # A leader sends its follower a batch of which a bit is another.
        _own(
            "B49",
            _plan(
                produce(24, 400),
                at(3, "bit-flip", 10, links=[f"{a}>{b}" for a in _BROKERS for b in _BROKERS if a != b], count=2),
                length=26,
            ),
        ),
        # A record of the group is larger than what is read at once, and then another broker coordinates.
        _own(
            "B71",
            _plan(
                produce(30),
                at(1, "group", 26, client="member", group="readers", topic="orders"),
                at(8, "kill", 4, node="leader:__consumer_offsets-1"),
                length=30,
                offsets_load_buffer_size="100",
            ),
        ),
        # Whoever coordinates stands still, another takes over and gives it back.
        _own(
            "B70",
            _plan(
                produce(40),
                at(1, "group", 19, client="member", group="readers", topic="orders"),
                at(4, "pause", 9, node="leader:__consumer_offsets-1"),
                at(22, "elect", topic="__consumer_offsets", unclean=False),
                length=40,
            ),
        ),
        # Two members that come within half a second, to a group that is not there yet.
        _own(
            "B74",
            _plan(
                produce(20),
                at(0.2, "group", 4, client="member-0", group="others", topic="orders"),
                at(5, "group", 14, client="member-1", group="readers", topic="orders"),
                at(5.45, "group", 14, client="member-2", group="readers", topic="orders"),
                length=22,
            ),
        ),
        # A member that is never heard of again except by its heartbeat.
        _own(
            "B73",
            _plan(
                produce(40),
                at(1, "group", 36, client="member", group="readers", topic="orders"),
                at(6, "silent-member", 30, client="silent", group="readers", topic="orders"),
                length=40,
            ),
        ),
        # The last sequence numbers that there are.
        _own(
            "B83",
            _plan(
                at(
                    0,
                    "produce",
                    10,
                    client="producer",
                    topic="orders",
                    records=60,
                    acks=-1,
                    idempotent=True,
                    sequence=2**31 - 20,
                ),
                length=12,
            ),
        ),
        # All that a producer wrote has gone by age when another replica, that is new, begins to lead.
        _own(
            "B84",
            _plan(
                at(0, "produce", 60, client="producer", topic="orders", records=10, acks=-1, idempotent=True),
                *(
                    at(10 * n + 10, "reassign", topic="orders", partition=0, replicas=replicas)
                    for n, replicas in enumerate(([3, 4], [0, 1], [2, 3], [4, 0]))
                ),
                length=62,
                brokers=5,
                retention_ms="2000",
                log_retention_check_interval_ms="1000",
            ),
        ),
        # Offsets are looked at for expiry while the group is at work.
        _own(
            "B72",
            _plan(
                produce(20),
                at(1, "group", 18, client="member", group="readers", topic="orders"),
                length=20,
                offsets_retention_check_interval_ms="2000",
            ),
        ),
        # A stranger sends what is no request, and leaves without a word.
        *(
            _own(bug, _plan(produce(70, 50), at(2, "stranger", node="broker-1"), length=94))
            for bug in ("B88", "B89", "B90")
        ),
        # Answers to the producer are lost, and it sends again.
        _own(
            "B87",
            _plan(
                produce(15, 300),
                at(0, "produce", 15, client="second", topic="orders", records=200, acks=-1, idempotent=True),
                *(at(2 + second, "lose-reply", 0.9, node=_LEADER, api="Produce", count=2) for second in range(8)),
                length=16,
            ),
        ),
    )
)
"""By bug."""


def plays_for(mutant: Mutant) -> list[str]:
    """General ones first: a bug that they provoke needs none of its own."""
    own = [mutant.bug] if mutant.bug in OWN else []
    return list(dict.fromkeys([*(name for each in mutant.profiles for name in OF_PROFILE.get(each, ())), *own]))


def play_of(name: str) -> Scenario:
    return OWN.get(name) or SCENARIOS[name]
