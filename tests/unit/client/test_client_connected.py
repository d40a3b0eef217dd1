"""What a cluster remembers of the producers and consumers that are made of it."""

from __future__ import annotations

import asyncio

import barnabas.client
from barnabas.client import blocking

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
