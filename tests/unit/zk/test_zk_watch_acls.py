"""CVE-2024-23944: who watches a tree hears nothing of the znodes in it that it may not read."""

from __future__ import annotations

import asyncio
from pathlib import Path

from barnabas.runtime.real import real_runtime
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.protocol.data import CREATOR_ALL_ACL
from barnabas.zk.protocol.frames import WatchEvent
from barnabas.zk.server.server import CoordinatorServer


def test_a_watch_of_a_tree_tells_no_names_that_may_not_be_read(tmp_path: Path) -> None:
    async def story() -> None:
        server = CoordinatorServer(real_runtime(), host="127.0.0.1", port=0, data_dir=str(tmp_path), fsync=False)
        await server.start()
        clients = [
            ZooKeeperClient(
                real_runtime(), f"127.0.0.1:{server.port}", session_timeout_ms=20_000, connection_timeout_ms=20_000
            )
            for _ in range(2)
        ]
        owner, stranger = clients
        for each in clients:
            await each.start()
        await owner.add_auth("digest", b"owner:secret")
        heard: list[str] = []
        last = asyncio.Event()

        def watch(event: WatchEvent) -> None:
            heard.append(event.path)
            if event.path == "/last":
                last.set()

        await stranger.add_watch("/", watch, recursive=True)
        await owner.create("/secret", b"", acl=CREATOR_ALL_ACL)
        await owner.create("/secret/alice", b"", acl=CREATOR_ALL_ACL)
        await owner.set("/secret/alice", b"changed")
        await owner.delete("/secret/alice")
        await owner.create("/last", b"")
        await last.wait()
        assert heard == ["/last"]
        for each in clients:
            await each.close()
        await server.close()

    asyncio.run(asyncio.wait_for(story(), 60))
