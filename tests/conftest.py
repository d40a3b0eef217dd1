from __future__ import annotations

import os
import signal
from typing import Any

import apache
import pytest
from hypothesis import settings

# How long an example takes on a busy machine says nothing of the code.
settings.register_profile("any machine", settings.default, deadline=None)
settings.load_profile("any machine")

# Spark's JVMs live for minutes, in which Java's second compiler takes more than it gives.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")

# A shell's background job ignores SIGINT, and `nohup` SIGHUP; what a test starts would inherit that, and obey neither.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)
if signal.getsignal(signal.SIGHUP) is signal.SIG_IGN:
    signal.signal(signal.SIGHUP, lambda *_: None)  # a handler of one's own is not inherited, and the run goes on


@pytest.fixture(autouse=True)
def _apache_kafka_is_there(request: pytest.FixtureRequest) -> None:
    """A test marked ``apache`` runs only where Apache Kafka 3.9.2 can be had."""
    if request.node.get_closest_marker("apache") is not None:
        apache.require()


@pytest.fixture
def spark() -> Any:
    """The test run's one Spark session: two cores, filters handed down, the official connector beside ours.

    It is made anew where a test has stopped it, and ends with the run.
    """
    from barnabas.bench.apache import ApacheUnavailable
    from barnabas.spark.session import SparkUnavailable, session

    config = {
        "spark.sql.python.filterPushdown.enabled": "true",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.codegen.wholeStage": "false",  # of a few rows, compiling a query takes most of the time
    }
    try:
        started = session("tests", master="local[2]", config={**apache.official_connector(), **config})
    except (SparkUnavailable, ApacheUnavailable) as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
    return started
