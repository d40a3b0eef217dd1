"""A cluster on disk: made again over the same directory, it goes on from there."""

from kafka import KafkaProducer

from barnabas.testing import KafkaCluster


def test_a_cluster_goes_on_from_its_directory(tmp_path):
    with KafkaCluster(directory=tmp_path) as cluster:
        cluster.create_topic("t", partitions=2)
        producer = KafkaProducer(bootstrap_servers=cluster.bootstrap, acks="all")
        for number in range(20):
            producer.send("t", str(number).encode(), partition=number % 2)
        producer.close()

    # Kafka's own files, for Kafka's own tools: broker-0/t-0/00000000000000000000.log
    assert (tmp_path / "broker-0" / "t-0" / "00000000000000000000.log").stat().st_size > 0

    with KafkaCluster(directory=tmp_path) as cluster:
        cluster.partition("t", 0).wait(isr={0, 1, 2}, timeout=10)
        cluster.partition("t", 1).wait(isr={0, 1, 2}, timeout=10)
        assert sorted(int(record.value) for record in cluster.records("t")) == list(range(20))
