"""A FastStream application against a real cluster: what it does while a broker goes and comes back."""

import asyncio

from faststream.kafka import KafkaBroker

from barnabas.testing import KafkaCluster


def application(bootstrap):
    """An application as it would stand in its own module: it reads orders and writes invoices."""
    broker = KafkaBroker(bootstrap, retry_backoff_ms=50, acks="all")

    @broker.subscriber("orders", group_id="billing", auto_offset_reset="earliest")
    @broker.publisher("invoices")
    async def bill(order: str) -> str:
        return f"invoice for {order}"

    return broker


async def orders_become_invoices():
    async with KafkaCluster() as cluster:
        for topic in ("orders", "invoices"):
            await cluster.create_topic(topic, config={"min.insync.replicas": 2})
        async with application(cluster.bootstrap_servers) as broker:
            await broker.start()
            for number in range(10):
                await broker.publish(f"order {number}", "orders")
            leader = await cluster.partition("orders", 0).leader()
            await leader.restart()
            for number in range(10, 20):
                await broker.publish(f"order {number}", "orders")
            await cluster.topic("orders").consumed_by("billing", timeout=20)
        await cluster.verify()
        return [record.value.decode() for record in await cluster.records("invoices")]


def test_every_order_has_its_invoice():
    invoices = asyncio.run(orders_become_invoices())
    assert set(invoices) == {f"invoice for order {number}" for number in range(20)}
