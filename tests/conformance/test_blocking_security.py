"""The blocking client logs in to Apache Kafka: SCRAM and PLAIN, over TLS and not, as the ``kafka.*`` options say.

What ACLs deny it there is said in the source's sentences.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from certificates import Authority
from cluster import until
from confluent_kafka.admin import (
    AclBinding,
    AclOperation,
    AclPermissionType,
    AdminClient,
    NewTopic,
    ResourcePatternType,
    ResourceType,
)
from kafka_tools import tool
from pyspark.sql.streaming.datasource import ReadAllAvailable
from pyspark.sql.types import StructType

from barnabas.client import blocking
from barnabas.client.connection import ConnectionLost
from barnabas.client.offsets import EARLIEST
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.spark.access import ClusterAccess, connected
from barnabas.spark.fetching import fetched
from barnabas.spark.groups import commit_offsets
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import DataLoss, OffsetRange
from barnabas.spark.stream import TopicStreamReader
from barnabas.spark.topics import covered

pytestmark = pytest.mark.apache
_LOGIN = "org.apache.kafka.common.security"


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[dict[str, int], Path]]:
    """Ports by protocol, and the authority's certificate. User k has the password "p=,q" in PLAIN and SCRAM."""
    apache.require()
    authority = Authority(tmp_path_factory.mktemp("authority"))
    ports = {name: apache.free_port() for name in ("PLAINTEXT", "SSL", "SASL_PLAINTEXT", "SASL_SSL")}
    config = {
        "listeners": ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items()),
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512",
        "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
        "allow.everyone.if.no.acl.found": "true",
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").key_store),
    }
    for name in ("sasl_plaintext", "sasl_ssl"):
        config[f"listener.name.{name}.plain.sasl.jaas.config"] = (
            f'{_LOGIN}.plain.PlainLoginModule required user_k="p=,q";'
        )
        for size in (256, 512):
            config[f"listener.name.{name}.scram-sha-{size}.sasl.jaas.config"] = (
                f"{_LOGIN}.scram.ScramLoginModule required;"
            )
    cluster = apache.ApacheCluster(tmp_path_factory.mktemp("apache"), 1, config=config)
    cluster.ports[0] = ports["PLAINTEXT"]
    with cluster:
        scram = {f"SCRAM-SHA-{size}": "[password=p=.q]" for size in (256, 512)}
        tool(
            "kafka-configs", "--bootstrap-server", cluster.bootstrap, "--alter", "--entity-type", "users",
            "--entity-name", "k", "--add-config", ",".join(f"{name}={value}" for name, value in scram.items()),
        )  # fmt: skip
        yield ports, authority.trust_store


def access(
    secured: tuple[dict[str, int], Path], protocol: str, mechanism: str = "", password: str = ""
) -> ClusterAccess:
    return ClusterAccess.parse(given(secured, protocol, mechanism, password))


def given(
    secured: tuple[dict[str, int], Path], protocol: str, mechanism: str = "", password: str = ""
) -> dict[str, str]:
    ports, trust_store = secured
    return {
        "kafka.bootstrap.servers": f"127.0.0.1:{ports[protocol]}",
        "kafka.security.protocol": protocol,
        "kafka.sasl.mechanism": mechanism,
        "kafka.sasl.jaas.config": f'Module required username="k" password="{password}";',
        "kafka.ssl.truststore.location": str(trust_store),
    }


@pytest.mark.parametrize("protocol", ["SASL_PLAINTEXT", "SASL_SSL"])
def test_a_user_logs_in_by_every_mechanism_and_sees_the_cluster(
    secured: tuple[dict[str, int], Path], protocol: str
) -> None:
    for mechanism, password in (("PLAIN", "p=,q"), ("SCRAM-SHA-256", "p=.q"), ("SCRAM-SHA-512", "p=.q")):
        with connected(access(secured, protocol, mechanism, password)) as cluster:
            assert list(cluster.refresh().brokers) == [0]
            cluster.broker(0)


@pytest.mark.parametrize(
    ("protocol", "mechanism", "password"),
    [("SSL", "", ""), ("SASL_PLAINTEXT", "PLAIN", "p=,q"), ("SASL_SSL", "SCRAM-SHA-512", "p=.q")],
)
def test_the_client_for_people_logs_in_by_kafkas_settings(
    secured: tuple[dict[str, int], Path], protocol: str, mechanism: str, password: str
) -> None:
    ports, trust_store = secured
    config = {
        "security.protocol": protocol,
        "sasl.mechanism": mechanism,
        "sasl.username": "k",
        "sasl.password": password,
        "ssl.ca.location": str(trust_store),
    }
    with blocking.connect(f"127.0.0.1:{ports[protocol]}", config=config) as cluster:
        assert cluster.admin.describe_cluster().brokers
    wrong = {**config, "sasl.password": "wrong", "default.api.timeout.ms": "2000"}
    if mechanism:
        with (
            blocking.connect(f"127.0.0.1:{ports[protocol]}", config=wrong) as cluster,
            pytest.raises(KafkaError) as refused,
        ):
            cluster.admin.describe_cluster()
        assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED


def test_tls_alone_is_enough_where_nobody_asks_for_a_user(secured: tuple[dict[str, int], Path]) -> None:
    with connected(access(secured, "SSL")) as cluster:
        assert list(cluster.refresh().brokers) == [0]


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-512"])
def test_a_wrong_password_is_said(secured: tuple[dict[str, int], Path], mechanism: str) -> None:
    with pytest.raises(KafkaError) as refused, connected(access(secured, "SASL_PLAINTEXT", mechanism, "wrong")):
        pass
    assert refused.value.code is ErrorCode.SASL_AUTHENTICATION_FAILED
    assert "wrong" not in str(refused.value)


def test_the_other_protocols_listener_is_an_error_that_names_the_option(
    secured: tuple[dict[str, int], Path],
) -> None:
    ports, _ = secured
    plain = ClusterAccess.parse({"kafka.bootstrap.servers": f"127.0.0.1:{ports['SSL']}"})
    with pytest.raises(ConnectionLost, match=r"kafka\.security\.protocol=PLAINTEXT"), connected(plain):
        pass


def test_what_acls_deny_is_said_with_the_permission(secured: tuple[dict[str, int], Path]) -> None:
    ports, _ = secured
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports['PLAINTEXT']}"})
    for made in admin.create_topics([NewTopic("seen", 1, 1), NewTopic("hidden", 1, 1)]).values():
        made.result(30)

    def denied(resource: ResourceType, name: str, operation: AclOperation) -> AclBinding:
        return AclBinding(resource, name, ResourcePatternType.LITERAL, "User:k", "*", operation, AclPermissionType.DENY)

    seen = AclBinding(
        ResourceType.TOPIC, "seen", ResourcePatternType.LITERAL, "User:k", "*", AclOperation.DESCRIBE,
        AclPermissionType.ALLOW,
    )  # fmt: skip
    acls = [
        seen,
        denied(ResourceType.TOPIC, "hidden", AclOperation.DESCRIBE),
        denied(ResourceType.GROUP, "g", AclOperation.READ),
    ]
    for made in admin.create_acls(acls).values():
        made.result(30)
    user = given(secured, "SASL_PLAINTEXT", "PLAIN", "p=,q")
    options = SourceOptions.parse({**user, "subscribe": "seen"}).for_batch()
    with connected(options.access) as cluster:
        (partition, topic_id), *_ = covered(cluster, options).items()
        with pytest.raises(KafkaError, match="'hidden' cannot be read: this user has no DESCRIBE permission"):
            covered(cluster, SourceOptions.parse({**user, "subscribe": "hidden"}))
        hidden = TopicPartition("hidden", 0)
        for asked in (cluster.leader, lambda at: cluster.list_offsets({at: EARLIEST})):
            with pytest.raises(KafkaError, match=r"hidden.*\(this user has no DESCRIBE permission on it\)"):
                asked(hidden)
        with pytest.raises(KafkaError, match="seen-0 cannot be read: this user has no READ permission"):
            list(fetched(cluster, OffsetRange("seen", 0, 0, 1, topic_id=topic_id), options))
        with pytest.raises(KafkaError, match="This user may not commit offsets to group 'g'"):
            commit_offsets(cluster, "g", {partition: 0})
        with pytest.raises(KafkaError, match=r"topic seen: .*this user has no READ permission on it"):
            commit_offsets(cluster, "other", {partition: 0})


def test_a_stream_whose_pattern_may_not_describe_a_topic_any_more_says_so(
    secured: tuple[dict[str, int], Path],
) -> None:
    ports, _ = secured
    admin = AdminClient({"bootstrap.servers": f"127.0.0.1:{ports['PLAINTEXT']}"})
    admin.create_topics([NewTopic("taken-away", 1, 1)])["taken-away"].result(30)
    options = SourceOptions.parse({**given(secured, "SASL_PLAINTEXT", "PLAIN", "p=,q"), "subscribePattern": "^taken"})
    stream = TopicStreamReader(options, StructType())
    start = stream.initialOffset()
    denied = AclBinding(
        ResourceType.TOPIC, "taken-away", ResourcePatternType.LITERAL, "User:k", "*", AclOperation.DESCRIBE,
        AclPermissionType.DENY,
    )  # fmt: skip
    for made in admin.create_acls([denied]).values():
        made.result(30)
    with connected(options.access) as cluster:
        until(lambda: not covered(cluster, options), "the broker knows what is denied")
    with pytest.raises(DataLoss, match=r"taken-away is gone, or this user has no DESCRIBE permission on it any more"):
        stream.latestOffset(start, ReadAllAvailable())
