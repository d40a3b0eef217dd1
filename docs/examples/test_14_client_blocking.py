"""The client whose calls wait: a consumer that goes on where it has committed."""

from barnabas.client import NewTopic, TopicPartition, blocking


def test_a_consumer_goes_on_where_it_has_committed(kafka_cluster):
    with blocking.connect(kafka_cluster.bootstrap) as cluster:
        cluster.admin.create_topics([NewTopic("orders", partitions=1, replication_factor=3)])
        with cluster.producer() as producer:
            delivered = producer.send("orders", b"0", key=b"first", headers=[("source", b"example")])
            assert delivered.offset == 0
            futures = [producer.append("orders", b"%d" % number) for number in range(1, 10)]
            assert [future.result().offset for future in futures] == list(range(1, 10))

        with cluster.consumer("orders", group="readers", auto_offset_reset="earliest") as consumer:
            for record in consumer:
                if record.offset == 3:
                    break

        with cluster.consumer("orders", group="readers") as consumer:
            assert next(iter(consumer)).offset == 4
            assert consumer.end_offsets([TopicPartition("orders", 0)]) == {TopicPartition("orders", 0): 10}
