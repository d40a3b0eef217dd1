"""No secret of a cluster or a registry is in a plan, an event, an error or a file: of source, sink and every job.

One session with an event log, one cluster with a user, one registry with a login. All that Spark and the jobs say and
write is kept, and looked through for the secrets.
"""

from __future__ import annotations

import base64
import contextlib
import io
import json
import os
import struct
import threading
from collections.abc import Callable, Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from confluent_kafka import Producer

from barnabas.cli.app import run
from barnabas.cli.spark_run import stderr_to
from barnabas.spark import dead_letters, from_registry, to_registry
from barnabas.spark.jobs.archive import archive
from barnabas.spark.jobs.audit import audit
from barnabas.spark.jobs.audit_archive import against_archive
from barnabas.spark.jobs.doctor import of_the_cluster, of_the_executors
from barnabas.spark.jobs.lag import lag
from barnabas.spark.jobs.land import land
from barnabas.spark.jobs.mirror import commit_translated, mirror, translate
from barnabas.spark.jobs.profile import profile
from barnabas.spark.jobs.replay import replay
from barnabas.spark.session import SparkUnavailable, session
from barnabas.testing import KafkaCluster

ALONE = "wants a JVM that no other test has begun: make spark-secrets"
pytestmark = [pytest.mark.spark, pytest.mark.skipif(not os.environ.get("BARNABAS_SECRETS"), reason=ALONE)]

SECRET = "hunter2"
PASSWORDS = {"cluster": f"{SECRET}-of-the-cluster", "registry": f"{SECRET}/of,the=registry", "wrong": f"{SECRET}-wrong"}
ORDER = json.dumps({"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]})
SUBJECT = "orders-value"
TOO_BUSY = "Python worker failed to connect back"
LIGHT = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}


class World(NamedTuple):
    source: KafkaCluster
    target: KafkaCluster
    registry: str
    """Its URL, with the login in it."""

    def servers(self, password: str = PASSWORDS["cluster"]) -> dict[str, str]:
        right = self.source.user("etl").properties()
        return {name: value.replace(PASSWORDS["cluster"], password) for name, value in right.items()}

    def options(self, password: str = PASSWORDS["cluster"], **given: str) -> dict[str, str]:
        return {**{f"kafka.{name}": value for name, value in self.servers(password).items()}, **given}


@contextlib.contextmanager
def registry() -> Iterator[str]:
    """Answers who has the login. The URL, with it."""
    known = "Basic " + base64.b64encode(f"etl:{PASSWORDS['registry']}".encode()).decode()

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.answer({"schema": ORDER, "id": 1})

        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            self.answer({"id": 1})

        def answer(self, told: Any) -> None:
            allowed = self.headers["Authorization"] == known
            body = json.dumps(told if allowed else {"error_code": 401}).encode()
            self.send_response(200 if allowed else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield with_login(f"127.0.0.1:{server.server_port}", PASSWORDS["registry"])
        server.shutdown()
        thread.join()


def with_login(host: str, password: str) -> str:
    from urllib.parse import quote

    return f"http://etl:{quote(password, safe='')}@{host}"


@pytest.fixture(scope="module")
def world() -> Iterator[World]:
    few = {"transaction.state.log.num.partitions": 1, "offsets.topic.num.partitions": 1}
    with (
        KafkaCluster(1, config=few, users={"etl": PASSWORDS["cluster"]}) as source,
        KafkaCluster(1, config=few) as target,
        registry() as url,
    ):
        source.user("etl").allow()
        source.user("etl").allow("cluster")
        for topic in ("orders", "copy", "clean", "dead"):
            source.create_topic(topic, partitions=2)
        target.create_topic("orders", partitions=2)
        producer = Producer({**source.user("etl").client_config(), "log_level": 0})
        for number in range(20):
            value = b"\0" + struct.pack(">i", 1) + bytes([2 * number])
            producer.produce("orders", b"no order" if number == 7 else value, b"k%d" % number, partition=number % 2)
        assert producer.flush(30) == 0
        yield World(source, target, url)


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Where the event log is, the JVM's own words, and all that jobs and queries keep."""
    return tmp_path_factory.mktemp("written")


@pytest.fixture(scope="module")
def spark(written: Path) -> Iterator[Any]:
    """A session of its own, as only a new one takes an event log."""
    from pyspark.sql import SparkSession

    before = SparkSession.getActiveSession()
    if before is not None:
        before.stop()
    events = {f"spark.eventLog.{name}": value for name, value in {"enabled": "true", "compress": "false"}.items()}
    events |= {"spark.eventLog.rolling.enabled": "false", "spark.eventLog.dir": (written / "events").as_uri()}
    # Of the log all that Spark says; tables elsewhere than here.
    events |= {"spark.log.level": "INFO", "spark.sql.warehouse.dir": (written / "warehouse").as_uri()}
    (written / "events").mkdir()
    try:
        with stderr_to(written / "jvm.log"):
            started = session("secrets", master="local[2]", config={**LIGHT, **events})
    except SparkUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    yield started
    started.stop()


@pytest.fixture(scope="module")
def told() -> list[str]:
    """All that was said in this module's tests."""
    return []


def explained(frame: Any) -> str:
    with contextlib.redirect_stdout(io.StringIO()) as shown:
        for mode in ("extended", "formatted", "cost", "codegen"):
            frame.explain(mode)
    return shown.getvalue()


def ended(start: Callable[[], Any]) -> Any:
    """The query that `start` starts, when it has ended. Spark gives a source's Python ten seconds to begin: where the
    machine was too busy for that, it is started again."""
    while True:
        query = start()
        try:
            query.awaitTermination()
            return query
        except Exception as error:
            if TOO_BUSY not in str(error):
                raise


def refused(attempt: Callable[[], Any]) -> str:
    """What the error says, with all that Spark and Python put around it."""
    with pytest.raises(Exception, match=r".") as error:
        attempt()
    causes, each = [], error.value
    while each is not None:
        causes.append(f"{each!r} {each}")
        each = each.__cause__ or each.__context__
    return "\n".join(causes)


def loaded(spark: Any, options: dict[str, str]) -> Any:
    return spark.read.format("barnabas").options(**options).load()


def in_sql(options: dict[str, str]) -> str:
    return ", ".join("'{}' = '{}'".format(name, value.replace("'", "\\'")) for name, value in options.items())


def test_a_source_in_python_and_in_sql(spark: Any, world: World, told: list[str]) -> None:
    avro = world.options(subscribe="orders", **{"value.format": "avro", "value.schema.registry": world.registry})
    avro |= {"value.mode": "PERMISSIVE"}
    frame = loaded(spark, avro)
    assert frame.where("value IS NOT NULL").selectExpr("sum(value.id)").first()[0] == sum(range(20)) - 7
    told += [explained(frame), explained(frame.groupBy("partition").count())]
    spark.sql(f"CREATE TEMPORARY VIEW seen USING barnabas OPTIONS ({in_sql(avro)})")
    assert spark.sql("SELECT count(*) FROM seen").first()[0] == 20
    spark.sql("CREATE TABLE plain USING barnabas OPTIONS ('kafka.bootstrap.servers' = 'h:1', 'subscribe' = 'orders')")
    queries = [
        "SELECT value.id FROM seen",
        f"SELECT count(*) FROM plain WITH ({in_sql(world.options(subscribe='orders'))})",
    ]
    try:
        assert spark.sql(queries[1]).first()[0] == 20
        for query in queries:
            told.append(explained(spark.sql(query)))
            told += [str(row[0]) for row in spark.sql(f"EXPLAIN EXTENDED {query}").collect()]
    finally:
        spark.sql("DROP TABLE plain")
        spark.sql("DROP VIEW seen")


def test_a_registrys_columns(spark: Any, world: World, told: list[str]) -> None:
    from pyspark.sql.functions import struct as struct_of

    records = loaded(spark, world.options(subscribe="orders"))
    for mode in ("PERMISSIVE", "REPORT", "DEADLETTER"):
        frame = records.select(from_registry("value", world.registry, subject=SUBJECT, mode=mode).alias("order"))
        assert frame.count() == 20
        told.append(explained(frame))
    rows = spark.range(5).selectExpr("int(id) AS id")
    value = to_registry(struct_of("id"), world.registry, subject="copy-value", schema=ORDER)
    frame = rows.select(value.alias("value"))
    told.append(explained(frame))
    frame.write.format("barnabas").options(**world.options(topic="copy")).mode("append").save()
    assert loaded(spark, world.options(subscribe="copy")).count() == 5


def test_a_stream_with_dead_letters_into_the_sink(spark: Any, world: World, told: list[str], written: Path) -> None:
    source = world.options(subscribe="orders", startingOffsets="earliest")
    records = spark.readStream.format("barnabas").options(**source).load()
    order = from_registry("value", world.registry, subject=SUBJECT, mode="DEADLETTER")
    rows = records.select("key", order.alias("order")).selectExpr(
        "key", "string(order.value.id) AS value", "order.dead_letter"
    )
    writer = dead_letters(rows, topic="clean", to="dead").repartition(1).writeStream.format("barnabas")
    writer = writer.options(**world.options(markerTopic="clean"), checkpointLocation=str(written / "letters"))
    query = ended(writer.trigger(availableNow=True).start)
    with contextlib.redirect_stdout(io.StringIO()) as plan:
        query.explain(extended=True)
    told += [plan.getvalue(), str(query.lastProgress), str(query.status), repr(query.recentProgress)]
    assert [len(world.source.records(topic)) for topic in ("clean", "dead")] == [19, 1]


def test_every_job(spark: Any, world: World, told: list[str], written: Path) -> None:
    servers, place = world.servers(), written / "jobs"
    avro = {"value.format": "avro", "value.schema.registry": world.registry, "value.mode": "PERMISSIVE"}
    for table_format in ("delta", "iceberg"):
        done: Any = land(spark, servers, "orders", place / table_format, options=avro, table_format=table_format)
        assert done.records == 20
        told.append(repr(done))
    done = archive(spark, servers, ["orders"], place / "archive")
    assert done.records == 20
    told.append(repr(done))
    sides = against_archive(spark, servers, ["orders"], place / "archive")
    told += [explained(sides[1]), repr(audit(*sides, place="orders"))]
    assert audit(*sides, place="orders").passed
    done = replay(spark, place / "archive", servers, into={"orders": "copy"})
    assert done.records == 20
    told += [repr(done), repr(profile(spark, servers, ["orders"])), repr(lag(servers, topics=["orders"]))]
    there = world.target.bootstrap
    query = ended(lambda: mirror(spark, servers, there, ["orders"], checkpoint=str(place / "mirror")))
    translated = translate(servers, there, ["orders"], ["nobody"])
    commit_translated(there, translated)
    told += [str(query.lastProgress), str(query.status), repr(translated)]
    assert len(world.target.records("orders")) == 20
    looked = [*of_the_cluster(servers, ["orders"], local=True), *of_the_executors(spark, servers)]
    assert {each.state for each in looked} == {"ok"}
    told.append(repr(looked))


def test_a_wrong_secret_is_said_and_not_told(spark: Any, world: World, told: list[str], written: Path) -> None:
    wrong, place = PASSWORDS["wrong"], written / "wrong"
    servers, subscribed = world.servers(wrong), world.options(wrong, subscribe="orders")
    rows = spark.range(2).selectExpr("string(id) AS value")

    def stream() -> Any:
        writer = spark.readStream.format("barnabas").options(**subscribed).load().writeStream.format("noop")
        return ended(writer.trigger(availableNow=True).start)

    def streamed() -> Any:
        records = spark.readStream.format("rate").load().selectExpr("string(value) AS value")
        writer = records.writeStream.format("barnabas").options(**world.options(wrong, topic="copy"))
        return ended(writer.option("checkpointLocation", str(place / "sink")).start)

    strangers = {
        "read": lambda: loaded(spark, subscribed).count(),
        "stream": stream,
        "write": lambda: rows.write.format("barnabas").options(**world.options(wrong, topic="copy")).save(),
        "sink": streamed,
        "land": lambda: land(spark, servers, "orders", place / "land"),
        "archive": lambda: archive(spark, servers, ["orders"], place / "archive"),
        "audit": lambda: against_archive(spark, servers, ["orders"], written / "jobs" / "archive"),
        "replay": lambda: replay(spark, written / "jobs" / "archive", servers, into={"orders": "copy"}),
        "profile": lambda: profile(spark, servers, ["orders"]),
        "lag": lambda: lag(servers),
        "mirror": lambda: mirror(spark, servers, world.target.bootstrap, ["orders"], checkpoint=str(place / "mirror")),
        "translate": lambda: translate(servers, world.target.bootstrap, ["orders"], ["nobody"]),
    }
    for name, attempt in strangers.items():
        said = refused(attempt)
        assert "AUTHENTICATION" in said.upper() or "invalid credentials" in said, f"{name}: {said}"
        told.append(said)
    told.append(repr([*of_the_cluster(servers, ["orders"], local=True), *of_the_executors(spark, servers)]))
    # Options that are refused before anybody is asked.
    refusals: list[dict[str, str]] = [
        {"subscrib": "x"},
        {"startingOffsets": "nope"},
        {"kafka.sasl.mechanism": "NOPE"},
        {"kafka.sasl.jaas.config": f'a.Module required username="etl" password="{wrong};'},
        {"kafka.ssl.truststore.certificates": f"-----BEGIN CERTIFICATE-----\n{wrong}\n-----END CERTIFICATE-----"},
        {"kafka.ssl.keystore.location": "/nope.jks", "kafka.ssl.keystore.password": wrong},
        {"value.format": "avro", "value.schema.registry": f"http://etl:{wrong}/x@registry:8081"},
    ]
    for amiss in refusals:
        told.append(refused(lambda amiss=amiss: loaded(spark, {**subscribed, **amiss}).count()))


def test_a_registry_that_refuses_the_login(spark: Any, world: World, told: list[str], written: Path) -> None:
    url = with_login(world.registry.rpartition("@")[2], PASSWORDS["wrong"])
    values = loaded(spark, world.options(subscribe="orders"))
    avro = {"value.format": "avro", "value.schema.registry": url}
    attempts: list[Callable[[], Any]] = [
        lambda: from_registry("value", url, subject=SUBJECT),
        lambda: to_registry("value", url, subject=SUBJECT),
        # The driver has the schema, and the executors ask.
        lambda: values.select(from_registry("value", url, schema=ORDER)).collect(),
        lambda: loaded(spark, world.options(subscribe="orders", **avro)).collect(),
        lambda: loaded(spark, world.options(subscribe="orders", **avro, **{"value.schema": ORDER})).collect(),
        lambda: land(spark, world.servers(), "orders", written / "refused", options=avro),
    ]
    for attempt in attempts:
        said = refused(attempt)
        assert "answered 401" in said
        told.append(said)


def test_commands(world: World, told: list[str], written: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """What they print; without a JVM of their own, which they would end for the tests behind."""
    for password, code in ((PASSWORDS["cluster"], 0), (PASSWORDS["wrong"], 2)):
        config = written.parent / f"{code}.properties"  # it has the secret, as it should
        config.write_text("".join(f"{name}={value}\n" for name, value in world.servers(password).items()))
        at = ["--command-config", str(config)]
        assert run(["spark", "lag", "--all", *at]) == code
        assert run(["spark", "doctor", "--without-spark", "--topic", "orders", *at]) == min(code, 1)
    for command in ("archive orders --to a", "land orders t", "profile orders", "audit orders --archive a", "replay a"):
        assert run(["spark", *command.split(), *at]) == 2
    out, err = capsys.readouterr()
    assert "Traceback" not in err
    told += [out, err]


def test_no_secret_is_in_what_was_said_logged_or_written(
    spark: Any, world: World, told: list[str], written: Path
) -> None:
    spark.stop()  # which finishes the event log
    files = {str(each.relative_to(written)): each.read_bytes() for each in written.rglob("*") if each.is_file()}
    (events,) = [text for name, text in files.items() if name.startswith("events/")]
    assert events.count(b"SparkListenerSQLExecutionStart") > 20
    assert b"barnabas" in events
    assert len(files["jvm.log"]) > 1000
    assert {name.partition("/")[0] for name in files} >= {"events", "jvm.log", "letters", "jobs"}
    assert len(told) > 30
    base64s = [base64.b64encode(f"etl:{password}".encode()).decode() for password in PASSWORDS.values()]
    for secret in (SECRET, *base64s):
        assert [each[:2000] for each in told if secret in each] == []
        assert [name for name, content in files.items() if secret.encode() in content] == []
