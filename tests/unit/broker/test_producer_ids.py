"""Producer ids, from the blocks that a controller gives out."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.broker.producer_ids import ProducerIds
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.zk.kafka.znodes import ProducerIdsBlock


@pytest.mark.parametrize(
    "wrong", [(1002, 0), (1002, -1), (1001, 2), (0, 1000), (-5, 3), (2**63 - 1, 2)], ids=lambda block: f"{block}"
)
def test_a_block_that_is_empty_or_not_behind_the_last_one_is_refused_and_the_next_one_taken(
    wrong: tuple[int, int],
) -> None:
    blocks = iter([(1000, 2), wrong, (3000, 1)])
    asked = 0

    async def fetch() -> ProducerIdsBlock:
        nonlocal asked
        asked += 1
        return ProducerIdsBlock(7, *next(blocks))

    async def play() -> None:
        ids = ProducerIds(fetch)
        assert [await ids.next(), await ids.next()] == [1000, 1001]
        with pytest.raises(KafkaError) as refused:
            await ids.next()
        assert refused.value.code is ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
        assert asked == 2
        assert await ids.next() == 3000

    asyncio.run(play())
