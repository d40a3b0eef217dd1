"""What both count of the same load: Kafka's own values by JMX, ours by /metrics, under one broker each."""

from __future__ import annotations

import re
from typing import Any
from urllib.request import urlopen

import pytest
from apache import ApacheCluster, free_port, tool
from cluster import running, until
from prometheus_client.parser import text_string_to_metric_families

from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.web.metrics import name_of
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import Record, build_batch

pytestmark = pytest.mark.apache

TOPIC, PARTITIONS = "measured", 3
BATCHES, RECORDS = 7, 10
PRODUCE_VERSION = FETCH_VERSION = 9

CONFIG = {"auto.leader.rebalance.enable": "false"}
"""Else a controller is at it five seconds after its election, and says so in its state."""

DOMAINS = ("server", "network", "controller", "cluster", "log", "coordinator.group")

Values = dict[tuple[str, frozenset[tuple[str, str]]], float]
"""By the name that the JMX exporter gives, and the labels."""

_BEAN = re.compile(r'^"?([\w.]+:[^"]*):(Count|Value)=([-\d.E]+)"?$')


def load(host: str, port: int) -> None:
    """The same bytes for both, and some that are refused."""
    connection = BlockingConnection(host, port, "measured")
    try:
        topic = CreateTopicsRequest.CreatableTopic(TOPIC, PARTITIONS, 1)
        created = connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=60_000))
        assert not created.topics[0].error_code
        for number in range(BATCHES):
            records = [Record(at, 1_700_000_000_000, b"key", b"x" * 100) for at in range(RECORDS)]
            for partition in range(PARTITIONS):
                until(lambda p=partition, r=records: produced(connection, p, r) == 0, f"batch {number}")
        assert produced(connection, 99, records) == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        assert produced(connection, 0, records, b"\x02") == ErrorCode.CORRUPT_MESSAGE
        assert fetched(connection, 0, 1_000_000).error_code == ErrorCode.OFFSET_OUT_OF_RANGE
        assert fetched(connection, 99, 0).error_code == ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
        for partition in range(PARTITIONS):
            assert fetched(connection, partition, 0).high_watermark == BATCHES * RECORDS
    finally:
        connection.close()


def fetched(connection: BlockingConnection, partition: int, offset: int) -> Any:
    asked = FetchRequest.FetchPartition(partition, fetch_offset=offset, partition_max_bytes=1 << 20)
    request = FetchRequest(topics=[FetchRequest.FetchTopic(TOPIC, partitions=[asked])])
    answer: Any = connection.send(request, FETCH_VERSION)
    return answer.responses[0].partitions[0]


def produced(connection: BlockingConnection, partition: int, records: list[Record], end: bytes = b"") -> int:
    """`end` takes the place of the batch's last bytes."""
    batch = bytes(build_batch(records))
    data = ProduceRequest.PartitionProduceData(partition, records=batch[: len(batch) - len(end)] + end)
    request = ProduceRequest(acks=1, timeout_ms=60_000, topic_data=[ProduceRequest.TopicProduceData(TOPIC, [data])])
    answer: Any = connection.send(request, PRODUCE_VERSION)
    return int(answer.responses[0].partition_responses[0].error_code)


@pytest.fixture(scope="module")
def kafkas(tmp_path_factory: pytest.TempPathFactory) -> Values:
    port = free_port()
    jvm = [
        f"-Dcom.sun.management.jmxremote.port={port}",
        f"-Dcom.sun.management.jmxremote.rmi.port={port}",
        "-Dcom.sun.management.jmxremote.host=127.0.0.1",
        "-Djava.rmi.server.hostname=127.0.0.1",
        "-Dcom.sun.management.jmxremote.authenticate=false",
        "-Dcom.sun.management.jmxremote.ssl=false",
    ]
    with ApacheCluster(tmp_path_factory.mktemp("kafka"), jvm=jvm, config=CONFIG) as kafka:
        load("127.0.0.1", kafka.ports[0])
        names = [f"kafka.{domain}:*" for domain in DOMAINS]
        told = tool(
            "kafka-jmx",
            *(word for name in names for word in ("--object-name", name)),
            *("--attributes", "Count,Value", "--one-time", "true", "--report-format", "properties"),
            *("--jmx-url", f"service:jmx:rmi:///jndi/rmi://127.0.0.1:{port}/jmxrmi"),
            timeout=240,
        )
    assert told.returncode == 0, told.stderr
    values: Values = {}
    for line in told.stdout.splitlines():
        if found := _BEAN.match(line):
            bean, attribute, value = found.groups()
            keys = dict(each.split("=", 1) for each in bean.partition(":")[2].split(",") if "=" in each)
            counts = keys.get("name", "").endswith("PerSec") and attribute == "Count"
            labels = frozenset((name, text) for name, text in keys.items() if name not in ("type", "name"))
            values[name_of(bean) + ("_total" if counts else ""), labels] = float(value)
    assert values, told.stdout[:2000]
    return values


@pytest.fixture(scope="module")
def ours(tmp_path_factory: pytest.TempPathFactory) -> Values:
    with running(tmp_path_factory.mktemp("ours"), 1, *(f"{key}={value}" for key, value in CONFIG.items())) as cluster:
        broker = cluster.broker(0)
        load("127.0.0.1", broker["port"])
        with urlopen(f"http://{broker['admin']}/metrics", timeout=60) as answer:
            text = answer.read().decode()
    return {
        (sample.name, frozenset(sample.labels.items())): sample.value
        for family in text_string_to_metric_families(text)
        for sample in family.samples
    }


def labelled(name: str, **labels: str) -> Any:
    return pytest.param((name, frozenset(labels.items())), id=f"{name} {labels}" if labels else name)


_TOPICS = "kafka_server_brokertopicmetrics_"
_REPLICAS = "kafka_server_replicamanager_"
_CONTROLLER = "kafka_controller_kafkacontroller_"
COMMON = [
    *(
        labelled(f"{_TOPICS}{name}_total", **labels)
        for name in ("messagesin", "bytesin", "bytesout", "totalproducerequests", "totalfetchrequests")
        for labels in ({}, {"topic": TOPIC})
    ),
    labelled(f"{_TOPICS}failedproducerequests_total"),
    labelled(f"{_TOPICS}failedfetchrequests_total"),
    labelled(f"{_TOPICS}bytesrejected_total"),
    labelled("kafka_network_requestmetrics_requests_total", request="Produce", version=str(PRODUCE_VERSION)),
    labelled("kafka_network_requestmetrics_errors_total", request="Produce", error="NONE"),
    labelled("kafka_network_requestmetrics_errors_total", request="Produce", error="UNKNOWN_TOPIC_OR_PARTITION"),
    *(
        labelled(f"{_REPLICAS}{name}")
        for name in ("leadercount", "partitioncount", "offlinereplicacount", "underreplicatedpartitions",
                     "underminisrpartitioncount", "atminisrpartitioncount", "reassigningpartitions", "produceridcount",
                     "isrshrinks_total", "isrexpands_total", "failedisrupdates_total")
    ),
    *(
        labelled(f"{_CONTROLLER}{name}")
        for name in ("activecontrollercount", "activebrokercount", "globaltopiccount", "globalpartitioncount",
                     "offlinepartitionscount", "preferredreplicaimbalancecount", "topicstodeletecount",
                     "topicsineligibletodeletecount", "replicastodeletecount", "replicasineligibletodeletecount",
                     "controllerstate", "zkmigrationstate")
    ),
    *(
        labelled(name, topic=TOPIC, partition="1")
        for name in ("kafka_log_log_logstartoffset", "kafka_log_log_logendoffset", "kafka_log_log_numlogsegments",
                     "kafka_log_log_size", "kafka_cluster_partition_insyncreplicascount",
                     "kafka_cluster_partition_replicascount", "kafka_cluster_partition_underreplicated",
                     "kafka_cluster_partition_laststableoffsetlag", "kafka_cluster_partition_underminisr",
                     "kafka_cluster_partition_atminisr")
    ),
    *(
        labelled("kafka_server_delayedoperationpurgatory_numdelayedoperations", delayedOperation=name)
        for name in ("Produce", "Fetch", "DeleteRecords", "Rebalance", "Heartbeat")
    ),
    *(
        labelled(f"kafka_coordinator_group_groupmetadatamanager_{name}")
        for name in ("numgroups", "numoffsets", "numgroupsstable", "numgroupsempty", "numgroupsdead",
                     "numgroupspreparingrebalance", "numgroupscompletingrebalance")
    ),
    *(
        labelled(f"kafka_server_fetchsessioncache_{name}")
        for name in ("numincrementalfetchsessions", "numincrementalfetchpartitionscached",
                     "incrementalfetchsessionevictions_total")
    ),
    *(
        labelled(f"kafka_server_sessionexpirelistener_{name}_total")
        for name in ("zookeeperdisconnects", "zookeeperexpires", "zookeeperauthfailures")
    ),
    labelled("kafka_controller_controllerstats_uncleanleaderelections_total"),
    labelled("kafka_controller_controllerchannelmanager_totalqueuesize"),
    labelled("kafka_controller_controllereventmanager_eventqueuesize"),
    labelled("kafka_server_kafkaserver_brokerstate"),
    labelled("kafka_log_logmanager_offlinelogdirectorycount"),
]  # fmt: skip


@pytest.mark.parametrize("name", COMMON)
def test_the_same_load_has_the_same_values(
    name: tuple[str, frozenset[tuple[str, str]]], kafkas: Values, ours: Values
) -> None:
    assert name in kafkas
    assert ours[name] == kafkas[name]
