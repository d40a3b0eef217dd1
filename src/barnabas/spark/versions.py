"""The supported versions of Spark, which `make spark-matrix` tests."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql.types import DataType

OLDEST: Final = (4, 1)
LIMITS_SINCE: Final = (4, 2)
"""From this version on Spark tells a source in Python how much a micro-batch may take."""


class SparkTooOld(RuntimeError):
    """The PySpark that is installed is of before `OLDEST`; the text says so in a sentence."""


def spark_version() -> tuple[int, int]:
    """Major and minor of the PySpark here."""
    import pyspark

    found = re.match(r"(\d+)\.(\d+)", pyspark.__version__)
    return (int(found[1]), int(found[2])) if found else OLDEST


def require_spark() -> None:
    """Raises `SparkTooOld`."""
    here = spark_version()
    if here < OLDEST:
        raise SparkTooOld(
            f"Barnabas needs Spark {_shown(OLDEST)} or newer, and this is {_shown(here)}: before it, data sources in "
            "Python get no Arrow batches to write."
        )


def arrow_type_of(spark_type: DataType) -> Any:
    """As Spark takes it from Python; times are in UTC."""
    from pyspark.sql.pandas.types import to_arrow_type

    if spark_version() < LIMITS_SINCE:
        return to_arrow_type(spark_type)
    return to_arrow_type(spark_type, timezone="UTC")


def _shown(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
