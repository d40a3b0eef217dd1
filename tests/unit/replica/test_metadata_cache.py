"""Who asks about the cluster waits for a controller's first word, and not for good."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.model.ids import Uuid
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

ALIVE = UpdateMetadataRequest(live_brokers=[UpdateMetadataRequest.UpdateMetadataBroker(1)])


def test_who_asks_before_a_controller_has_spoken_hears_what_it_says() -> None:
    async def story() -> None:
        cache = MetadataCache()
        asking = [asyncio.ensure_future(cache.known(60_000)) for _ in range(2)]
        await asyncio.sleep(0.01)
        assert not any(each.done() for each in asking)
        cache.update(ALIVE)
        for each in asking:
            assert list((await each).brokers) == [1]
        assert list((await cache.known(0)).brokers) == [1]

    asyncio.run(story())


@pytest.mark.parametrize("told", [None, UpdateMetadataRequest()], ids=["says nothing", "names no broker"])
def test_where_the_controller_says_nothing_of_brokers_there_are_none(told: UpdateMetadataRequest | None) -> None:
    async def story() -> None:
        cache = MetadataCache()
        assert not (await cache.known(10)).brokers
        if told is not None:
            cache.update(told)
        assert not (await cache.known(10)).brokers, "and the loop goes on"
        cache.update(ALIVE)
        assert list((await cache.known(10)).brokers) == [1]

    asyncio.run(story())


def test_nothing_is_known_of_a_topic_any_more_whose_deletion_was_missed_when_it_is_made_anew() -> None:
    def told(topic_id: Uuid, *partitions: int) -> UpdateMetadataRequest:
        states = [UpdateMetadataRequest.UpdateMetadataPartitionState(partition_index=each) for each in partitions]
        return UpdateMetadataRequest(
            topic_states=[UpdateMetadataRequest.UpdateMetadataTopicState("flights", topic_id, states)]
        )

    cache = MetadataCache()
    old, anew = Uuid(b"0123456789abcdef"), Uuid(b"fedcba9876543210")
    cache.update(told(old, 0, 1, 2))
    cache.update(told(anew, 0))
    assert list(cache.image.topics["flights"].partitions) == [0]
    assert (cache.topic_name(old), cache.topic_name(anew)) == (None, "flights")
    cache.update(told(anew, 1))
    assert list(cache.image.topics["flights"].partitions) == [0, 1]
