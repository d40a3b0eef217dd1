"""Three broker processes and a coordinator, with confluent-kafka (librdkafka) as the client."""

import signal
import socket
import struct
from collections import Counter

import pytest
from confluent_kafka import Consumer, Producer, TopicPartition
from confluent_kafka.admin import AdminClient, ConfigResource, NewPartitions, NewTopic
from processes import Cluster, eventually, read


@pytest.fixture(scope="module")
def cluster(tmp_path_factory):
    with Cluster(tmp_path_factory.mktemp("cluster")) as running:
        yield running


def create(cluster, name, partitions=6, factor=3, **config):
    admin = AdminClient({"bootstrap.servers": cluster.bootstrap})
    config = {key.replace("_", "."): str(value) for key, value in config.items()}
    for future in admin.create_topics([NewTopic(name, partitions, factor, config=config)]).values():
        future.result(20)
    return admin


class Acknowledged:
    """A producer that counts what it was told."""

    def __init__(self, cluster, **config):
        self.errors = []
        self.values = []
        self.producer = Producer(
            {
                "bootstrap.servers": cluster.bootstrap,
                "enable.idempotence": True,
                "acks": "all",
                "message.timeout.ms": 120000,
                **{key.replace("_", "."): value for key, value in config.items()},
            }
        )

    def told(self, error, message):
        if error is not None:
            self.errors.append(error)
        else:
            self.values.append((message.partition(), message.offset(), message.value()))

    def send(self, topic, value, **more):
        while True:
            try:
                self.producer.produce(topic, value, on_delivery=self.told, **more)
                self.producer.poll(0)
                return
            except BufferError:
                self.producer.poll(0.1)

    def flush(self):
        assert self.producer.flush(120) == 0
        assert not self.errors


def read_all(cluster, topic, expected, partitions=6):
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.bootstrap,
            "group.id": "reader",
            "enable.auto.commit": False,
            "auto.offset.reset": "earliest",
        }
    )
    consumer.assign([TopicPartition(topic, number, 0) for number in range(partitions)])
    found, complaints = [], []

    def more():
        found.extend((each.partition(), each.offset(), each.value()) for each in read(consumer, complaints))
        assert len(found) >= expected, (len(found), complaints)
        return True

    try:
        eventually(more, within=60, what=f"{expected} records of {topic}")
    finally:
        consumer.close()
    return found


def isr(cluster, topic):
    return {number: sorted(state.isrs) for number, state in cluster.metadata(topic).topics[topic].partitions.items()}


def leaders(cluster, topic):
    return {number: state.leader for number, state in cluster.metadata(topic).topics[topic].partitions.items()}


def test_what_is_acknowledged_is_read_once_and_in_order(cluster):
    create(cluster, "flights", min_insync_replicas=2)
    producer = Acknowledged(cluster)
    for number in range(20000):
        producer.send("flights", b"%d" % number, key=b"%d" % (number % 17))
    producer.flush()
    assert sorted(read_all(cluster, "flights", 20000)) == sorted(producer.values)


def test_a_controller_and_a_leader_are_killed_and_nothing_acknowledged_is_lost(cluster):
    create(cluster, "storm", min_insync_replicas=2)
    producer = Acknowledged(cluster)
    sent = 0

    def send(count):
        nonlocal sent
        for _ in range(count):
            producer.send("storm", b"%d" % sent, key=b"%d" % (sent % 17))
            sent += 1

    send(5000)
    first = cluster.controller()
    cluster.brokers[first].kill()
    send(5000)
    eventually(lambda: cluster.controller() != first, what="another controller")
    eventually(
        lambda: all(first not in members for members in isr(cluster, "storm").values()), what="the dead leave the ISR"
    )
    cluster.start_broker(first)
    eventually(
        lambda: all(members == [0, 1, 2] for members in isr(cluster, "storm").values()),
        within=60,
        what="the restarted broker is in sync",
    )
    send(5000)
    second = Counter(leaders(cluster, "storm").values()).most_common(1)[0][0]
    cluster.brokers[second].kill()
    send(5000)
    producer.flush()
    cluster.start_broker(second)
    eventually(
        lambda: all(members == [0, 1, 2] for members in isr(cluster, "storm").values()),
        within=60,
        what="the restarted leader is in sync",
    )
    assert sorted(read_all(cluster, "storm", sent)) == sorted(producer.values)
    assert sorted(int(value) for _, _, value in producer.values) == list(range(sent))


def test_a_controller_that_slept_past_its_session_comes_back_as_an_ordinary_broker(cluster):
    create(cluster, "sleep", min_insync_replicas=2)
    producer = Acknowledged(cluster)

    def send(first, last):
        for number in range(first, last):
            producer.send("sleep", b"%d" % number, key=b"%d" % number)

    send(0, 1000)
    sleeper = cluster.controller()
    cluster.brokers[sleeper].signal(signal.SIGSTOP)
    try:
        send(1000, 2000)
        others = [port for number, port in enumerate(cluster.ports) if number != sleeper]

        def another_reigns():
            bootstrap = ",".join(f"127.0.0.1:{port}" for port in others)
            admin = AdminClient({"bootstrap.servers": bootstrap, "log_level": 0})
            known = admin.list_topics("sleep", timeout=5)
            return known.controller_id != sleeper and all(
                sleeper not in state.isrs for state in known.topics["sleep"].partitions.values()
            )

        eventually(another_reigns, what="the others go on without the sleeper")
    finally:
        cluster.brokers[sleeper].signal(signal.SIGCONT)
    send(2000, 3000)
    producer.flush()
    eventually(
        lambda: all(members == [0, 1, 2] for members in isr(cluster, "sleep").values()),
        within=60,
        what="the sleeper is in sync again",
    )
    assert cluster.controller() != sleeper
    assert sorted(read_all(cluster, "sleep", 3000)) == sorted(producer.values)


def test_a_broker_that_is_stopped_hands_over_and_comes_back(cluster):
    create(cluster, "calm")
    producer = Acknowledged(cluster)
    producer.send("calm", b"before")
    producer.flush()
    leader = leaders(cluster, "calm")[0]
    assert cluster.brokers[leader].stop() == 0
    eventually(lambda: leader not in leaders(cluster, "calm").values(), what="others lead")
    producer.send("calm", b"after")
    producer.flush()
    cluster.start_broker(leader)
    eventually(
        lambda: all(members == [0, 1, 2] for members in isr(cluster, "calm").values()), what="the broker is in sync"
    )
    assert sorted(value for _, _, value in read_all(cluster, "calm", 2)) == [b"after", b"before"]


def test_topics_are_extended_described_changed_and_deleted(cluster):
    admin = create(cluster, "changing", partitions=1, retention_ms=60000)
    admin.create_partitions([NewPartitions("changing", 3)])["changing"].result(20)
    eventually(lambda: len(cluster.metadata("changing").topics["changing"].partitions) == 3)
    resource = ConfigResource("topic", "changing")
    described = admin.describe_configs([resource])[resource].result(20)
    assert described["retention.ms"].value == "60000"
    assert described["segment.bytes"].is_default
    admin.delete_topics(["changing"])["changing"].result(20)
    eventually(lambda: "changing" not in cluster.metadata().topics)


def test_a_topic_that_is_written_to_is_created(cluster):
    producer = Acknowledged(cluster)
    producer.send("out-of-nothing", b"x")
    producer.flush()
    assert [value for _, _, value in read_all(cluster, "out-of-nothing", 1, partitions=1)] == [b"x"]


def test_a_group_shares_partitions_commits_and_goes_on_where_it_was(cluster):
    create(cluster, "shared")
    producer = Acknowledged(cluster)
    for number in range(300):
        producer.send("shared", b"%d" % number, key=b"%d" % number)
    producer.flush()
    settings = {
        "bootstrap.servers": cluster.bootstrap,
        "group.id": "pair",
        "auto.offset.reset": "earliest",
        "enable.auto.commit": False,
        "session.timeout.ms": 10000,
    }
    members = [Consumer(settings), Consumer(settings)]
    for member in members:
        member.subscribe(["shared"])
    found, complaints = [], []

    def everything_is_read_by_two():
        for member in members:
            found.extend(message.value() for message in read(member, complaints))
        assert len(set(found)) == 300, (len(found), complaints)
        # Who joined alone reads all, and what changes hands uncommitted is read anew: that, too, is done.
        positions = [member.position(member.assignment()) for member in members]
        assert all(positions), complaints
        assert sum(each.offset for member in positions for each in member) == 300, positions
        return True

    eventually(everything_is_read_by_two, within=40)
    assert sum(len(member.assignment()) for member in members) == 6
    for member in members:
        member.commit(asynchronous=False)
        member.close()
    producer.send("shared", b"later")
    producer.flush()
    late = Consumer(settings)
    late.subscribe(["shared"])
    after = []
    eventually(lambda: after.extend(message.value() for message in read(late, complaints)) or after, within=40)
    late.close()
    assert after == [b"later"]


@pytest.mark.parametrize(
    "data",
    [
        b"GET / HTTP/1.1\r\nHost: castle\r\n\r\n",
        struct.pack(">i", 2**31 - 1) + b"x" * 100,
        struct.pack(">i", -5),
        struct.pack(">ihhih", 10, 999, 0, 5, -1),
        struct.pack(">ihhih", 10, 3, 99, 5, -1),
    ],
)
def test_garbage_closes_that_one_connection(cluster, data):
    address = ("127.0.0.1", cluster.ports[0])
    with socket.create_connection(address, timeout=10) as other, socket.create_connection(address, timeout=10) as bad:
        bad.sendall(data)
        assert bad.recv(100) == b""
        other.sendall(struct.pack(">ihhih", 10, 18, 0, 5, -1))
        (size,) = struct.unpack(">i", other.recv(4))
        assert size > 100
    assert cluster.ready()
