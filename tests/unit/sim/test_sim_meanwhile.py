"""What may change while something else is decided, told or counted: a violation is made of each, by hand, in a cluster
that is well."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, Final

import pytest
from test_sim_invariants import A_SECOND, Cluster, broken_by, invariant_of, patched

from barnabas.coordinator.transaction_records import transaction_record
from barnabas.coordinator.transactions import ONGOING, PREPARE_COMMIT, TransactionMachine, TransactionMetadata
from barnabas.log.producer_state import Verification
from barnabas.model.internal_topics import TRANSACTION_STATE_TOPIC
from barnabas.replica.delayed_fetch import TopicIdPartition
from barnabas.replica.fetch_session import CachedPartition, FetchSession
from barnabas.replica.replication_quota import ReplicationQuota
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.records import Record, build_batch
from barnabas.zk.client.session import ClientSession
from barnabas.zk.protocol.ops import Check, Delete, Multi, SetData

PRODUCER: Final = 4720


@pytest.fixture(scope="module")
def cluster() -> Iterator[Cluster]:
    made = Cluster()
    yield made
    made.checkers.__exit__()


def follows(cluster: Cluster) -> tuple[str, CachedPartition]:
    """The leader, and what a session remembers of a follower that has all."""
    name, partition, log, _ = cluster.leading()
    follower = next(iter(partition.progress))
    session = FetchSession(1, replica_id=follower, replica_epoch=-1, uses_topic_ids=True, now_ms=0)
    asked = FetchRequest.FetchPartition(0, fetch_offset=log.log_end_offset)
    key = TopicIdPartition(partition.topic_id, "orders", partition.topic_partition.partition)
    return name, CachedPartition(session, key, asked)


def r30_of_what_moves_while_it_is_told(cluster: Cluster) -> None:
    name, cached = follows(cluster)
    _, partition, log, _ = cluster.leading()
    look = cluster.checkers.fetch_sessions
    assert partition.has_all(cached.session.replica_id, log.log_end_offset), "else nothing rests"
    cluster.at(name, lambda: look.ask_to_rest_untold(cached, partition, log))
    assert cluster.world.violations == []
    with patched(CachedPartition, "rest", lambda each, *there: look.is_told_all(True, each, *there)):
        cluster.at(name, lambda: look.ask_to_rest_untold(cached, partition, log))


def r30_of_who_waits_untold(cluster: Cluster) -> None:
    name, cached = follows(cluster)
    _, partition, log, _ = cluster.leading()
    cluster.at(name, lambda: cluster.checkers.fetch_sessions._lies_down(None, cached, partition, log))


def t8_of_who_may_go_on(cluster: Cluster) -> None:
    opened = TransactionMetadata(PRODUCER, 0, 1_000, state=ONGOING, start_ms=5_000, last_update_ms=5_400)
    ask = cluster.checkers.fencing.ends_in_time
    cluster.at("broker-0", lambda: ask("kept", opened))
    assert cluster.world.violations == []
    with patched(TransactionMachine, "time_out", lambda *_: None):
        cluster.at("broker-0", lambda: ask("kept", opened))


def t9_of_a_decision_that_may_be_lost(cluster: Cluster) -> None:
    name, _, log, _ = cluster.leading()
    decided = TransactionMetadata(PRODUCER, 0, 1_000, state=PREPARE_COMMIT)
    record = transaction_record("kept", decided)
    batch = build_batch([Record(0, 0, record.key, record.value)])
    kept_in, ask = f"{TRANSACTION_STATE_TOPIC}-0", cluster.checkers.coordinators.decided_for_good
    stored: Any = SimpleNamespace(last_offset=log.high_watermark)
    segment = SimpleNamespace(batches=lambda: [stored], read_batch=lambda _: at_offset(batch, log.high_watermark))
    other = SimpleNamespace(
        high_watermark=log.high_watermark, log_end_offset=log.high_watermark + 1, log_start_offset=0, segments=[segment]
    )
    with patched(cluster.logs, "of", {(name, kept_in): other}):
        cluster.at(name, lambda: ask(kept_in, "another"))
        assert cluster.world.violations == []
        cluster.at(name, lambda: ask(kept_in, "kept"))


def at_offset(batch: bytes, offset: int) -> bytes:
    return offset.to_bytes(8, "big") + batch[8:]


def t9_of_an_answer_from_before_the_marker(cluster: Cluster) -> None:
    _, _, log, _ = cluster.leading()
    verdicts, asked = cluster.checkers.verdicts, Verification(0, 0, 0)
    cluster.at("broker-0", lambda: verdicts.confirms_nothing(log.producers, PRODUCER, asked))
    assert cluster.world.violations == []
    kept = log.producers.begin_verification(PRODUCER, 0, 0, 0)
    assert kept is not None
    cluster.at("broker-0", lambda: verdicts.confirms_nothing(log.producers, PRODUCER, kept))
    del log.producers._verifications[PRODUCER]


def c18_of_who_pays_for_nothing(cluster: Cluster) -> None:
    quotas = cluster.checkers.quotas
    quotas._net.clear()
    cluster.at("broker-0", lambda: quotas.pays_for_nothing("somebody", 100))
    assert cluster.world.violations == []
    rate: Any = object()
    quotas._net[rate] = 100.0
    cluster.at("broker-0", lambda: quotas.pays_for_nothing("somebody", 100))


def c18_of_who_copies_steadily(cluster: Cluster) -> None:
    """As much as is allowed, for longer than the rate's window."""
    quota, told = ReplicationQuota(11, 1_000), cluster.checkers.throttles.is_exceeded
    quota.bytes_per_second = 100
    for second in range(20):
        quota.record(100, 1_000 * second)
    assert not quota.is_exceeded(20_000)
    assert cluster.world.violations == []
    cluster.at("broker-0", lambda: told(True, quota, 20_000))


def c1_of_who_rules_on(cluster: Cluster) -> None:
    name = cluster.world.controller()
    assert name is not None
    other = next(each for each in cluster.world.broker_names if each != name)
    cluster.at(other, lambda: ClientSession(6_000).successor(6_000))
    assert cluster.world.violations == []
    cluster.at(name, lambda: ClientSession(6_000).successor(6_000))


def c4_of_what_was_meant_for_another_life(cluster: Cluster) -> None:
    broker, look = cluster.world.brokers["broker-0"], cluster.checkers.refusals.is_of_this_registration
    for epoch in (broker.broker_epoch, broker.broker_epoch - 1):
        assert cluster.world.violations == []
        request = LeaderAndIsrRequest(0, False, 1, epoch)
        cluster.at("broker-0", lambda request=request: look(request))


def c13_of_a_change_that_may_be_lost(cluster: Cluster) -> None:
    there, before = json.loads(cluster.world.znode("/brokers/topics/orders") or b""), cluster.ensemble.topics["orders"]
    more = {**there, "partitions": {**there["partitions"], "12": [0]}}
    for topic, version in ((there, -1), (more, 0), (more, -1)):
        assert cluster.world.violations == []
        written(cluster, SetData("/brokers/topics/orders", json.dumps(topic).encode(), version))
        cluster.ensemble.topics["orders"] = before


def c12_of_a_move_that_drops_who_alone_is_in_sync(cluster: Cluster) -> None:
    ensemble, kept = cluster.ensemble, dict(cluster.ensemble.states["orders-0"])
    there = json.loads(cluster.world.znode("/brokers/topics/orders") or b"")
    replicas = there["partitions"]["0"]
    ensemble.topics["orders"].adding[0] = replicas[:1]
    for isr in (replicas, replicas[:1]):
        assert cluster.world.violations == []
        ensemble.states["orders-0"] = {**kept, "isr": isr}
        before = ensemble.topics["orders"]
        cluster.topic(partitions={**there["partitions"], "0": replicas[1:]})
        ensemble.topics["orders"] = before
    ensemble.states["orders-0"] = kept
    ensemble.topics["orders"].adding.clear()


def c20_of_settings_that_stay(cluster: Cluster) -> None:
    ensemble, path = cluster.ensemble, "/admin/delete_topics/passing"
    with patched(cluster.world, "tree_node", lambda there: node(cluster, there, 7)):
        for ordered in (6, 7):
            assert cluster.world.violations == []
            ensemble._ordered["passing"], ensemble._settings_ordered["passing"] = "", ordered
            written(cluster, Delete(path))


def node(cluster: Cluster, path: str, czxid: int) -> Any:
    assert cluster.world.coordinator is not None
    owner = cluster.world.coordinator.committed.node("/controller").ephemeral_owner
    return SimpleNamespace(ephemeral_owner=owner, czxid=czxid)


def written(cluster: Cluster, part: Any) -> None:
    """The controller does it."""
    assert cluster.world.coordinator is not None
    owner = cluster.world.coordinator.committed.node("/controller").ephemeral_owner
    cluster.ensemble.committed(Multi((Check("/controller_epoch", 0), part)), owner, None, 1 << 40)


def r6_of_who_was_never_caught_up(cluster: Cluster) -> None:
    name, partition, _, _ = cluster.leading()
    look, kept = cluster.leaders.nobody_else_counts, partition.isr_state
    alone: Any = SimpleNamespace(isr=frozenset({cluster.world.brokers[name].broker_id}))
    cluster.at(name, lambda: look(partition))
    assert cluster.world.violations == []
    partition.isr_state = alone
    cluster.at(name, lambda: look(partition))
    partition.isr_state = kept


def test_a_controller_that_is_gone_hears_nothing(cluster: Cluster) -> None:
    ensemble, now_ns = cluster.ensemble, cluster.world.loop.now_ns
    with patched(cluster.world.loop, "now_ns", now_ns + 10 * A_SECOND):
        assert ensemble.is_known_since(now_ns)
        with patched(ensemble, "controller", -1):
            assert not ensemble.is_known_since(now_ns)


MADE: Final[tuple[Callable[[Cluster], None], ...]] = (
    r30_of_what_moves_while_it_is_told, r30_of_who_waits_untold, t8_of_who_may_go_on,
    t9_of_a_decision_that_may_be_lost, t9_of_an_answer_from_before_the_marker, c18_of_who_pays_for_nothing,
    c18_of_who_copies_steadily, c1_of_who_rules_on, c4_of_what_was_meant_for_another_life,
    c12_of_a_move_that_drops_who_alone_is_in_sync,
    c13_of_a_change_that_may_be_lost, c20_of_settings_that_stay, r6_of_who_was_never_caught_up,
)  # fmt: skip


@pytest.mark.parametrize("make", MADE, ids=lambda make: make.__name__)
def test_a_made_violation_is_reported(cluster: Cluster, make: Callable[[Cluster], None]) -> None:
    assert broken_by(cluster, make) == {invariant_of(make)}
