"""Administrators who write znodes, as old tools did before there were requests."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Sequence
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.keeper import connected
from barnabas.sim.plans.plan import Action
from barnabas.sim.world.world import World
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import PreferredReplicaElectionZNode, ReassignPartitionsZNode
from barnabas.zk.protocol.errors import ZooKeeperError

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload


HEEDED_S: Final = 30.0


async def depose(workload: Workload, admin: Admin, action: Action) -> str:
    """Deletes ``/controller``, so that a controller is elected."""
    runtime = admin.cluster.runtime
    return await _in_zookeeper(
        workload.world, runtime, lambda client: KafkaZkClient(runtime, client).delete_path("/controller")
    )


async def legacy_reassign(workload: Workload, admin: Admin, action: Action) -> str:
    said = action.arguments
    also = said.get("also", [])
    assert isinstance(also, list)
    names = [f"{said['topic']}-{action.whole('partition', 0)}", *map(str, also)]
    asked = [{**_of_partition(name), "replicas": said["replicas"]} for name in names]
    return await _ask_by_znode(workload.world, admin.cluster.runtime, ReassignPartitionsZNode.path, asked)


async def legacy_elect(workload: Workload, admin: Admin, action: Action) -> str:
    topic = str(action.arguments["topic"])
    known = (await admin.cluster.refresh([topic])).partitions(topic)
    asked = [_of_partition(str(partition)) for partition in known]
    return await _ask_by_znode(workload.world, admin.cluster.runtime, PreferredReplicaElectionZNode.path, asked)


async def legacy_delete(workload: Workload, admin: Admin, action: Action) -> str:
    topic, now_ns = str(action.arguments["topic"]), workload.world.loop.now_ns
    workload.history.recreated_ns[topic] = now_ns
    return await _in_zookeeper(
        workload.world, admin.cluster.runtime, lambda client: client.create(f"/admin/delete_topics/{topic}", b"")
    )


async def legacy_grow(workload: Workload, admin: Admin, action: Action) -> str:
    """Adds one partition, placed like the first."""

    async def grow(client: ZooKeeperClient) -> None:
        path = f"/brokers/topics/{action.arguments['topic']}"
        data, stat = await client.get(path)
        there = json.loads(data or b"{}")
        there["partitions"][str(len(there["partitions"]))] = there["partitions"]["0"]
        await client.set(path, json.dumps(there).encode(), stat.version)

    return await _in_zookeeper(workload.world, admin.cluster.runtime, grow)


async def znodes_are_heeded(world: World, place: TopicPartition, replicas: Sequence[int]) -> None:
    """L1: whoever asks a controller by a znode is heeded, and so is whoever asks next. Nothing of it has to change."""
    each = _of_partition(str(place))
    world.check("L1")

    async def story(runtime: Runtime, cluster: ClusterClient) -> None:
        moved = {**each, "replicas": [*replicas]}
        for path, asked in [(PreferredReplicaElectionZNode.path, each), (ReassignPartitionsZNode.path, moved)] * 2:
            await _ask_by_znode(world, runtime, path, [asked])
            try:
                await world.until(lambda path=path: world.znode(path) is None, path, HEEDED_S)  # type: ignore[misc]
            except TimeoutError:
                world.violated("L1", f"{path} asks for {asked}, and no controller heeds it", str(place))

    await world.client(story, "tool")


async def _in_zookeeper(world: World, runtime: Runtime, do: Callable[[ZooKeeperClient], Awaitable[object]]) -> str:
    """What an administrator does in a ZooKeeper session of its own."""
    client = connected(world, runtime, "admin")
    try:
        await client.start()
        await do(client)
    except ZooKeeperError as error:
        return repr(error)
    finally:
        await client.close()
    return "done"


async def _ask_by_znode(world: World, runtime: Runtime, path: str, partitions: list[dict[str, Any]]) -> str:
    data = json.dumps({"version": 1, "partitions": partitions}).encode()
    return await _in_zookeeper(world, runtime, lambda client: client.create(path, data))


def _of_partition(name: str) -> dict[str, Any]:
    topic, _, number = name.rpartition("-")
    return {"topic": topic, "partition": int(number)}
