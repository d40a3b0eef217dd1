"""Source, sink and jobs on a secured cluster of an Apache broker and one of ours: each leads one partition of a topic.

Every login that people paste from Kafka's clients, and no secret of theirs in a plan, an event log or an error.
"""

from __future__ import annotations

import contextlib
import io
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

import apache
import pytest
from certificates import Authority
from cluster import BARNABAS, barnabas, until
from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient, NewTopic
from spark_logins import LOGINS, add_user, broker_config, given, logins, token_endpoint, token_of_k

from barnabas.spark.jobs import archive as archive_job
from barnabas.spark.jobs import lag as lag_job
from barnabas.spark.reasons import reason
from barnabas.spark.session import SparkUnavailable, session

pytestmark = [pytest.mark.long(2), pytest.mark.apache, pytest.mark.spark]

APACHES, OURS = 0, 1


class World(NamedTuple):
    bootstrap: str
    """Without TLS and users, for the test itself."""
    logins: dict[str, dict[str, str]]
    """A client's properties, by what they are."""
    secrets: tuple[str, ...]


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    apache.require()
    directory = tmp_path_factory.mktemp("secured")
    authority = Authority(directory / "authority")
    ports = {name: {id: apache.free_port() for id in (APACHES, OURS)} for name in ("PLAINTEXT", "SSL", "SASL_SSL")}
    config = {
        **broker_config(authority),
        "zookeeper.session.timeout.ms": "18000",
    }
    listeners = {id: ",".join(f"{name}://127.0.0.1:{each[id]}" for name, each in ports.items()) for id in (0, 1)}
    cluster = apache.ApacheCluster(
        directory / "apache", 1, config={**config, "listeners": listeners[APACHES]}, first_id=APACHES
    )
    cluster.ports[APACHES] = ports["PLAINTEXT"][APACHES]
    token = token_of_k()
    with cluster as kafka, token_endpoint(token) as endpoint:
        ours = {**config, "broker.id": str(OURS), "listeners": listeners[OURS], "zookeeper.connect": kafka.zookeeper}
        properties = directory / "ours.properties"
        ours["log.dirs"] = str(directory / "logs")
        properties.write_text("".join(f"{name}={value}\n" for name, value in ours.items()))
        with (directory / "ours.log").open("wb") as log:
            process = subprocess.Popen([*BARNABAS, "broker", str(properties)], stdout=log, stderr=log)
            try:
                bootstrap = f"127.0.0.1:{ports['PLAINTEXT'][APACHES]}"
                host, port = bootstrap.split(":")
                until(lambda: len(apache.cluster_view(host, int(port))[0]) == 2, "both kinds are known")
                add_user(bootstrap)
                yield World(bootstrap, logins(directory, authority, ports, endpoint, token), secrets(directory, token))
            finally:
                process.terminate()
                process.wait(30)


def secrets(directory: Path, token: str) -> tuple[str, ...]:
    key = (directory / "authority" / "client.key").read_text().splitlines()[3]
    return ("hunter2", "storepass1", token, key)


@pytest.fixture(scope="module")
def events(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("events")


@pytest.fixture(scope="module")
def spark(events: Path) -> Iterator[Any]:
    """A session of its own, as only a new one takes an event log."""
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    if before is not None:
        before.stop()
    config = {
        **apache.official_connector(),
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": events.as_uri(),
        "spark.eventLog.rolling.enabled": "false",
        "spark.eventLog.compress": "false",
        "spark.sql.shuffle.partitions": "2",
    }
    try:
        started = session("secured", master="local[2]", config=config)
    except SparkUnavailable as error:
        pytest.skip(str(error))
    yield started
    started.stop()


def explained(frame: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as told:
        frame.explain("extended")
        frame.explain("formatted")
    return told.getvalue()


@pytest.fixture(scope="module")
def told() -> list[str]:
    """All that Spark and the source said in this module's tests."""
    return []


@pytest.mark.parametrize("name", LOGINS)
def test_rows_go_into_a_topic_and_come_out_of_it(
    spark: Any, world: World, told: list[str], tmp_path: Path, name: str
) -> None:
    login = world.logins[name]
    topic = name.replace(" ", "-")
    admin = AdminClient({"bootstrap.servers": world.bootstrap, "log_level": 0})
    admin.create_topics([NewTopic(topic, 2, replica_assignment=[[APACHES], [OURS]])])[topic].result(30)
    rows = spark.range(20).selectExpr("string(id) AS value", "int(id % 2) AS partition")
    rows.write.format("barnabas").options(**given(login, topic=topic)).save()
    read = spark.read.format("barnabas").options(**given(login, subscribe=topic)).load()
    found = read.selectExpr("int(string(value)) AS number", "partition").collect()
    assert sorted((row.number, row.partition) for row in found) == [(number, number % 2) for number in range(20)]
    told.append(explained(read))


@pytest.mark.parametrize("name", ["mTLS by JKS", "SCRAM-SHA-512", "token endpoint"])
def test_a_stream_goes_from_topic_to_topic_exactly_once(
    spark: Any, world: World, told: list[str], tmp_path: Path, name: str
) -> None:
    login = world.logins[name]
    source, target = (f"{name.replace(' ', '-')}-{end}" for end in ("from", "to"))
    admin = AdminClient({"bootstrap.servers": world.bootstrap, "log_level": 0})
    for made in admin.create_topics(
        [NewTopic(each, 2, replica_assignment=[[APACHES], [OURS]]) for each in (source, target)]
    ).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": world.bootstrap, "log_level": 0})
    for number in range(10):
        producer.produce(source, b"%d" % number, partition=number % 2)
    assert producer.flush(30) == 0
    rows = spark.readStream.format("barnabas").options(**given(login, subscribe=source, startingOffsets="earliest"))
    writer = rows.load().select("value", "partition").writeStream.format("barnabas")
    writer = writer.options(**given(login, topic=target, checkpointLocation=str(tmp_path / "checkpoint")))
    query = writer.trigger(availableNow=True).start()
    query.awaitTermination()
    told += [str(query.lastProgress), str(query.status)]
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        query.explain(extended=True)
    told.append(plan.getvalue())
    committed = {"kafka.isolation.level": "read_committed", "subscribe": target}
    found = spark.read.format("barnabas").options(**given(login, **committed)).load()
    assert sorted(int(row.value) for row in found.collect()) == list(range(10))
    lags = lag_job.lag(login, topics=[source])
    assert [(each.committed, each.lag) for each in lags] == [(5, 0), (5, 0)]


def test_jobs_take_a_clients_properties(spark: Any, world: World, told: list[str], tmp_path: Path) -> None:
    login = world.logins["SCRAM-SHA-256"]
    done = archive_job.archive(spark, login, ["PLAIN"], tmp_path / "archive")
    assert done.records == 20
    config = tmp_path / "client.properties"
    config.write_text("".join(f"{name}={value}\n" for name, value in login.items()))
    shown = barnabas("spark", "lag", "--all", "--command-config", str(config))
    assert (shown.returncode, shown.stderr) == (0, "")
    assert "SCRAM-SHA-512-from" in shown.stdout
    wrong = barnabas(
        "spark",
        "lag",
        "--command-config",
        str(config),
        "-X",
        "sasl.jaas.config=Module required username=k password=no;",
    )
    assert wrong.returncode == 2  # it could not look
    assert "SASL_AUTHENTICATION_FAILED" in wrong.stderr or "invalid credentials" in wrong.stderr
    told += [shown.stdout, wrong.stderr]


@pytest.mark.parametrize("name", ["PLAIN", "SCRAM-SHA-512", "token endpoint"])
def test_a_wrong_secret_is_said_and_not_told(spark: Any, world: World, told: list[str], name: str) -> None:
    login = dict(world.logins[name])
    login["sasl.jaas.config"] = login["sasl.jaas.config"].replace("hunter2", "hunter2-wrong")
    with pytest.raises(Exception, match=r"(?i)authentication.failed|no token|invalid credentials") as refused:
        spark.read.format("barnabas").options(**given(login, subscribe="PLAIN")).load().count()
    assert len(reason(refused.value)) < 400
    told.append(str(refused.value))


def test_no_secret_is_in_a_plan_an_event_log_or_an_error(
    spark: Any, world: World, told: list[str], events: Path
) -> None:
    spark.stop()  # which finishes the event log
    logged = [each.read_text() for each in events.rglob("*") if each.is_file()]
    assert len(logged) == 1
    assert "SparkListenerSQLExecutionStart" in logged[0]
    assert "barnabas" in logged[0]
    assert told
    for secret in world.secrets:
        assert [each for each in (*told, *logged) if secret in each] == []
