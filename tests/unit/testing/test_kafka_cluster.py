"""What a test's cluster promises to the test."""

import asyncio
import logging
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import pytest
from cluster import until

from barnabas.broker.repeated_fetch import RepeatedFetches
from barnabas.client.blocking import BlockingConnection
from barnabas.client.metadata import metadata_request, read_metadata
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.testing import AcknowledgedRecordLost, ClusterError, KafkaCluster
from barnabas.wire.messages.fetch import FetchRequest

pytest_plugins = ["pytester"]


def send(cluster, topic, values, **settings):
    """Sends one by one with acks=all; returns what became of each."""
    from confluent_kafka import Producer

    outcomes = []
    producer = Producer(
        {"bootstrap.servers": cluster.bootstrap, "acks": "all", "linger.ms": 0, "log_level": 0} | settings
    )
    for value in values:
        producer.produce(topic, value, on_delivery=lambda error, _: outcomes.append(error and error.name()))
        producer.flush(20)
    return outcomes


def test_every_acknowledgement_is_noted(kafka_cluster):
    kafka_cluster.create_topic("t")
    assert send(kafka_cluster, "t", [b"x"] * 50) == [None] * 50
    noted = sorted(ack.base_offset for ack in kafka_cluster.history.acknowledged)
    assert noted == list(range(50))
    assert kafka_cluster.verify().acknowledged == 50


def test_what_a_consumer_is_given_is_noted_and_verified_however_much_it_is(kafka_cluster):
    from confluent_kafka import Consumer, TopicPartition

    kafka_cluster.create_topic("t")
    values = [b"%d" % number * 20_000 for number in range(10)]
    assert send(kafka_cluster, "t", values) == [None] * 10
    consumer = Consumer({"bootstrap.servers": kafka_cluster.bootstrap, "group.id": "g", "log_level": 0})
    try:
        consumer.assign([TopicPartition("t", 0, 0)])
        found = []
        until(lambda: found.extend(consumer.consume(10, 1)) or len(found) == 10, "ten records")
        assert [message.value() for message in found] == values
    finally:
        consumer.close()
    served = {offset for _, place, offset in kafka_cluster.history.served if place.topic == "t"}
    assert served >= set(range(10))
    kafka_cluster.verify()


def test_a_lost_record_is_told_with_the_timeline(kafka_cluster):
    kafka_cluster.create_topic("t")
    send(kafka_cluster, "t", [b"x"] * 3)
    for broker in kafka_cluster.brokers:
        disk, place = kafka_cluster.host.files(broker.id)
        segment = f"{place}/t-0/00000000000000000000.log"
        disk.open(segment).truncate(disk.size(segment) // 3 * 2)
    with pytest.raises(AcknowledgedRecordLost, match=r"t-0: @2, acknowledged by broker \d") as lost:
        kafka_cluster.verify()
    assert "leading t-0 in epoch 0" in str(lost.value)
    assert "high watermark of t-0 0 → 3" in str(lost.value)


def test_a_replica_that_differs_is_told(kafka_cluster):
    kafka_cluster.create_topic("t")
    send(kafka_cluster, "t", [b"x"] * 3)
    follower = kafka_cluster.partition("t", 0).followers[0]
    disk, place = kafka_cluster.host.files(follower.id)
    disk.open(f"{place}/t-0/00000000000000000000.log").pwrite(b"\0\0\0\x07", 12)  # a leader epoch, which no CRC covers
    with pytest.raises(AcknowledgedRecordLost, match="differ below the high watermark"):
        kafka_cluster.verify()


def test_an_unclean_election_that_loses_records_is_caught():
    with KafkaCluster(2, config={"unclean.leader.election.enable": "true"}) as cluster:
        cluster.create_topic("t", assignment={0: [0, 1]})
        partition = cluster.partition("t", 0)
        cluster.broker(1).kill()
        partition.wait(isr={0})
        assert send(cluster, "t", [b"alone"]) == [None]
        cluster.broker(0).kill()
        cluster.broker(1).start()
        partition.wait(leader=1)
        with pytest.raises(AcknowledgedRecordLost, match="is not there any more"):
            cluster.verify()


def test_what_the_broker_rewrites_is_verified_all_the_same(kafka_cluster):
    kafka_cluster.create_topic("t", config={"message.timestamp.type": "LogAppendTime"})
    kafka_cluster.create_topic("u", config={"compression.type": "zstd"})
    kafka_cluster.disconnect("PRODUCE", applied=True)
    for topic in ("t", "u"):
        assert send(kafka_cluster, topic, [b"x"] * 3, **{"enable.idempotence": True}) == [None] * 3
        assert len(kafka_cluster.records(topic)) == 3
    assert kafka_cluster.verify().partitions == 2


def fetched(cluster, version):
    """What a consumer of that version is given of t-0."""
    host, _, port = cluster.partition("t", 0).leader.address.rpartition(":")
    asked = FetchRequest.FetchPartition(0, partition_max_bytes=1 << 20)
    with BlockingConnection(host, int(port), "reader") as connection:
        topic = FetchRequest.FetchTopic("t", partitions=[asked])
        return bytes(connection.send(FetchRequest(topics=[topic]), version).responses[0].partitions[0].records)


def test_a_cleaned_log_gives_other_batches_and_breaks_no_promise():
    from confluent_kafka import Producer

    policy = {"cleanup.policy": "compact", "segment.bytes": "100", "min.cleanable.dirty.ratio": "0.01"}
    with KafkaCluster(1, config={"log.cleaner.backoff.ms": "50"}) as cluster:
        cluster.create_topic("t", config=policy)
        producer = Producer({"bootstrap.servers": cluster.bootstrap, "linger.ms": 100, "log_level": 0})
        given = []
        for keys in ("ab", "ac", "ad"):
            for key in keys:
                producer.produce("t", b"x", key=key)
            assert producer.flush(20) == 0
            given.append(fetched(cluster, 12))
        until(lambda: not fetched(cluster, 12).startswith(given[0]), "the first batch is written anew")
        cluster.verify()


def test_a_consumer_before_record_batches_is_given_them_converted_and_no_promise_is_broken(kafka_cluster):
    kafka_cluster.create_topic("t")
    assert send(kafka_cluster, "t", [b"x"] * 3) == [None] * 3
    stored = fetched(kafka_cluster, 12)
    assert fetched(kafka_cluster, 2) != stored
    assert fetched(kafka_cluster, 12) == stored
    kafka_cluster.verify()


def test_a_deleted_topic_takes_its_promises_along(kafka_cluster):
    from confluent_kafka.admin import AdminClient

    kafka_cluster.create_topic("t")
    send(kafka_cluster, "t", [b"x"])
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap, "log_level": 0})
    admin.delete_topics(["t"])["t"].result(10)
    kafka_cluster.create_topic("other")
    send(kafka_cluster, "other", [b"y"])
    assert kafka_cluster.verify().partitions == 2


def test_a_broker_that_is_stopped_hands_over_what_it_leads(kafka_cluster):
    kafka_cluster.create_topic("t")
    partition = kafka_cluster.partition("t", 0)
    leader, epoch = partition.leader, partition.leader_epoch
    leader.stop()
    assert leader.state == "stopped"
    partition.wait(not_leader=leader, isr=set(partition.replicas) - {leader})
    assert partition.leader_epoch == epoch + 1
    leader.start()
    partition.wait(isr=partition.replicas)


def test_a_paused_controller_is_replaced_and_comes_back_as_a_broker(kafka_cluster):
    kafka_cluster.create_topic("t")
    partition = kafka_cluster.partition("t", 0)
    old = kafka_cluster.controller
    old.pause()
    assert old.state == "paused"
    partition.wait(isr=set(partition.replicas) - {old})
    assert kafka_cluster.controller != old
    old.resume()
    partition.wait(isr=partition.replicas)
    assert send(kafka_cluster, "t", [b"x"], **{"socket.timeout.ms": 2_000}) == [None]
    kafka_cluster.verify()


def test_one_way_from_the_leader_shrinks_the_isr(kafka_cluster):
    kafka_cluster.create_topic("t")
    partition = kafka_cluster.partition("t", 0)
    leader = partition.leader
    follower = next(each for each in partition.followers if not each.is_controller)  # who decides about the ISR
    leader.partition(to=follower)
    send(kafka_cluster, "t", [b"x"], acks=1)  # a follower that has everything is in sync, however silent
    partition.wait(leader=leader, isr=set(partition.replicas) - {follower})
    leader.heal()
    partition.wait(isr=partition.replicas)


def test_bytes_do_not_arrive_before_they_were_sent(kafka_cluster):
    with pytest.raises(ValueError, match="0 ends"):
        kafka_cluster.latency(-1)


def test_a_broker_with_latency_answers_late_and_in_order(kafka_cluster):
    kafka_cluster.create_topic("t")
    kafka_cluster.latency(0.05, from_="client", to="brokers")
    assert send(kafka_cluster, "t", [str(number).encode() for number in range(5)]) == [None] * 5
    assert [record.value for record in kafka_cluster.records("t")] == [b"0", b"1", b"2", b"3", b"4"]


def test_a_fault_of_one_broker_or_of_brokers_among_themselves(kafka_cluster):
    kafka_cluster.create_topic("t")
    partition = kafka_cluster.partition("t", 0)
    leader, follower = partition.leader, partition.followers[0]
    elsewhere = kafka_cluster.fail("PRODUCE", "NOT_LEADER_OR_FOLLOWER", times=None, broker=follower)
    assert send(kafka_cluster, "t", [b"x"]) == [None]
    assert elsewhere.hits == 0
    fetches = kafka_cluster.fail("FETCH", "NOT_LEADER_OR_FOLLOWER", times=None, broker=leader, from_=follower)
    until(lambda: fetches.hits > 0, "a fetch failed")
    send(kafka_cluster, "t", [b"y"], acks=1)
    partition.wait(isr=set(partition.replicas) - {follower})
    fetches.stop()
    partition.wait(isr=partition.replicas)


def test_metadata_fail_by_topic_and_name_the_brokers(kafka_cluster):
    fault = kafka_cluster.fail("METADATA", "TOPIC_AUTHORIZATION_FAILED")
    host, _, port = kafka_cluster.brokers[0].address.rpartition(":")
    with BlockingConnection(host, int(port), "denied") as connection:
        told = read_metadata(connection.send(metadata_request(["t"], allow_auto_topic_creation=True)))
        asked_again = read_metadata(connection.send(metadata_request(["t"])))
    assert fault.hits == 1
    assert told.topics["t"].error is ErrorCode.TOPIC_AUTHORIZATION_FAILED
    assert len(told.brokers) == 3
    assert asked_again.topics["t"].error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def test_a_fetch_whose_session_fails_says_so_of_the_whole(kafka_cluster):
    kafka_cluster.create_topic("t")
    host, _, port = kafka_cluster.partition("t", 0).leader.address.rpartition(":")
    topic = FetchRequest.FetchTopic("t", partitions=[FetchRequest.FetchPartition(0, partition_max_bytes=1 << 20)])
    for error in (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH):
        kafka_cluster.fail("FETCH", error.name)
        with BlockingConnection(host, int(port), "reader") as connection:
            answer = connection.send(FetchRequest(topics=[topic]), 12)
        assert (answer.error_code, answer.responses) == (error, [])


def test_followers_fetches_are_answered_as_by_any_broker(monkeypatch):
    answered = []
    original = RepeatedFetches.answer

    def noted(*arguments):
        answered.append(original(*arguments))
        return answered[-1]

    monkeypatch.setattr(RepeatedFetches, "answer", noted)
    with KafkaCluster(2) as cluster:
        cluster.create_topic("t", partitions=1)
        for value in (b"a", b"b", b"c"):
            assert send(cluster, "t", [value]) == [None]
        assert any(each is not None for each in answered)
        follower = cluster.partition("t", 0).followers[0]
        fault = cluster.fail("FETCH", "UNKNOWN_SERVER_ERROR", times=None, from_=follower)
        answered.clear()
        until(lambda: fault.hits, "a fetch failed")
        assert answered == []


def test_a_broker_speaks_of_the_cluster_when_a_controller_has_told_it(kafka_cluster):
    kafka_cluster.create_topic("t")
    controller = kafka_cluster.controller
    broker = next(each for each in kafka_cluster.brokers if each != controller)
    broker.kill()
    untold = kafka_cluster.disconnect("UPDATE_METADATA", times=None, broker=broker, from_=controller)
    broker.start()

    def ask():
        host, _, port = broker.address.rpartition(":")
        with BlockingConnection(host, int(port), "early") as connection:
            return read_metadata(connection.send(metadata_request(["t"])))

    with ThreadPoolExecutor(1) as early:
        asked = early.submit(ask)
        until(lambda: untold.hits > 2, "the controller has tried to tell it")
        assert not asked.done()
        untold.stop()
        told = asked.result(20)
    assert len(told.brokers) == 3
    assert len(told.partitions("t")) == 1


def test_a_late_answer_is_late(kafka_cluster):
    kafka_cluster.create_topic("t")
    fault = kafka_cluster.delay("PRODUCE", 0.5)
    began = time.monotonic()
    assert send(kafka_cluster, "t", [b"x"]) == [None]
    assert time.monotonic() - began >= 0.5
    assert fault.hits == 1


def test_names_that_do_not_exist_are_corrected(kafka_cluster):
    with pytest.raises(ValueError, match="did you mean PRODUCE"):
        kafka_cluster.fail("PRODUCT", "NOT_LEADER_OR_FOLLOWER")
    with pytest.raises(ValueError, match="did you mean NOT_LEADER_OR_FOLLOWER"):
        kafka_cluster.fail("PRODUCE", "NOT_LEADER")
    with pytest.raises(ValueError, match="is not an end of a link"):
        kafka_cluster.broker(0).partition(to="nowhere")
    with pytest.raises(ValueError, match="ids go from 0 to 2"):
        kafka_cluster.broker(3)
    with pytest.raises(TimeoutError, match="t-0 has a leader"):
        kafka_cluster.partition("t", 0).wait(timeout=0.1)


def test_a_partition_that_its_topic_has_not_is_not_waited_for(kafka_cluster):
    kafka_cluster.create_topic("t", partitions=2)
    absent = kafka_cluster.partition("t", 2)
    for read in (lambda: absent.leader, lambda: absent.isr, lambda: absent.high_watermark, absent.wait):
        with pytest.raises(ValueError, match="topic t has no partition 2: they go from 0 to 1"):
            read()


def test_of_a_topic_that_is_made_anew_with_less_partitions_what_was_in_the_others_is_not_missed(kafka_cluster):
    from confluent_kafka.admin import AdminClient

    topic = kafka_cluster.create_topic("t", partitions=2)
    assert send(kafka_cluster, "t", [b"%d" % number for number in range(50)]) == [None] * 50
    assert all(partition.high_watermark for partition in topic.partitions)
    admin = AdminClient({"bootstrap.servers": kafka_cluster.bootstrap})
    admin.delete_topics(["t"])["t"].result(30)

    def is_made_anew():
        try:
            return kafka_cluster.create_topic("t", partitions=1)
        except KafkaError:
            return None  # it is still being deleted

    until(is_made_anew, "it is made anew")
    assert kafka_cluster.verify().partitions == 2


def test_a_cluster_that_does_not_run_says_so():
    with pytest.raises(ClusterError, match="within `with`"):
        KafkaCluster().create_topic("t")


def test_configuration_that_is_wrong_is_told_at_once():
    with pytest.warns(UserWarning, match=r"did you mean auto.create.topics.enable"):
        KafkaCluster(config={"auto.create.topic.enable": False})
    with pytest.raises(ValueError, match=r"num.partitions"):
        KafkaCluster(config={"num.partitions": "many"})


def test_a_broker_that_gives_itself_up_is_told(kafka_cluster):
    kafka_cluster.create_topic("t")
    follower = kafka_cluster.partition("t", 0).followers[0]

    kafka_cluster.host._volumes[follower.id].free = 0  # as no test could ask for
    send(kafka_cluster, "t", [b"x"])
    until(lambda: follower.state == "failed", "the broker has halted")
    with pytest.raises(AcknowledgedRecordLost, match=f"broker {follower.id} halted by itself"):
        kafka_cluster.verify()


def test_a_broker_with_a_full_disk_may_give_itself_up(kafka_cluster):
    kafka_cluster.create_topic("t", config={"min.insync.replicas": 2})
    partition = kafka_cluster.partition("t", 0)
    leader = partition.leader
    leader.fill_disk()
    settings = {"reconnect.backoff.max.ms": 100, "enable.idempotence": True}
    assert send(kafka_cluster, "t", [b"x"] * 3, **settings) == [None] * 3
    assert leader.state == "failed"
    kafka_cluster.verify()
    kafka_cluster.recover()
    partition.wait(isr=partition.replicas)
    assert len(kafka_cluster.records("t")) == 3
    kafka_cluster.verify()


def test_a_session_that_ends_while_the_logs_are_recovered_is_followed_by_another(kafka_cluster):
    kafka_cluster.create_topic("t", partitions=4)
    send(kafka_cluster, "t", [b"x"])
    broker, host = kafka_cluster.broker(0), kafka_cluster.host
    broker.kill()
    note = kafka_cluster.history.note

    def pausing(who, what):
        note(who, what)
        if who == "broker-0" and what.startswith("recovering"):
            host._lives[0].process.pause()

    kafka_cluster.history.note = pausing
    with ThreadPoolExecutor(1) as pool:
        starting = pool.submit(broker.start)
        until(lambda: broker.state == "paused", "the broker recovers its logs")
        session = re.findall(r"broker 0 connected .* session (0x\w+)", kafka_cluster.timeline())[-1]
        until(lambda: f"session {session} expires" in kafka_cluster.timeline(), "its session is over")
        broker.resume()
        starting.result(20)
    kafka_cluster.partition("t", 0).wait(isr={0, 1, 2})
    kafka_cluster.verify()


def test_a_seed_draws_the_same():
    with KafkaCluster(1, seed=5) as one, KafkaCluster(1, seed=5) as other:
        assert one.random.random() == other.random.random()
        ids = [each.create_topic("t").name and each.client.metadata.cluster_id for each in (one, other)]
    assert ids[0] == ids[1]


def test_two_clusters_of_one_process_do_not_meet():
    with KafkaCluster(1) as one, KafkaCluster(1) as other:
        one.create_topic("t")
        send(one, "t", [b"x"])
        other.create_topic("t")
        assert other.records("t") == []
        assert len(one.records("t")) == 1


def test_a_cluster_leaves_logging_as_it_was():
    logger = logging.getLogger("barnabas")
    before = logger.level, list(logger.filters)
    with KafkaCluster(1):
        assert logger.getEffectiveLevel() <= logging.INFO
    assert (logger.level, list(logger.filters)) == before


def test_coroutines_await_what_plain_code_calls():
    async def story():
        async with KafkaCluster() as cluster:
            await cluster.create_topic("t")
            partition = cluster.partition("t", 0)
            leader = await partition.leader()
            ticks = 0

            async def tick():
                nonlocal ticks
                while True:
                    await asyncio.sleep(0.01)
                    ticks += 1

            ticking = asyncio.create_task(tick())
            await leader.kill()
            await partition.wait(not_leader=leader)
            ticking.cancel()
            await cluster.verify()
            assert leader.id not in await partition.isr()
            return ticks

    assert asyncio.run(story()) > 5


@pytest.fixture
def anyio_backend():
    return "asyncio"


@pytest.mark.anyio
async def test_an_async_test_takes_the_fixture(async_kafka_cluster):
    await async_kafka_cluster.create_topic("t")
    leader = await async_kafka_cluster.partition("t", 0).leader()
    await leader.stop()
    await async_kafka_cluster.partition("t", 0).wait(not_leader=leader)
    assert (await async_kafka_cluster.verify()).acknowledged == 0


def test_three_brokers_cost_little():
    code = """
import resource, time
from barnabas.testing.cluster import KafkaCluster
from barnabas.testing.loop import background
from barnabas.broker.router import Router
Router(), background()
before, began = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
with KafkaCluster():
    after, ready = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss, time.process_time()
print((after - before) // 1024, ready - began)
"""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    megabytes, cpu_seconds = map(float, done.stdout.split())
    assert megabytes < 150
    assert cpu_seconds < 0.5  # the time on the wall is this much on a machine with nothing else to do


def test_the_plugin_shares_saves_and_says(pytester):
    pytester.makepyfile(
        """
        import pytest

        pytestmark = pytest.mark.kafka(brokers=1, seed=11)

        def test_one(kafka_module_cluster):
            kafka_module_cluster.create_topic("t")
            kafka_module_cluster.broker(0).kill()

        def test_two(kafka_module_cluster):
            assert kafka_module_cluster.broker(0).state == "running"
            kafka_module_cluster.partition("t", 0).wait(leader=0)
            assert False, "on purpose"

        @pytest.mark.kafka(nonsense=1)
        def test_three(kafka_cluster):
            pass
        """
    )
    result = pytester.runpytest_subprocess("-p", "no:cacheprovider")
    result.assert_outcomes(passed=1, failed=1, errors=1)
    result.stdout.fnmatch_lines(["*@pytest.mark.kafka: *nonsense*"])
    result.stdout.fnmatch_lines(["*Kafka cluster (seed 11)*"])
    view, trace = sorted((pytester.path / ".pytest_kafka").iterdir())
    assert (view.suffix, trace.suffix) == (".html", ".txt")
    assert "barnabas.testing, seed 11" in view.read_text()
    assert "seed 11" in trace.read_text()
    assert "is killed" in trace.read_text()


@pytest.mark.parametrize("key", ["", "secret"])
def test_brokers_make_the_paths_of_delegation_tokens_where_they_have_a_secret_key(key):
    with KafkaCluster(1, config={"delegation.token.secret.key": key} if key else {}) as cluster:
        nodes = cluster.host._coordinator.tree.nodes
        assert {path for path in nodes if path.startswith("/delegation_token")} == (
            {"/delegation_token", "/delegation_token/tokens", "/delegation_token/token_changes"} if key else set()
        )


def test_a_broker_that_died_is_controller_no_more(kafka_cluster):
    dead = kafka_cluster.controller
    dead.kill()
    assert not dead.is_controller  # although its znode stays until its session is over
    assert kafka_cluster.controller != dead
