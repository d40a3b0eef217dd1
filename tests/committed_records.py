"""What a committed read finds in a topic."""

from __future__ import annotations

import asyncio

from barnabas.client.consumer import Consumer
from barnabas.client.offsets import EARLIEST, LATEST, READ_COMMITTED
from barnabas.testing import KafkaCluster


def committed(kafka: KafkaCluster, topic: str) -> list[bytes]:
    """What a committed read gives when no transaction is open any more."""

    async def read() -> list[bytes]:
        partitions = await kafka.partitions_of(topic)
        while True:
            ends = await kafka.client.list_offsets(dict.fromkeys(partitions, LATEST))
            stable = await kafka.client.list_offsets(dict.fromkeys(partitions, LATEST), isolation_level=READ_COMMITTED)
            if all(stable[each].offset == ends[each].offset for each in partitions):
                break
            await asyncio.sleep(0.01)
        consumer = Consumer(kafka.client, isolation_level=READ_COMMITTED, max_wait_ms=20)
        await consumer.assign(dict.fromkeys([each for each in partitions if ends[each].offset], EARLIEST))
        found: list[bytes] = []
        while any(consumer.position(each) < ends[each].offset for each in consumer.assignment):
            found += [each.record.value or b"" for each in await consumer.poll(50)]
        await consumer.close()
        return sorted(found)

    return kafka.run(asyncio.wait_for(read(), 60))
