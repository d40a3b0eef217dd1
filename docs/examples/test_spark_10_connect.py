"""A topic over Spark Connect: batch, and a stream into another topic."""

import subprocess
import sys

import pytest
from confluent_kafka import Producer

pytestmark = [
    pytest.mark.long(0),
    pytest.mark.spark,
    pytest.mark.kafka(brokers=1, config={"transaction.state.log.num.partitions": 1}),
]

# A process that has a plain session can't have a client of Connect.
PROGRAM = """
import sys

from barnabas.spark.lag import lag
from barnabas.spark.reasons import reason
from barnabas.spark.session import session

bootstrap, directory = sys.argv[1:]
spark = session("connect", master="local[2]", config={"spark.api.mode": "connect"})
assert type(spark).__module__ == "pyspark.sql.connect.session", type(spark)
cluster = {"kafka.bootstrap.servers": bootstrap}


def read(topic):
    reader = spark.read.format("barnabas").options(**cluster).option("value.format", "string")
    return sorted(int(row.value) for row in reader.option("subscribe", topic).load().select("value").collect())


assert read("asked") == list(range(100))

source = spark.readStream.format("barnabas").options(**cluster).option("subscribe", "asked")
records = source.option("startingOffsets", "earliest").load()
doubled = records.selectExpr("key", "string(2 * int(string(value))) AS value")
query = (
    doubled.writeStream.format("barnabas")
    .options(**cluster)
    .options(topic="answered", sinkId="doubled", delivery="exactly-once-by-task")
    .option("checkpointLocation", directory)
    .trigger(availableNow=True)
    .start()
)
query.awaitTermination()
assert read("answered") == list(range(0, 200, 2))
assert query.lag() == {("asked", 0): 0, ("asked", 1): 0} == lag(query)

try:
    read("aksed")
except Exception as error:
    assert reason(error).startswith("Topic 'aksed' does not exist"), reason(error)
else:
    raise AssertionError("a topic that is not there was read")
spark.stop()
"""


def test_a_client_of_connect_reads_and_writes_topics(kafka_cluster, tmp_path):
    for topic in ("asked", "answered"):
        kafka_cluster.create_topic(topic, partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for number in range(100):
        producer.produce("asked", f"{number}", f"k{number % 7}")
    assert producer.flush(10) == 0

    program = tmp_path / "program.py"
    program.write_text(PROGRAM)
    command = [sys.executable, str(program), kafka_cluster.bootstrap, str(tmp_path / "checkpoint")]
    done = subprocess.run(command, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
