"""Producers and consumers as a cluster makes, configures and remembers them."""

from __future__ import annotations

import asyncio

import barnabas.client
from barnabas.client import ErrorCode, KafkaError, blocking

NOWHERE = "127.0.0.1:1"


def test_a_cluster_forgets_what_was_closed() -> None:
    async def story() -> tuple[int, bool]:
        async with barnabas.client.connect(NOWHERE) as cluster:
            for _ in range(10):
                async with cluster.producer(), cluster.consumer():
                    pass
            open_still = cluster.producer()
            kept = len(cluster._made)
        return kept, open_still.closed

    assert asyncio.run(story()) == (1, True)


def test_a_blocking_cluster_forgets_what_was_closed() -> None:
    with blocking.connect(NOWHERE) as cluster:
        for _ in range(10):
            with cluster.producer(), cluster.consumer():
                pass
        open_still = cluster.producer()
        assert len(cluster._made) == len(cluster._cluster._made) == 1
    assert open_still.closed


def test_a_record_larger_than_the_setting_allows_is_refused_where_no_broker_is_asked() -> None:
    async def story() -> BaseException | None:
        config = {"max.request.size": "1000", "metadata.max.age.ms": "60000"}
        async with barnabas.client.connect(NOWHERE, config=config) as cluster, cluster.producer() as producer:
            return (await producer.append("orders", bytes(1_000), partition=0)).exception()

    refused = asyncio.run(story())
    assert isinstance(refused, KafkaError)
    assert refused.code is ErrorCode.MESSAGE_TOO_LARGE
