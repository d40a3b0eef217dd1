"""What controllers owe, and what administrators are told: of each question a violation is made, by hand, in a cluster
that is well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import Any, Final

import pytest
from test_sim_invariants import Cluster, broken_by, invariant_of, patched

from barnabas.client.admin import NewTopic
from barnabas.controller.context import ControllerContext
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.sim.clients.znode_tools import znodes_are_heeded
from barnabas.sim.judges import watch_proposals
from barnabas.sim.judges.judgement import Judgement
from barnabas.sim.judges.watch_duties import DELETIONS, MOVES, NOTES, PREFERRED
from barnabas.sim.judges.watch_told import Asked

A_MINUTE: Final = 60_000_000_000
PARTITION: Final = TopicPartition("orders", 0)


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def ruling(cluster: Cluster) -> tuple[str, ControllerContext]:
    name = cluster.world.controller()
    assert name is not None
    reign = cluster.world.brokers[name].controller.reign
    assert reign is not None
    return name, reign.context


def is_owed_for_a_minute(cluster: Cluster) -> None:
    """It is looked at, and then again, when nothing has come of it; all were well meanwhile."""
    duties, loop = cluster.checkers.duties, cluster.world.loop
    duties.look_once_more()
    duties._since_ns = dict.fromkeys(duties._since_ns, loop.now_ns - A_MINUTE)
    with (
        patched(cluster.ensemble, "is_known_since", lambda *_: True),
        patched(duties, "_reached_since", lambda *_: 0),
        patched(duties, "_calm_since_ns", dict.fromkeys(cluster.world.broker_names, 0)),
    ):
        duties.look_once_more()
    duties._since_ns.clear()


def with_znode(cluster: Cluster, path: str, data: bytes) -> None:
    znode = cluster.world.znode
    with patched(cluster.world, "znode", lambda asked: data if asked == path else znode(asked)):
        is_owed_for_a_minute(cluster)


def with_children(cluster: Cluster, path: str, names: list[str]) -> None:
    children = cluster.world.children
    with patched(cluster.world, "children", lambda asked: names if asked == path else children(asked)):
        is_owed_for_a_minute(cluster)


def goes_by(cluster: Cluster, **other: Any) -> None:
    """A broker knows something else of a partition, when all is over."""
    metadata = cluster.world.brokers["broker-1"].metadata
    kept, orders = metadata.image, metadata.image.topics["orders"]
    changed = {**orders.partitions, 0: replace(orders.partitions[0], **other)}
    metadata.image = replace(kept, topics={**kept.topics, "orders": replace(orders, partitions=changed)})
    cluster.run(Judgement(cluster.checkers).caches_agree())
    metadata.image = kept


def c14_of_a_replica_that_counts_as_offline(cluster: Cluster) -> None:
    goes_by(cluster, offline_replicas=(2,))


def c14_of_replicas_that_were(cluster: Cluster) -> None:
    goes_by(cluster, replicas=(0, 9))


def c25_of_a_partition_without_a_leader(cluster: Cluster) -> None:
    kept = cluster.ensemble.states["orders-0"]
    cluster.ensemble.states["orders-0"] = {**kept, "leader": -1}
    is_owed_for_a_minute(cluster)
    cluster.ensemble.states["orders-0"] = kept


def c25_of_a_move_that_is_over(cluster: Cluster) -> None:
    seen = cluster.ensemble.topics["orders"]
    seen.removing[0] = seen.replicas[0][-1:]
    is_owed_for_a_minute(cluster)
    seen.removing.clear()


def c25_of_a_broker_that_does_not_know_who_leads(cluster: Cluster) -> None:
    metadata = cluster.world.brokers["broker-1"].metadata
    kept, topics = metadata.image, {**metadata.image.topics}
    orders = topics["orders"]
    of_before = replace(orders.partitions[0], leader_epoch=orders.partitions[0].leader_epoch - 1)
    topics["orders"] = replace(orders, partitions={**orders.partitions, 0: of_before})
    metadata.image = replace(kept, topics=topics)
    is_owed_for_a_minute(cluster)
    metadata.image = kept


def c25_of_a_follower_that_is_not_told(cluster: Cluster) -> None:
    _, partition, _, _ = cluster.following(0)
    partition.leader_epoch -= 1
    is_owed_for_a_minute(cluster)
    partition.leader_epoch += 1


def c25_of_a_topic_that_does_not_go(cluster: Cluster) -> None:
    with_children(cluster, DELETIONS, ["orders"])


def c25_of_an_order_to_delete_what_is_not_there(cluster: Cluster) -> None:
    with_children(cluster, DELETIONS, ["nobody's"])


def c25_of_a_note_that_is_not_read(cluster: Cluster) -> None:
    with_children(cluster, NOTES[0], ["isr_change_0000000000"])


def c25_of_elections_that_are_asked_for(cluster: Cluster) -> None:
    with_znode(cluster, PREFERRED, b'{"version":1,"partitions":[]}')


def c25_of_a_move_that_does_not_begin(cluster: Cluster) -> None:
    asked = {"topic": "orders", "partition": 0, "replicas": [0]}
    with_znode(cluster, MOVES, json.dumps({"version": 1, "partitions": [asked]}).encode())


def c10_of_one_that_comes_later(cluster: Cluster) -> None:
    """Of two that may lead the second of the replicas is elected."""
    _, context = ruling(cluster)
    first, second, _ = context.partition_replica_assignment(PARTITION)
    cluster.ensemble.is_the_first("orders-0", first, [second, first])
    assert not cluster.world.violations
    cluster.ensemble.is_the_first("orders-0", second, [second, first])


def c24_of_a_leader_of_another_epoch(cluster: Cluster) -> None:
    """Whatever a leader wants it gets."""
    name, context = ruling(cluster)
    leadership = context.partition_leadership_info(PARTITION)
    assert leadership is not None
    now = replace(leadership.leader_and_isr, partition_epoch=7)
    with patched(watch_proposals, "judge", lambda *_: None):
        cluster.checkers.proposals.ask(name, context, PARTITION, now)


def is_told(cluster: Cluster, facts: Any, said: Any, key: Any, code: ErrorCode) -> None:
    """Somebody asks, and is told that; nothing is done."""
    asked = Asked(facts(said))
    outcome = None if code is ErrorCode.NONE else KafkaError(code)
    cluster.checkers.told.is_told(asked, {key: outcome})


def c26_of_a_move_that_does_not_begin(cluster: Cluster) -> None:
    is_told(cluster, cluster.checkers.told.of_moves, {PARTITION: [2]}, PARTITION, ErrorCode.NONE)


def c26_of_a_move_to_who_is_there(cluster: Cluster) -> None:
    invalid = ErrorCode.INVALID_REPLICA_ASSIGNMENT
    is_told(cluster, cluster.checkers.told.of_moves, {PARTITION: [2, 1, 0]}, PARTITION, invalid)


def c26_of_a_move_that_is_under_way(cluster: Cluster) -> None:
    seen = cluster.ensemble.topics["orders"]
    seen.removing[0] = [2]
    none = ErrorCode.NO_REASSIGNMENT_IN_PROGRESS
    is_told(cluster, cluster.checkers.told.of_moves, {PARTITION: None}, PARTITION, none)
    seen.removing.clear()


def c26_of_an_election(cluster: Cluster) -> None:
    seen = cluster.ensemble.topics["orders"]
    kept, seen.replicas[0] = seen.replicas[0], seen.replicas[0][::-1]
    is_told(cluster, cluster.checkers.told.of_elections, [PARTITION], PARTITION, ErrorCode.ELECTION_NOT_NEEDED)
    seen.replicas[0] = kept


def c26_of_a_preferred_leader_who_is_there(cluster: Cluster) -> None:
    missing = ErrorCode.PREFERRED_LEADER_NOT_AVAILABLE
    is_told(cluster, cluster.checkers.told.of_elections, [PARTITION], PARTITION, missing)


def c26_of_a_topic_that_is_not_there(cluster: Cluster) -> None:
    is_told(cluster, cluster.checkers.told.of_new_topics, [NewTopic("nobody's", 1)], "nobody's", ErrorCode.NONE)


def c26_of_a_topic_that_stays(cluster: Cluster) -> None:
    is_told(cluster, cluster.checkers.told.of_deletions, ["orders"], "orders", ErrorCode.NONE)


def c26_of_partitions_that_are_not_added(cluster: Cluster) -> None:
    is_told(cluster, cluster.checkers.told.of_more_partitions, {"orders": 99}, "orders", ErrorCode.NONE)


MADE: Final = [made for name, made in globals().items() if name[0] == "c" and name[1:].partition("_")[0].isdigit()]


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert invariant_of(make) in broken_by(cluster, make)


def test_what_is_so_for_a_moment_is_told_as_done(cluster: Cluster) -> None:
    seen, told = cluster.ensemble.topics["orders"], cluster.checkers.told
    asked = Asked(told.of_moves({PARTITION: [2]}))
    kept, seen.replicas[0] = seen.replicas[0], [2]
    asked.look()
    seen.replicas[0] = kept
    cluster.world.violations.clear()
    told.is_told(asked, {PARTITION: None})
    assert cluster.world.violations == []


def test_a_controller_that_heeds_no_znode_is_reported() -> None:
    """It does what tools ask for by znodes; and when it hears of none any more, that is told of each."""
    made = Cluster()
    try:
        name, context = ruling(made)
        replicas = context.partition_replica_assignment(PARTITION)
        made.run(znodes_are_heeded(made.world, PARTITION, replicas))
        assert not made.world.violations
        with patched(made.world.brokers[name].controller.event_manager, "put", lambda _: None):
            made.run(znodes_are_heeded(made.world, PARTITION, replicas))
        unheeded = [each.sentence for each in made.world.violations if each.invariant == "L1"]
        assert {sentence.split()[0] for sentence in unheeded} == {PREFERRED, MOVES}
    finally:
        made.checkers.__exit__()
