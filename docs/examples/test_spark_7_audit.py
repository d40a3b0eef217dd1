"""What a producer was told, against the topic: a record that was sent twice is found and named."""

import csv
import zlib

import pytest
from confluent_kafka import Producer

from barnabas.spark.jobs.audit import audit, read_manifest, read_topics

pytestmark = pytest.mark.spark


def test_a_record_that_is_there_twice_is_named(kafka_cluster, spark, tmp_path):
    kafka_cluster.create_topic("payments", partitions=2)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    manifest = tmp_path / "manifest.csv"

    with open(manifest, "w", newline="") as file:
        lines = csv.writer(file)
        lines.writerow(["id", "partition", "offset", "crc", "sequence"])

        def told(error, message):
            assert error is None
            number = int(message.value().split()[-1])
            lines.writerow([number, message.partition(), message.offset(), zlib.crc32(message.value()), number])

        for number in range(50):
            producer.produce("payments", b"payment %d" % number, b"k%d" % (number % 5), on_delivery=told)
        assert producer.flush(10) == 0

    def judged():
        expected = read_manifest(spark, str(manifest))
        id = "split(cast(value as string), ' ')[1]"
        found = read_topics(spark, kafka_cluster.bootstrap, ["payments"], like=expected.columns, id=id)
        return audit(expected, found, place="payments")

    assert judged().passed

    producer.produce("payments", b"payment 7", b"k2")
    assert producer.flush(10) == 0
    result = judged()
    assert not result.passed
    assert result.duplicated == 1
    assert [(finding.kind, finding.id) for finding in result.findings] == [("duplicated", "7")]
