"""In coroutines: the cluster's methods are awaited, and the test's own loop goes on meanwhile."""

import asyncio

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer

from barnabas.testing import KafkaCluster


async def consume_across_a_failover():
    async with KafkaCluster(brokers=3) as cluster:
        await cluster.create_topic("events", config={"min.insync.replicas": 2})
        consumer = AIOKafkaConsumer(
            "events", bootstrap_servers=cluster.bootstrap, auto_offset_reset="earliest", retry_backoff_ms=50
        )
        producer = AIOKafkaProducer(
            bootstrap_servers=cluster.bootstrap, enable_idempotence=True, retry_backoff_ms=50, metadata_max_age_ms=500
        )
        await consumer.start()
        await producer.start()
        received = []

        async def consume():
            async for message in consumer:
                received.append(message.value)
                if len(received) == 100:
                    return

        consuming = asyncio.create_task(consume())
        partition = cluster.partition("events", 0)
        leader = await partition.leader()
        for number in range(100):
            if number == 50:
                await leader.kill()
            await producer.send_and_wait("events", str(number).encode())
        await asyncio.wait_for(consuming, 20)
        await producer.stop()
        await consumer.stop()

        await partition.wait(not_leader=leader, timeout=5)
        await cluster.verify()
        return received


def test_a_consumer_gets_everything_across_a_failover():
    # With pytest-asyncio or anyio, the test itself may be `async def` and take the fixture async_kafka_cluster.
    received = asyncio.run(consume_across_a_failover())
    assert received == [str(number).encode() for number in range(100)]
