"""``barnabas spark init``: an example project for spark-pipelines, and the way to run one."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from pathlib import Path
from typing import Final

from barnabas.spark.jobs import JobError
from barnabas.spark.session import java_home

_NEEDED: Final = ("grpc", "grpc_status", "google.rpc", "zstandard", "yaml", "pandas", "pyarrow")
"""The packages that Spark Connect, on which declarative pipelines run, needs beside PySpark."""

_SPEC: Final = """\
name: orders
# Checkpoints of the flows; delete the directory to begin again.
storage: file://{directory}/storage
libraries:
  - glob:
      include: transformations/**
configuration:
  spark.sql.shuffle.partitions: "4"
"""

# Settings that Spark takes only at its start: a pipeline's own configuration cannot set them.
_CONF: Final = """\
# Tables that the next run knows are in a catalog on disk.
spark.sql.catalogImplementation hive
spark.sql.warehouse.dir file://{directory}/warehouse
spark.hadoop.javax.jdo.option.ConnectionURL jdbc:derby:;databaseName={directory}/catalog;create=true
spark.driver.extraJavaOptions -Dderby.stream.error.file=/dev/null
"""

_TRANSFORMATIONS: Final = '''\
"""A topic of orders, a table of them, revenue by product, and large orders in a topic of their own.

Everything here only declares: Spark works out the order, runs what is new, and keeps the checkpoints.
"""

{imports}from pyspark import pipelines as dp
from pyspark.sql import SparkSession
from pyspark.sql import functions as sql

{cluster}spark = SparkSession.active()


@dp.table(comment="Every order, once")
def orders():
    records = (
        spark.readStream.format("barnabas")
        .options(**CLUSTER)
        .option("subscribe", "orders")
        .option("startingOffsets", "earliest")
        .load()
    )
    order = sql.from_json(sql.col("value").cast("string"), "id INT, product STRING, price DOUBLE")
    return records.select(order.alias("order"), "partition", "offset").select("order.*", "partition", "offset")


@dp.materialized_view(comment="What each product brought in")
def revenue():
    totals = sql.count("*").alias("orders"), sql.sum("price").alias("revenue")
    return spark.read.table("orders").groupBy("product").agg(*totals)


# A transaction for each task: exactly once without a shuffle. See docs/spark for the other ways.
dp.create_sink(
    "large_orders",
    "barnabas",
    {{**CLUSTER, "topic": "large-orders", "delivery": "exactly-once-by-task", "sinkId": "large-orders"}},
)


@dp.append_flow(target="large_orders")
def pick_large_orders():
    large = spark.readStream.table("orders").where("price >= 90")
    value = sql.to_json(sql.struct("id", "product", "price")).alias("value")
    return large.select(sql.col("product").alias("key"), value)
'''

_OPEN: Final = 'CLUSTER = {{"kafka.bootstrap.servers": "{bootstrap}"}}\n'

_SECURED: Final = """\
# What a client needs, as Kafka's tools take it; what is secret stays in that file.
CLIENT = parse_properties(Path("{client}").read_text())
CLUSTER = {{f"kafka.{{name}}": value for name, value in CLIENT.items()}}
CLUSTER["kafka.bootstrap.servers"] = "{bootstrap}"
"""

_SECURED_IMPORTS: Final = """\
from pathlib import Path

from barnabas.model.config import parse_properties
"""

_FILL: Final = '''\
"""Orders on standard output, a line each: key, tab, JSON."""

import json
import sys

PRODUCTS = ("anvil", "bell", "candle", "drum")
for number in range(int(sys.argv[1]) if len(sys.argv) > 1 else 1000):
    product = PRODUCTS[number % len(PRODUCTS)]
    print(product, json.dumps({"id": number, "product": product, "price": number % 100}), sep="\\t")
'''

_README: Final = """\
# A pipeline that reads a topic and writes one

    barnabas topic create orders -p 3 {reach}
    barnabas topic create large-orders -p 3 {reach}
    python fill.py 1000 | barnabas produce -t orders -K '\\t' {reach}
    barnabas spark run .
    barnabas consume -t large-orders -o start -e {reach}

Run the last three again: only what is new is read, and no order is written twice. Spark's pipelines need
`pip install 'pyspark[pipelines]'` beside Barnabas. `transformations/orders.py` is all there is; `spark-pipeline.yml`
says where it keeps its state, `spark.conf` where the tables are (`warehouse/`) and their names (`catalog/`). Without
Barnabas: `spark-pipelines run --properties-file spark.conf --remote 'local[*]'`.
"""


def make_project(directory: Path, bootstrap: str, client: Path | None = None) -> list[Path]:
    """Writes the project into `directory`, new or empty; returns the files. Raises `JobError`.

    `client` has a user's properties, if the cluster requires authentication.
    """
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise JobError(f"{directory} is not empty: name a new directory")
    cluster, reach = _OPEN.format(bootstrap=bootstrap), f"-b {bootstrap}"
    if client is not None:
        client = client.absolute()
        cluster = _SECURED.format(bootstrap=bootstrap, client=client)
        reach += f" --command-config {client}"
    imports = "" if client is None else _SECURED_IMPORTS
    files = {
        "spark-pipeline.yml": _SPEC.format(directory=directory.absolute()),
        "spark.conf": _CONF.format(directory=directory.absolute()),
        "transformations/orders.py": _TRANSFORMATIONS.format(cluster=cluster, imports=imports),
        "fill.py": _FILL,
        "README.md": _README.format(reach=reach),
    }
    for name, text in files.items():
        target = directory / name
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_text(text)
    return [directory / name for name in files]


def run_project(directory: Path, master: str) -> int:
    """``spark-pipelines run`` with the Java, the Python and the Spark that Barnabas uses; its exit code.

    Raises `JobError`, `SparkUnavailable`.
    """
    spec = next(
        (directory / name for name in ("spark-pipeline.yml", "spark-pipeline.yaml") if (directory / name).exists()),
        None,
    )
    if spec is None:
        raise JobError(f"{directory} has no spark-pipeline.yml: `barnabas spark init {directory}` makes an example")
    missing = [name for name in _NEEDED if not _there(name)]
    if missing:
        raise JobError(
            f"Spark's pipelines need {', '.join(missing)}, which Barnabas doesn't depend on: "
            "install them by pip install 'pyspark[pipelines]'"
        )
    import pyspark

    home = Path(pyspark.__file__).parent
    environment = {
        **os.environ,
        "JAVA_HOME": str(java_home()),
        "SPARK_HOME": str(home),
        "PYSPARK_PYTHON": sys.executable,
        "PYSPARK_DRIVER_PYTHON": sys.executable,
        "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ.get('PATH', '')}",
    }
    # Pipelines always go through Spark Connect, whose address stands in for the master.
    command = [str(home / "bin" / "spark-class"), "org.apache.spark.deploy.SparkPipelines"]
    command += [str(home / "pipelines" / "cli.py"), "run", "--spec", str(spec.absolute()), "--remote", master]
    conf = directory / "spark.conf"
    if conf.exists():
        command += ["--properties-file", str(conf.absolute())]
    return subprocess.run(command, env=environment, cwd=directory, check=False).returncode


def _there(name: str) -> bool:
    try:
        return importlib.util.find_spec(name) is not None
    except ModuleNotFoundError:
        return False
