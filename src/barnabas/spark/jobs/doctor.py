"""``doctor``: checks that Spark can reach and use a cluster: a line for each check, with what to do.

The checks run in three places: this Python (`of_this_machine`, no JVM), the cluster (`of_the_cluster`), and the
executors' Pythons (`of_the_executors`), which fetch and write.
"""

from __future__ import annotations

import ipaddress
import json
import platform
import socket
from collections.abc import Iterator, Sequence
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.client import blocking
from barnabas.client.admin import ResourceType
from barnabas.client.blocking import BlockingCluster
from barnabas.client.metadata import ClusterMetadata
from barnabas.model.acl import Operation
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.spark.access import Servers, cluster_of, settings_of
from barnabas.spark.compiled import IS_BUILT, trouble_with_numba
from barnabas.spark.reasons import reason
from barnabas.spark.session import JAVA_VERSION_MIN, SparkUnavailable, java_home, java_version
from barnabas.spark.sink_options import TRANSACTION_TIMEOUT_MS
from barnabas.spark.versions import SparkTooOld, require_spark
from barnabas.wire.messages.metadata import MetadataRequest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

OK, NOTE, WRONG, UNSEEN = "ok", "note", "wrong", "unseen"
"""It works; it works with a reservation; it does not work; it could not be checked."""
_LIBRARIES: Final = {"pyarrow": (18, WRONG), "pandas": (2, NOTE), "numba": (0, NOTE)}
"""The oldest sufficient major version, and the state of a library that is older or missing."""
_TASKS_MAX: Final = 64
_TIMEOUT_MS: Final = "5000"
_NOT_TOLD: Final = -(1 << 31)


class DoctorFinding(NamedTuple):
    what: str
    state: str
    says: str
    do: str = ""


def of_this_machine() -> Iterator[DoctorFinding]:
    """Python, Spark, Java, libraries and kernels."""
    yield DoctorFinding("python", OK, platform.python_version())
    if find_spec("pyspark") is None:
        yield DoctorFinding("spark", WRONG, "PySpark is not installed", "pip install 'barnabas[spark]'")
    else:
        try:
            require_spark()
            import pyspark  # of SPARK_HOME it may be, where no package says its version

            yield DoctorFinding("spark", OK, f"PySpark {pyspark.__version__}")
        except SparkTooOld as error:
            yield DoctorFinding(
                "spark", WRONG, str(error).rstrip("."), "pip install 'barnabas[spark]', in a new environment"
            )
    try:
        home = java_home()
        yield DoctorFinding("java", OK, f"{java_version(str(home / 'bin' / 'java'))}, in {home}")
    except SparkUnavailable as error:
        yield DoctorFinding(
            "java", WRONG, str(error).rstrip("."), f"set JAVA_HOME to a Java of {JAVA_VERSION_MIN} or newer"
        )
    for name, (oldest, lacking) in _LIBRARIES.items():
        yield _of_library(name, _version(name), oldest, lacking, "", trouble_with_numba())
    if find_spec("barnabas.wire._kernel") is None:
        yield DoctorFinding(
            "kernel", NOTE, "records are checked in Python, slowly", "install a C compiler, then Barnabas anew"
        )
    else:
        yield DoctorFinding("kernel", OK, "built")


def _of_library(
    name: str, found: str | None, oldest: int, lacking: str, where: str, numba_trouble: str
) -> DoctorFinding:
    install = "pip install 'barnabas[spark]'" + (
        " there, or ship an environment (docs/spark/deploy.md)" if where else ""
    )
    if found is None:
        says = "is not installed" + (": rows are encoded in plain Python" if name == "numba" else "")
        return DoctorFinding(name, lacking, f"{says}{where}", install)
    if int(found.split(".")[0]) < oldest:
        return DoctorFinding(name, lacking, f"{found} is older than {oldest}{where}", install)
    if name == "numba" and numba_trouble:
        says = f"{found} cannot be used: {numba_trouble}; rows are encoded in plain Python{where}"
        return DoctorFinding(name, lacking, says, install)
    return DoctorFinding(name, OK, f"{found}{where}")


def of_the_cluster(servers: Servers, topics: Sequence[str], *, local: bool) -> Iterator[DoctorFinding]:
    """Reachability from here, advertised listeners, topics and the permissions on them, transactions.

    `local`: executors are processes of this machine.
    """
    named = settings_of(servers)["bootstrap.servers"]
    hasty = {**settings_of(servers), "default.api.timeout.ms": _TIMEOUT_MS}
    try:
        with cluster_of(hasty, "barnabas-doctor") as cluster:
            metadata = cluster.refresh(None)
            yield DoctorFinding(
                "brokers", OK, f"{named} answers: {len(metadata.brokers)} brokers of {metadata.cluster_id}"
            )
            yield from _of_the_brokers(cluster, metadata, local)
            yield from _of_the_topics(cluster, topics)
    except (OSError, KafkaError, ConfigError, ValueError) as error:
        do = "check the addresses, that the brokers run, and security.protocol and its settings"
        yield DoctorFinding("brokers", WRONG, f"{named}: {str(error).rstrip('.')}", do)
        return
    yield from _of_transactions(hasty, min(metadata.brokers))


def _of_the_brokers(cluster: BlockingCluster, metadata: ClusterMetadata, local: bool) -> Iterator[DoctorFinding]:
    for broker_id, node in sorted(metadata.brokers.items()):
        what, address = f"broker {broker_id}", f"{node.host}:{node.port}"
        if not local and _loopback(node.host):
            do = f"set its advertised.listeners to an address that other machines have, not {node.host}"
            yield DoctorFinding(what, WRONG, f"advertises {address}: an executor elsewhere would call itself", do)
            continue
        if trouble := _trouble(cluster, broker_id):
            do = "check its advertised.listeners, name service and firewalls"
            yield DoctorFinding(what, WRONG, f"advertises {address}: {trouble}", do)
        else:
            yield DoctorFinding(what, OK, f"answers at {address}")


def _trouble(cluster: BlockingCluster, broker_id: int) -> str:
    try:
        cluster.broker(broker_id).negotiate()
    except (OSError, KafkaError, ValueError) as error:
        return str(error).rstrip(".") or type(error).__name__
    return ""


def _loopback(host: str) -> bool:
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost" or host.endswith(".localhost")


def _of_the_topics(cluster: BlockingCluster, topics: Sequence[str]) -> Iterator[DoctorFinding]:
    if not topics:
        return
    request = MetadataRequest(
        topics=[MetadataRequest.MetadataRequestTopic(name=name) for name in topics],
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=True,
    )
    for topic in cluster.any().send(request).topics:
        what = f"topic {topic.name}"
        code = ErrorCode(topic.error_code)
        if code is not ErrorCode.NONE:
            yield DoctorFinding(what, WRONG, code.name, "create it, or let this user describe it (`barnabas acl add`)")
            continue
        leaderless = [partition.partition_index for partition in topic.partitions if partition.leader_id < 0]
        if leaderless:
            yield DoctorFinding(
                what, WRONG, f"partitions {leaderless} have no leader", "start the brokers that have them"
            )
        bits = topic.topic_authorized_operations
        if bits == _NOT_TOLD:
            yield DoctorFinding(what, UNSEEN, "the broker does not tell what this user may do", "try a read")
            continue
        may = [
            operation
            for operation in (Operation.READ, Operation.WRITE)
            if bits & 1 << operation or bits & 1 << Operation.ALL
        ]
        if Operation.READ not in may:
            yield DoctorFinding(what, WRONG, "this user may not read it", "let it: `barnabas acl add`, operation Read")
        elif Operation.WRITE not in may:
            yield DoctorFinding(what, NOTE, "this user may read it, not write it", "for a sink let it: operation Write")
        else:
            yield DoctorFinding(what, OK, f"{len(topic.partitions)} partitions, may be read and written")


def _of_transactions(servers: Servers, broker_id: int) -> Iterator[DoctorFinding]:
    name = "transaction.max.timeout.ms"
    try:
        with blocking.connect(config=settings_of(servers)) as client:
            entries = client.admin.describe_configs(ResourceType.BROKER, str(broker_id))
    except (OSError, KafkaError) as error:
        yield DoctorFinding(
            "transactions", UNSEEN, f"{name}: {str(error).rstrip('.')}", "let this user: DescribeConfigs"
        )
        return
    longest = next((int(entry.value) for entry in entries if entry.name == name and entry.value), None)
    if longest is not None and longest < TRANSACTION_TIMEOUT_MS:
        says = f"{name} is {longest}, and the sink asks for {TRANSACTION_TIMEOUT_MS}"
        yield DoctorFinding(
            "transactions", WRONG, says, f"set the sink's kafka.transaction.timeout.ms to {longest} or less"
        )
    else:
        yield DoctorFinding("transactions", OK, f"{name} is {longest}")


def of_the_executors(spark: SparkSession, servers: Servers) -> Iterator[DoctorFinding]:
    """The libraries of the executors' Pythons, and whether they reach every broker at its advertised address."""
    tasks = min(max(spark.sparkContext.defaultParallelism, 2), _TASKS_MAX)
    asked = {**settings_of(servers), "default.api.timeout.ms": _TIMEOUT_MS}

    def seen(batches: Iterator[Any]) -> Iterator[Any]:
        import pyarrow

        for _ in batches:
            pass
        yield pyarrow.RecordBatch.from_pydict({"seen": [json.dumps(_seen_here(asked))]})

    try:
        rows = spark.range(0, tasks, 1, tasks).mapInArrow(seen, "seen string").collect()
    except Exception as error:
        do = "install barnabas[spark] on every node, or ship an environment (docs/spark/deploy.md)"
        yield DoctorFinding("executors", WRONG, reason(error).rstrip("."), do)
        return
    by_host = {executor["host"]: executor for executor in (json.loads(row["seen"]) for row in rows)}
    for host, found in sorted(by_host.items()):
        yield from _of_an_executor(host, found)


def _of_an_executor(host: str, found: dict[str, Any]) -> Iterator[DoctorFinding]:
    what = f"executor {host}"
    here = platform.python_version().rpartition(".")[0]
    if found["python"].rpartition(".")[0] != here:
        do = "set PYSPARK_PYTHON to the same Python everywhere"
        yield DoctorFinding(what, WRONG, f"has Python {found['python']}, and the driver {here}", do)
    if found["barnabas"] != _version("barnabas"):
        says = f"has Barnabas {found['barnabas']}, and the driver {_version('barnabas')}"
        yield DoctorFinding(what, NOTE, says, "install the same everywhere")
    for name, (oldest, lacking) in _LIBRARIES.items():
        finding = _of_library(name, found[name], oldest, lacking, f" on {host}", found["numba_trouble"])
        if finding.state != OK:
            yield finding
    if not found["kernel"]:
        says = "has no kernel: records are decoded by numba, or in plain Python"
        yield DoctorFinding(what, NOTE, says, "install a wheel of Barnabas there; a zip has no extension in C")
    for broker, trouble in found["trouble"].items():
        do = "check the broker's advertised.listeners, name service and firewalls, as seen from there"
        yield DoctorFinding(what, WRONG, f"does not reach broker {broker}: {trouble}", do)
    if not found["trouble"]:
        yield DoctorFinding(what, OK, f"Python {found['python']}, reaches {found['brokers']} brokers")


def _seen_here(servers: Servers) -> dict[str, Any]:
    """In an executor's Python."""
    trouble: dict[str, str] = {}
    brokers = 0
    try:
        with cluster_of(servers, "barnabas-doctor") as cluster:
            for broker_id in sorted(cluster.refresh(None).brokers):
                brokers += 1
                if told := _trouble(cluster, broker_id):
                    trouble[str(broker_id)] = told
    except (OSError, KafkaError, ValueError) as error:
        trouble["of " + settings_of(servers)["bootstrap.servers"]] = str(error)
    return {
        "host": socket.gethostname(),
        "python": platform.python_version(),
        "barnabas": _version("barnabas"),
        **{name: _version(name) for name in _LIBRARIES},
        "numba_trouble": trouble_with_numba(),
        "kernel": IS_BUILT,
        "brokers": brokers,
        "trouble": trouble,
    }


def _version(name: str) -> str | None:
    try:
        return version(name)
    except PackageNotFoundError:
        return None
