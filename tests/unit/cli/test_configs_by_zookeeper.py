"""``kafka-configs --zookeeper`` beside another who changes the same entity."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path

import pytest

from barnabas.cli.kafka_tools.configs_by_zookeeper import change
from barnabas.cli.kafka_tools.errors import JavaError
from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.server.server import CoordinatorServer


class Overtaken(KafkaZkClient):
    """Another writes right after the first reading."""

    other: Callable[[KafkaZkClient], Awaitable[None]] | None = None

    async def get_entity_configs_and_version(self, entity_type: str, name: str) -> tuple[dict[str, str], int]:
        read = await super().get_entity_configs_and_version(entity_type, name)
        if self.other is not None:
            other, self.other = self.other, None
            await other(self)
        return read


Play = Callable[[Overtaken], Awaitable[None]]


@pytest.fixture
def play(tmp_path: Path) -> Callable[[Play], None]:
    async def run(story: Play) -> None:
        runtime = real_runtime()
        server = CoordinatorServer(runtime, host="127.0.0.1", port=0, data_dir=str(tmp_path), fsync=False)
        await server.start()
        client = ZooKeeperClient(
            runtime, f"127.0.0.1:{server.port}", session_timeout_ms=6_000, connection_timeout_ms=10_000, name="tool"
        )
        await client.start()
        try:
            async with asyncio.timeout(60):
                await story(Overtaken(runtime, client))
        finally:
            await client.close()
            await server.close()

    return lambda story: asyncio.run(run(story))


@pytest.mark.parametrize("is_there", [False, True])
def test_what_another_changes_meanwhile_stays_changed(play: Callable[[Play], None], is_there: bool) -> None:
    async def story(zk: Overtaken) -> None:
        before = {"SCRAM-SHA-256": "old"} if is_there else {}
        if is_there:
            await change(zk, "users", "alice", before, [])
        zk.other = lambda zk: change(zk, "users", "alice", {"SCRAM-SHA-512": "theirs"}, [])
        await change(zk, "users", "alice", {"SCRAM-SHA-256": "ours"}, [])
        assert await zk.get_entity_configs("users", "alice") == {"SCRAM-SHA-256": "ours", "SCRAM-SHA-512": "theirs"}

    play(story)


def test_what_another_deletes_meanwhile_cannot_be_deleted(play: Callable[[Play], None]) -> None:
    async def story(zk: Overtaken) -> None:
        await change(zk, "users", "alice", {"SCRAM-SHA-256": "a", "SCRAM-SHA-512": "b"}, [])
        zk.other = lambda zk: change(zk, "users", "alice", {}, ["SCRAM-SHA-512"])
        with pytest.raises(JavaError, match="SCRAM-SHA-512"):
            await change(zk, "users", "alice", {}, ["SCRAM-SHA-512"])
        assert await zk.get_entity_configs("users", "alice") == {"SCRAM-SHA-256": "a"}

    play(story)


def test_a_change_goes_on_where_another_removed_the_entity(play: Callable[[Play], None]) -> None:
    async def story(zk: Overtaken) -> None:
        await change(zk, "brokers", "7", {"log.retention.ms": "1"}, [])
        zk.other = lambda zk: zk.delete_path("/config/brokers/7")
        await change(zk, "brokers", "7", {"log.cleaner.threads": "2"}, [])
        assert await zk.get_entity_configs("brokers", "7") == {"log.cleaner.threads": "2"}

    play(story)
