"""The client on a real ensemble of three: a server dies, or all of them, and the session and its watches go on."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Iterator

import apache
import pytest
from zk_plays import connected, until

from barnabas.zk.client.client import ConnectionState, ZooKeeperClient
from barnabas.zk.client.handlers import ZNodeChangeHandler, ZNodeChildChangeHandler
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.protocol.data import EventType
from barnabas.zk.protocol.errors import ConnectionLoss
from barnabas.zk.protocol.ops import SetData

pytestmark = pytest.mark.apache


@pytest.fixture(scope="module")
def ensemble(tmp_path_factory: pytest.TempPathFactory) -> Iterator[apache.ZooKeeperEnsemble]:
    apache.require()
    with apache.ZooKeeperEnsemble(tmp_path_factory.mktemp("ensemble"), 3) as started:
        yield started


def _server_of(ensemble: apache.ZooKeeperEnsemble, client: ZooKeeperClient) -> int:
    assert client.server is not None
    address = f"{client.server[0]}:{client.server[1]}"
    return next(number for number in ensemble.numbers if ensemble.address(number) == address)


async def _connected(client: ZooKeeperClient) -> None:
    """Until an answer comes: behind the watches, which are set again before anything else."""
    async with asyncio.timeout(60):
        while True:
            await client.wait_until_connected()
            with contextlib.suppress(ConnectionLoss):
                await client.exists("/")
                return


class Watching:
    """A client with every kind of watch standing below `root`, and what it was told."""

    def __init__(self, client: ZooKeeperClient, root: str) -> None:
        self.client = client
        self.root = root
        self.told: list[str] = []
        client.register_node_change_handler(
            ZNodeChangeHandler(f"{root}/data", handle_data_change=lambda: self.told.append("changed"))
        )
        client.register_node_change_handler(
            ZNodeChangeHandler(f"{root}/missing", handle_creation=lambda: self.told.append("created"))
        )
        client.register_node_child_change_handler(
            ZNodeChildChangeHandler(f"{root}/parent", handle_child_change=lambda: self.told.append("children"))
        )

    async def set_up(self) -> None:
        client, root = self.client, self.root
        for path in (root, f"{root}/data", f"{root}/parent", f"{root}/tree"):
            await client.create(path, b"")
        await client.create(f"{root}/ephemeral", b"", ephemeral=True)
        await client.get(f"{root}/data")
        await client.exists(f"{root}/missing")
        await client.children(f"{root}/parent")
        await client.add_watch(
            f"{root}/tree", lambda event: self.told.append(EventType(event.type).name), recursive=True
        )

    async def change(self, client: ZooKeeperClient) -> None:
        """By another client, whatever its own connection does."""
        zk = KafkaZkClient(client.runtime, client)
        await zk.conditional_update_path(f"{self.root}/data", b"1", 0)
        for name in ("missing", "parent/child"):
            await zk.create_recursive(f"{self.root}/{name}", b"", False)

    async def change_the_tree(self, client: ZooKeeperClient) -> None:
        """Once the watching client is connected: what happens in between no persistent watch is told of."""
        await KafkaZkClient(client.runtime, client).create_recursive(f"{self.root}/tree/deep", b"", False)

    async def hears_everything(self) -> None:
        await until(lambda: {"changed", "created", "children", "NODE_CREATED"} <= set(self.told))
        await self.client.sync("/")
        assert [each for each in sorted(self.told) if each != "NONE"] == [
            *("NODE_CREATED", "changed", "children", "created")
        ]


def test_the_server_of_a_session_is_killed(ensemble: apache.ZooKeeperEnsemble) -> None:
    async def play() -> None:
        async with connected(ensemble.connect) as client, connected(ensemble.connect) as other:
            watching = Watching(client, "/killed")
            await watching.set_up()
            session_id, number = client.session_id, _server_of(ensemble, client)
            ensemble.kill(number)
            try:
                # At once, while the client looks for another server, or just found one.
                await watching.change(other)
                await _connected(client)
                await watching.change_the_tree(other)
                await watching.hears_everything()
                assert client.session_id == session_id
                assert _server_of(ensemble, client) != number
                found = await client.exists("/killed/ephemeral")
                assert found is not None
                assert found.ephemeral_owner == session_id
                assert client.disconnects == 1
                assert client.expires == 0
            finally:
                ensemble.start([number])

    asyncio.run(play())


def test_a_server_that_only_falls_silent_is_left(ensemble: apache.ZooKeeperEnsemble) -> None:
    async def play() -> None:
        async with connected(ensemble.connect, session_timeout_ms=12_000) as client:
            watching = Watching(client, "/silent")
            await watching.set_up()
            session_id, number = client.session_id, _server_of(ensemble, client)
            ensemble.pause(number)
            try:
                with pytest.raises(ConnectionLoss):  # nobody knows whether it was done
                    async with asyncio.timeout(60):
                        await client.set("/silent/ephemeral", b"1")
                await _connected(client)
                assert client.session_id == session_id
                async with connected(
                    ",".join(ensemble.address(each) for each in ensemble.numbers if each != number)
                ) as other:
                    await watching.change(other)
                    await watching.change_the_tree(other)
                await watching.hears_everything()
            finally:
                ensemble.resume(number)
            assert client.expires == 0

    asyncio.run(play())


def test_the_whole_ensemble_is_lost_and_regained(ensemble: apache.ZooKeeperEnsemble) -> None:
    async def play() -> None:
        async with connected(ensemble.connect, session_timeout_ms=10_000) as client:
            watching = Watching(client, "/lost")
            await watching.set_up()
            session_id = client.session_id
            zk = KafkaZkClient(client.runtime, client)
            stat = await client.exists("/lost/ephemeral")
            assert stat is not None
            for number in ensemble.numbers:
                ensemble.kill(number)
            # What is asked meanwhile waits and is answered in the end, once, whatever had been lost with the servers.
            asked = [
                asyncio.create_task(zk.conditional_update_path("/lost/ephemeral", b"%d" % version, version))
                for version in range(3)
            ]
            ensemble.start()
            await _connected(client)
            assert [await each for each in asked] == [(True, 1), (True, 2), (True, 3)]
            assert client.session_id == session_id
            async with connected(ensemble.connect) as other:
                await watching.change(other)
                await watching.change_the_tree(other)
            await watching.hears_everything()
            assert client.expires == 0
            assert client.state is ConnectionState.CONNECTED

    asyncio.run(play())


def test_a_write_whose_server_dies_is_done_once(ensemble: apache.ZooKeeperEnsemble) -> None:
    """B24: compare-and-sets are in flight when their server dies; each is either done or not, and its caller knows."""

    async def play() -> None:
        async with connected(ensemble.connect, session_timeout_ms=10_000) as client:
            zk = KafkaZkClient(client.runtime, client)
            await client.create("/counter", b"0")
            killed = _server_of(ensemble, client)
            version = 0
            for count in range(400):
                if count == 200:
                    ensemble.kill(killed)
                # Without recognizing its own lost answer this would fail now and then, and wait for ever.
                done, version = await zk.conditional_update_path("/counter", b"%d" % (count + 1), version)
                assert done
            assert version == 400
            data, stat = await client.get("/counter")
            assert (data, stat.version) == (b"400", 400)
            pipelined = await zk._requests([SetData("/counter", b"x", version) for version in range(400, 700)])
            assert [stat.version for stat in pipelined] == list(range(401, 701))
            ensemble.start([killed])

    asyncio.run(play())
