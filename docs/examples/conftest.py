from __future__ import annotations

import os
from typing import Any

import pytest

# Spark's JVMs live for minutes, in which Java's second compiler takes more than it gives.
os.environ.setdefault("SPARK_SUBMIT_OPTS", "-XX:TieredStopAtLevel=1")


@pytest.fixture
def spark() -> Any:
    """A Spark session, as `barnabas.spark.session.session` makes one; the same for every example."""
    from barnabas.spark.session import SparkUnavailable, session

    # Of a few rows, compiling a query takes most of the time.
    config = {"spark.sql.shuffle.partitions": "2", "spark.sql.codegen.wholeStage": "false"}
    try:
        return session("examples", master="local[2]", config=config)
    except SparkUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))
