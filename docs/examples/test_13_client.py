"""The client for asyncio: produce, share a topic in a group, and copy it exactly once while a broker dies."""

import asyncio

import barnabas.client
from barnabas.client import NewTopic
from barnabas.testing import KafkaCluster


async def copy_across_a_failover(kafka):
    async with barnabas.client.connect(kafka.bootstrap) as cluster:
        await cluster.admin.create_topics([NewTopic("orders", 2, 3), NewTopic("copies", 2, 3)])
        async with cluster.producer(linger_ms=5, compression="zstd") as producer:
            under_way = [await producer.append("orders", b"%d" % number, key=b"k%d" % number) for number in range(100)]
            await asyncio.gather(*under_way)

        orders = cluster.consumer("orders", group="copiers", auto_offset_reset="earliest", enable_auto_commit=False)
        async with cluster.transactional_producer("copier") as producer:
            copied = 0
            leader = await kafka.partition("copies", 0).leader()
            while copied < 100:
                records = await orders.poll(1_000, max_records=20)
                async with producer.transaction():
                    for record in records:
                        await producer.append("copies", record.value, key=record.key)
                    await producer.send_offsets_to_transaction(orders.positions(), orders.group_metadata())
                copied += len(records)
                if copied >= 40 and leader is not None:
                    await leader.kill()
                    leader = None

        values = []
        copies = cluster.consumer("copies", auto_offset_reset="earliest", isolation_level="read_committed")
        async for record in copies:
            values.append(int(record.value))
            if len(values) == 100:
                break
        return values


def test_a_topic_is_copied_exactly_once_while_a_broker_dies():
    async def run():
        async with KafkaCluster(brokers=3) as kafka:
            values = await copy_across_a_failover(kafka)
            await kafka.verify()
            return values

    assert sorted(asyncio.run(run())) == list(range(100))
