"""Apache Kafka 3.9.2 for tests: what `barnabas.bench.apache` offers, and the rule of when a test may be skipped."""

from __future__ import annotations

import os
from functools import cache

import pytest

from barnabas.bench.apache import (
    ApacheCluster,
    ApacheUnavailable,
    classpath,
    cluster_view,
    free_port,
    java,
    tool,
    tool_command,
    zookeeper_server,
)
from barnabas.bench.apache_zookeeper import ServerTls, ZooKeeperEnsemble, four_letter_word
from barnabas.bench.spark_connector import connector_jars

zookeeper = zookeeper_server

__all__ = [
    "ApacheCluster",
    "ServerTls",
    "ZooKeeperEnsemble",
    "classpath",
    "cluster_view",
    "four_letter_word",
    "free_port",
    "java",
    "official_connector",
    "require",
    "tool",
    "tool_command",
    "zookeeper",
]


@cache
def _missing() -> str | None:
    try:
        java()
        classpath()
    except ApacheUnavailable as error:
        return str(error)
    return None


def require() -> None:
    """Skips the test where Apache Kafka cannot be had; fails it with ``CI=true``, where nothing may be skipped."""
    missing = _missing()
    if missing is None:
        return
    if os.environ.get("CI") == "true":
        pytest.fail(missing)
    pytest.skip(missing)


def official_connector() -> dict[str, str]:
    """The configuration of a Spark session beside the official connector. Raises `ApacheUnavailable`.

    On the class path of the JVM, which all sessions of a test run share: a session that adds the jars has classes of
    its own, and the connector registers its settings once in a JVM, so that a second such session cannot use it.
    """
    return {"spark.driver.extraClassPath": os.pathsep.join(map(str, connector_jars()))}
