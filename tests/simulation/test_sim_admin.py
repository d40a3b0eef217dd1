"""What an operator asks of a whole cluster, item by item, in a simulated one."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from typing import Any, TypeVar

import pytest

from barnabas.client.admin import Admin, NewTopic, ResourceType
from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.client.consumer import Consumer
from barnabas.client.descriptions import FeatureUpgrade, GroupListing
from barnabas.client.offsets import EARLIEST, LATEST, MAX_TIMESTAMP, READ_COMMITTED, CommittedOffset, ListedOffset
from barnabas.client.produce_requests import produce_request, read_produce
from barnabas.client.producer import Producer
from barnabas.client.transactions import TransactionalProducer
from barnabas.controller.controller import KafkaController
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Runtime
from barnabas.security.password_encoder import PasswordEncoder
from barnabas.sim.world.world import ZOOKEEPER, World, broker_name
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.delete_topics import DeleteTopicsRequest
from barnabas.wire.messages.elect_leaders import ElectLeadersRequest
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.records import Record, build_batch
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.config_znodes import BROKERS, DEFAULT_ENTITY, ConfigEntityZNode
from barnabas.zk.kafka.zk_client import KafkaZkClient

TOPIC = "orders"
FIRST, SECOND, ABSENT = TopicPartition(TOPIC, 0), TopicPartition(TOPIC, 1), TopicPartition(TOPIC, 9)
NO_TOPIC = TopicPartition("nothing", 0)
RECORDS = 5
Seen = TypeVar("Seen")


def seen_in(story: Callable[[World, Admin], Coroutine[Any, Any, Seen]]) -> Seen:
    """What `story` sees in three brokers with a topic of two partitions, led by 0 and 1, the first with records."""
    world = World(7)

    async def prepared(cluster: ClusterClient) -> Seen:
        admin = Admin(cluster)
        created = await admin.create_topics([NewTopic(TOPIC, assignment={0: [0, 2], 1: [1, 2]})])
        assert created == {TOPIC: None}
        producer = Producer(cluster, acks=-1)
        for number in range(RECORDS):
            await producer.append(TOPIC, b"%d" % number, partition=0, timestamp=1_000 * number)
        await producer.close()
        return await story(world, admin)

    async def run() -> Seen:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        return await world.client(lambda runtime, cluster: prepared(cluster), "operator")

    return world.loop.run_until_complete(run())


def code(outcome: object) -> ErrorCode:
    assert isinstance(outcome, KafkaError)
    return outcome.code


def test_offsets_are_listed_where_there_are_some_although_a_partition_is_not_there() -> None:
    async def story(world: World, admin: Admin) -> None:
        ends = await admin.list_offsets(dict.fromkeys([FIRST, ABSENT, SECOND, NO_TOPIC], LATEST))
        assert list(ends) == [FIRST, ABSENT, SECOND, NO_TOPIC]
        assert ends[FIRST] == ListedOffset(RECORDS, -1, 0)
        assert ends[SECOND] == ListedOffset(0, -1, 0)
        assert code(ends[ABSENT]) is code(ends[NO_TOPIC]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for asked, offset, timestamp in ((EARLIEST, 0, -1), (2_500, 3, 3_000), (MAX_TIMESTAMP, 4, 4_000)):
            assert await admin.list_offsets({FIRST: asked}) == {FIRST: ListedOffset(offset, timestamp, 0)}
        assert await admin.list_offsets({FIRST: 9_000}) == {FIRST: ListedOffset()}

    seen_in(story)


def test_records_are_deleted_before_an_offset_of_each_partition() -> None:
    async def story(world: World, admin: Admin) -> None:
        outcomes = await admin.delete_records({FIRST: 3, SECOND: 1, NO_TOPIC: -1})
        assert outcomes[FIRST] == 3
        assert code(outcomes[SECOND]) is ErrorCode.OFFSET_OUT_OF_RANGE
        assert code(outcomes[NO_TOPIC]) is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert await admin.delete_records({FIRST: -1}) == {FIRST: RECORDS}
        assert await admin.list_offsets({FIRST: EARLIEST}) == {FIRST: ListedOffset(RECORDS, -1, 0)}

    seen_in(story)


def test_a_partition_whose_leader_has_gone_is_asked_at_the_next_one() -> None:
    async def story(world: World, admin: Admin) -> None:
        await admin.cluster.broker(0)
        world.nodes[broker_name(0)].kill()
        listed = (await admin.list_offsets({FIRST: LATEST, SECOND: LATEST}))[FIRST]
        assert isinstance(listed, ListedOffset)
        assert listed.offset == RECORDS
        assert admin.cluster.metadata.leader(FIRST) == 2

    seen_in(story)


def test_the_brokers_of_a_cluster_tell_what_they_answer_and_where_their_logs_are() -> None:
    async def story(world: World, admin: Admin) -> None:
        cluster = await admin.describe_cluster()
        assert [node.broker_id for node in cluster.brokers] == [0, 1, 2]
        assert cluster.controller in cluster.brokers
        assert cluster.cluster_id
        versions = await admin.api_versions()
        assert {each.apis[0].highest for each in versions.values() if not isinstance(each, KafkaError)} == {11}
        directories = await admin.describe_log_dirs(partitions=[FIRST])
        sizes = {}
        for broker_id, found in directories.items():
            assert not isinstance(found, KafkaError)
            sizes[broker_id] = [each.replicas[FIRST].size for each in found if FIRST in each.replicas]
        assert sizes[0] == sizes[2]
        assert sizes[0][0] > 0
        assert sizes[1] == []
        assert code((await admin.describe_log_dirs([9]))[9]) is ErrorCode.BROKER_NOT_AVAILABLE

    seen_in(story)


def test_groups_are_not_listed_in_part_where_a_broker_does_not_answer() -> None:
    async def story(world: World, admin: Admin) -> list[GroupListing] | ErrorCode:
        assert await admin.alter_group_offsets("readers", {FIRST: 1}) == {FIRST: None}
        assert [each.group for each in await admin.list_groups()] == ["readers"]
        coordinator = await admin.cluster.coordinator("readers")
        world.kill(coordinator.host)
        try:
            return await admin.list_groups()
        except KafkaError as error:
            return error.code

    assert seen_in(story) is ErrorCode.BROKER_NOT_AVAILABLE


def test_a_feature_that_no_broker_has_is_refused_by_name() -> None:
    async def story(world: World, admin: Admin) -> None:
        for wish in (
            FeatureUpgrade(2),
            FeatureUpgrade(1, downgrade=True),
            FeatureUpgrade(0, downgrade=True, unsafe=True),
        ):
            refused = await admin.update_features({"no.such.feature": wish}, validate_only=True)
            assert code(refused["no.such.feature"]) in (ErrorCode.INVALID_REQUEST, ErrorCode.FEATURE_UPDATE_FAILED)

    seen_in(story)


def test_a_group_is_described_with_who_reads_what_and_its_offsets_change_only_when_it_is_empty() -> None:
    async def story(world: World, admin: Admin) -> None:
        assert not (await admin.describe_group("readers")).exists
        consumer = Consumer(admin.cluster, group="readers")
        await consumer.subscribe([TOPIC])
        while not await consumer.poll(1_000):
            continue
        assert consumer.member is not None
        await consumer.member.commit({FIRST: RECORDS})
        described = await admin.describe_group("readers")
        assert (described.state, described.assignor, described.protocol_type) == ("Stable", "range", "consumer")
        assert [member.assignment for member in described.members] == [(FIRST, SECOND)]
        assert described.coordinator.broker_id in (0, 1, 2)
        assert [each.group for each in await admin.list_groups(["Stable"])] == ["readers"]
        assert await admin.list_groups(["Dead"]) == []
        assert await admin.committed_offsets("readers") == {FIRST: CommittedOffset(RECORDS)}
        busy = await admin.alter_group_offsets("readers", {FIRST: CommittedOffset(1)})
        assert code(busy[FIRST]) is ErrorCode.UNKNOWN_MEMBER_ID
        busy = await admin.delete_group_offsets("readers", [FIRST])
        assert code(busy[FIRST]) is ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
        await consumer.close()
        wanted = {FIRST: CommittedOffset(1, "by hand"), SECOND: CommittedOffset(0)}
        assert await admin.alter_group_offsets("readers", wanted) == {FIRST: None, SECOND: None}
        assert await admin.committed_offsets("readers") == wanted
        assert await admin.delete_group_offsets("readers", [FIRST]) == {FIRST: None}
        assert await admin.committed_offsets("readers") == {SECOND: CommittedOffset(0)}
        with pytest.raises(KafkaError) as refused:
            await admin.delete_group_offsets("nobody", [FIRST])
        assert refused.value.code is ErrorCode.GROUP_ID_NOT_FOUND

    seen_in(story)


def test_transactions_are_listed_described_and_ended_by_a_fence() -> None:
    async def story(world: World, admin: Admin) -> None:
        producer = TransactionalProducer(admin.cluster, "payments")
        await producer.init_transactions()
        await producer.begin_transaction()
        await producer.append(TOPIC, b"open", partition=1)
        await producer.flush()
        (listed,) = await admin.list_transactions()
        assert (listed.transactional_id, listed.state) == ("payments", "Ongoing")
        assert await admin.list_transactions(states=["CompleteCommit"]) == []
        with pytest.raises(KafkaError, match="no transaction state Sleeping"):
            await admin.list_transactions(states=["Sleeping"])
        found = await admin.describe_transactions(["payments", "refunds"])
        assert code(found["refunds"]) is ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
        payments = found["payments"]
        assert not isinstance(payments, KafkaError)
        assert (payments.state, payments.partitions) == ("Ongoing", (SECOND,))
        assert payments.coordinator_id == listed.coordinator_id
        (opened,) = await admin.open_transactions([FIRST, SECOND])
        assert (opened.partition, opened.producer_id, opened.start_offset) == (SECOND, payments.producer_id, 0)
        assert await admin.find_hanging_transactions([FIRST, SECOND], idle_for_ms=-1) == []
        fenced = await admin.fence_producer("payments")
        assert fenced.producer_id == payments.producer_id
        assert fenced.epoch > payments.producer_epoch
        assert await admin.list_transactions(states=["Ongoing"]) == []

    seen_in(story)


def test_a_transaction_that_no_coordinator_knows_hangs_and_is_aborted_in_its_partition() -> None:
    async def story(world: World, admin: Admin) -> None:
        # The coordinator was not told of the partition, and brokers do not ask, as those before 3.6 (KIP-890).
        unasked = [(AlterOperation.SET, "transaction.partition.verification.enable", "false")]
        await admin.alter_configs(ResourceType.BROKER, "", unasked)
        identity = await admin.fence_producer("lost")
        batch = build_batch(
            [Record(0, 1_000, None, b"hangs")],
            producer_id=identity.producer_id,
            producer_epoch=identity.epoch,
            base_sequence=0,
            is_transactional=True,
        )
        leader = await admin.cluster.leader(SECOND)
        written = read_produce(await leader.send(produce_request([(SECOND, batch)], transactional_id="lost")))
        assert written[SECOND].acknowledged, written
        stable = await admin.list_offsets({SECOND: LATEST}, isolation_level=READ_COMMITTED)
        assert stable == {SECOND: ListedOffset(0, -1, 0)}
        (hanging,) = await admin.find_hanging_transactions([FIRST, SECOND], idle_for_ms=0)
        assert (hanging.partition, hanging.start_offset) == (SECOND, 0)
        await admin.abort_transaction(hanging)
        stable = await admin.list_offsets({SECOND: LATEST}, isolation_level=READ_COMMITTED)
        assert stable == {SECOND: ListedOffset(2, -1, 0)}, "the record and the marker"
        assert await admin.open_transactions([SECOND]) == []

    seen_in(story)


def held(monkeypatch: pytest.MonkeyPatch, step: str) -> tuple[asyncio.Future[None], asyncio.Future[None]]:
    """Holds the controller's next deletion of a topic before `step`: done when it is there, and to let it go on."""
    loop = asyncio.get_running_loop()
    reached, go_on = loop.create_future(), loop.create_future()
    then = getattr(KafkaZkClient, step)

    async def waiting(self: KafkaZkClient, *args: Any) -> None:
        if not reached.done():
            reached.set_result(None)
            await go_on
        await then(self, *args)

    monkeypatch.setattr(KafkaZkClient, step, waiting)
    return reached, go_on


def test_a_topic_is_not_made_anew_while_the_deletion_of_another_of_its_name_takes_away_configurations(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    async def story(world: World, admin: Admin) -> None:
        reached, go_on = held(monkeypatch, "delete_topic_configs")
        deletion = asyncio.ensure_future(admin.delete_topics([TOPIC]))
        await reached
        assert world.znode(f"/brokers/topics/{TOPIC}") is None
        again = [NewTopic(TOPIC, 1, 3, configs={"retention.ms": "-1"})]
        refused = (await admin.create_topics(again, validate_only=True))[TOPIC]
        go_on.set_result(None)
        assert code(refused) is ErrorCode.TOPIC_ALREADY_EXISTS
        assert "marked for deletion" in str(refused)
        await deletion
        await world.until(lambda: not world.children("/admin/delete_topics"), "the end of the deletion")
        assert await admin.create_topics(again) == {TOPIC: None}
        assert b'"retention.ms":"-1"' in (world.znode(f"/config/topics/{TOPIC}") or b"")

    seen_in(story)


def test_a_topic_that_is_queued_for_deletion_gets_no_more_partitions(monkeypatch: pytest.MonkeyPatch) -> None:
    async def story(world: World, admin: Admin) -> None:
        reached, go_on = held(monkeypatch, "delete_topic_znode")
        deletion = asyncio.ensure_future(admin.delete_topics([TOPIC]))
        await reached
        before = world.znode(f"/brokers/topics/{TOPIC}")
        refused = (await admin.create_partitions({TOPIC: 3}))[TOPIC]
        assert code(refused) is ErrorCode.INVALID_TOPIC_EXCEPTION
        assert world.znode(f"/brokers/topics/{TOPIC}") == before
        go_on.set_result(None)
        await deletion

    seen_in(story)


def test_who_has_no_quota_any_more_leaves_nothing_in_zookeeper() -> None:
    async def story(world: World, admin: Admin) -> None:
        limit, none = {"producer_byte_rate": 1024.0}, {"producer_byte_rate": None}
        kate, her_app = {"user": "kate"}, {"user": "kate", "client-id": "app"}
        for entity in (her_app, {"client-id": "app"}):
            await admin.alter_quotas(entity, limit)
            await admin.alter_quotas(entity, none)
        assert world.children("/config/users") == world.children("/config/clients") == []
        await admin.alter_quotas({"ip": "10.0.0.1"}, {"connection_creation_rate": 1.0})
        await admin.alter_quotas({"ip": "10.0.0.1"}, {"connection_creation_rate": None})
        assert world.children("/config/ips") == []
        for entity in (kate, her_app):
            await admin.alter_quotas(entity, limit)
        await admin.alter_quotas(kate, none)
        assert world.children("/config/users/kate") == ["clients"], "her application has one still"
        await admin.alter_quotas(kate, limit)
        await admin.alter_quotas(her_app, none)
        assert world.children("/config/users/kate") == []
        assert await admin.describe_quotas() == [(kate, limit)]

    seen_in(story)


@pytest.mark.parametrize(
    ("key", "text", "why"),
    [
        ("log.cleaner.threads", "0", "log.cleaner.threads"),
        ("log.cleaner.threads", "3", "Log cleaner threads cannot be increased to more than double the current value 1"),
        ("log.local.retention.ms", "-1", "log.local.retention.ms"),
        ("log.local.retention.ms", "604800001", "log.local.retention.ms"),
    ],
)
def test_no_default_is_set_that_a_kafka_broker_would_not_take_up(key: str, text: str, why: str) -> None:
    async def story(world: World, admin: Admin) -> None:
        with pytest.raises(KafkaError, match=why) as refused:
            await admin.alter_configs(ResourceType.BROKER, "", [(AlterOperation.SET, key, text)])
        assert refused.value.code is ErrorCode.INVALID_REQUEST
        allowed = [
            (AlterOperation.SET, "log.local.retention.ms", "604800000"),
            (AlterOperation.SET, "log.cleaner.threads", "2"),
        ]
        await admin.alter_configs(ResourceType.BROKER, "", allowed)

    seen_in(story)


def test_values_that_no_broker_takes_up_do_not_keep_others_from_being_changed() -> None:
    """As somebody wrote them past the brokers; Kafka's leave them out with the next change, too."""
    path = ConfigEntityZNode.path(BROKERS, DEFAULT_ENTITY)

    async def story(world: World, admin: Admin) -> dict[str, str]:
        async def write(runtime: Runtime, _: ClusterClient) -> None:
            client = ZooKeeperClient(
                runtime, f"{ZOOKEEPER}:2181", session_timeout_ms=6_000, connection_timeout_ms=30_000, name="tool"
            )
            await client.start()
            values = {"broker.id": "5", "num.io.threads": "many", "advertised.listeners": "A://a:1", "of.mine": "x"}
            await client.create(path, ConfigEntityZNode.encode(values))
            await client.close()

        await world.client(write, "tool")
        await admin.alter_configs(ResourceType.BROKER, "", [(AlterOperation.SET, "log.cleaner.threads", "2")])
        return ConfigEntityZNode.decode(world.znode(path))

    assert seen_in(story) == {"of.mine": "x", "log.cleaner.threads": "2"}


@pytest.mark.parametrize("resource", ["", "own"])
def test_no_broker_gets_more_than_twice_its_threads_at_once(resource: str) -> None:
    async def story(world: World, admin: Admin) -> None:
        name = resource and str((await admin.describe_cluster()).brokers[0].broker_id)
        for key, text in (("num.io.threads", "17"), ("num.network.threads", "7"), ("background.threads", "4")):
            with pytest.raises(KafkaError, match=f"thread count update validation failed for {key}={text}"):
                await admin.alter_configs(ResourceType.BROKER, name, [(AlterOperation.SET, key, text)])
        await admin.alter_configs(ResourceType.BROKER, name, [(AlterOperation.SET, "num.io.threads", "16")])

    seen_in(story)


def test_a_leaving_broker_waits_for_its_controllers_answer_as_for_any_other(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    then = KafkaController.controlled_shutdown

    async def slowly(self: KafkaController, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        asked.append(broker_id)
        await asyncio.sleep(5)
        return await then(self, broker_id, broker_epoch)

    monkeypatch.setattr(KafkaController, "controlled_shutdown", slowly)
    world = World(7, config={"controller.socket.timeout.ms": "1000", "request.timeout.ms": "30000"})

    async def run() -> None:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        leaving = next(number for number in range(3) if broker_name(number) != world.controller())
        assert await world.shut_down(broker_name(leaving))
        assert asked == [leaving]

    world.loop.run_until_complete(run())


def test_a_leaving_broker_asks_again_where_its_controller_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[int] = []
    then = KafkaController.controlled_shutdown

    async def refused_once(self: KafkaController, broker_id: int, broker_epoch: int) -> list[TopicPartition]:
        asked.append(broker_id)
        if len(asked) == 1:
            raise KafkaError(ErrorCode.NOT_CONTROLLER, "its session is about to end")
        return await then(self, broker_id, broker_epoch)

    monkeypatch.setattr(KafkaController, "controlled_shutdown", refused_once)
    world = World(7)

    async def run() -> None:
        await world.start_all()
        await world.until(lambda: len(world.brokers) == 3, "the brokers' start")
        leaving = next(number for number in range(3) if broker_name(number) != world.controller())
        assert await world.shut_down(broker_name(leaving))
        assert asked == [leaving, leaving]

    world.loop.run_until_complete(run())


def test_an_elected_leader_is_known_where_it_was_asked_for() -> None:
    async def story(world: World, admin: Admin) -> None:
        def leads(leader: int, *isr: int) -> Callable[[], bool]:
            return lambda: (state := world.state(str(FIRST)) or {})["leader"] == leader and set(state["isr"]) == {*isr}

        async def moved_away() -> None:
            world.nodes[broker_name(0)].kill()
            await world.until(leads(2, 2), "another leader")
            world.start(broker_name(0))
            await world.until(leads(2, 0, 2), "the return of the preferred one")

        await moved_away()
        asked = ElectLeadersRequest(0, [ElectLeadersRequest.TopicPartitions(TOPIC, [0])], timeout_ms=0)
        answer = await (await admin.cluster.controller()).send(asked)
        late = answer.replica_election_results[0].partition_result[0]
        assert ErrorCode(late.error_code) is ErrorCode.REQUEST_TIMED_OUT
        await world.until(leads(0, 0, 2), "the election all the same")
        await moved_away()
        assert await admin.elect_leaders([FIRST]) == {FIRST: None}
        controller = world.controller()
        assert controller is not None
        known = world.brokers[controller].metadata.partition(FIRST)
        assert known is not None
        assert known.leader == 0

    seen_in(story)


def test_a_start_with_the_old_secret_has_the_new_one_encode_passwords() -> None:
    """The start after it knows the new one alone, as Kafka's documentation has it."""
    world = World(3, 1, {"password.encoder.secret": "new", "password.encoder.old.secret": "old"})
    key, path = "listener.name.both.ssl.keystore.password", ConfigEntityZNode.path(BROKERS, "0")
    stored = PasswordEncoder("old", iterations=10).encode("word", bytes)

    async def write(runtime: Runtime, _: ClusterClient) -> None:
        client = ZooKeeperClient(
            runtime, f"{ZOOKEEPER}:2181", session_timeout_ms=6_000, connection_timeout_ms=30_000, name="tool"
        )
        await client.start()
        data = ConfigEntityZNode.encode({key: stored, "log.cleaner.threads": "2"})
        await KafkaZkClient(runtime, client).create_recursive(path, data)
        await client.close()

    async def run() -> None:
        world.start_coordinator()
        await world.until(lambda: world.coordinator is not None, "the coordinator's start")
        await world.client(write, "operator")
        world.start(broker_name(0))
        await world.until(lambda: broker_name(0) in world.brokers, "the broker's start")

    world.loop.run_until_complete(run())
    values = ConfigEntityZNode.decode(world.znode(path))
    assert PasswordEncoder("new").decode(values[key]) == "word"
    assert values["log.cleaner.threads"] == "2"
    assert world.brokers[broker_name(0)].config_layers.dynamic_broker == {key: "word", "log.cleaner.threads": "2"}


def test_what_a_quota_on_changes_puts_off_is_asked_for_again() -> None:
    async def story(world: World, admin: Admin) -> tuple[list[dict[str, KafkaError | None]], int]:
        await admin.alter_quotas({"client-id": None}, {"controller_mutation_rate": 1.0})
        await world.until(lambda: all(broker.quotas.active for broker in world.brokers.values()), "the quota is known")
        began_ms = world.brokers[broker_name(0)].runtime.clock.monotonic_ms()
        outcomes = [
            await admin.create_topics([NewTopic("wide", partitions=20, replication_factor=1)]),
            await admin.create_topics([NewTopic("later", partitions=1, replication_factor=1)]),
            await admin.create_partitions({"later": 9}),
            await admin.delete_topics(["later", "wide"]),
            await admin.create_topics([NewTopic("last", partitions=1, replication_factor=1)]),
        ]
        return outcomes, world.brokers[broker_name(0)].runtime.clock.monotonic_ms() - began_ms

    outcomes, took_ms = seen_in(story)
    assert [set(outcome.values()) for outcome in outcomes] == [{None}] * 5
    assert took_ms > 20_000, "one partition a second"


def test_topics_that_are_made_because_a_client_asks_for_them_count_against_its_quota() -> None:
    """The client is told nothing of it, but finds its quota used up when it makes a topic itself (KIP-599)."""

    async def story(world: World, admin: Admin) -> tuple[int, int]:
        await admin.alter_quotas({"client-id": None}, {"controller_mutation_rate": 1.0})
        await world.until(lambda: all(broker.quotas.active for broker in world.brokers.values()), "the quota is known")
        controller = await admin.cluster.controller()
        topics = [MetadataRequest.MetadataRequestTopic(name=f"asked-for-{number}") for number in range(20)]
        answer = await controller.send(MetadataRequest(topics=topics, allow_auto_topic_creation=True))
        made = CreateTopicsRequest([CreateTopicsRequest.CreatableTopic("made", 1, 1)], 1_000)
        return answer.throttle_time_ms, (await controller.send(made)).topics[0].error_code

    assert seen_in(story) == (0, ErrorCode.THROTTLING_QUOTA_EXCEEDED)


def test_a_brokers_loggers_are_asked_of_that_broker() -> None:
    async def story(world: World, admin: Admin) -> list[str]:
        told = [await admin.describe_configs(ResourceType.BROKER_LOGGER, str(broker_id)) for broker_id in range(3)]
        return [loggers[0].name for loggers in told]

    assert len(seen_in(story)) == 3


def test_topics_are_named_as_the_controller_that_deletes_them_understands(monkeypatch: pytest.MonkeyPatch) -> None:
    """Brokers are changed over one by one, and the one that reigns next may be an older one."""

    async def story(world: World, admin: Admin) -> dict[str, KafkaError | None]:
        reigning = await admin.cluster.controller()
        former = await admin.cluster.broker(
            next(number for number in range(3) if broker_name(number) != world.controller())
        )
        key = DeleteTopicsRequest.api_key
        reigning._exchange.versions = {**reigning.versions, key: (1, 5)}
        known = iter([former])

        async def controller() -> Connection:
            return next(known, reigning)

        monkeypatch.setattr(admin.cluster, "controller", controller)
        return await admin.delete_topics([TOPIC])

    assert seen_in(story) == {TOPIC: None}
