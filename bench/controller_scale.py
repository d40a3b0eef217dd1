# ruff: noqa: TID251 -- a bench reads the real clock
"""How a controller's time and memory grow with its partitions: ``python bench/controller_scale.py 10000 100000``.

One process holds the coordinator, two controllers and three brokers that only answer: what is measured is the
controller, its ZooKeeper client and the coordinator's tree, without the brokers' logs and fetchers. Each size runs in a
process of its own, so that memory is its own too. Requests are encoded, as for real sockets.
"""

from __future__ import annotations

import argparse
import asyncio
import cProfile
import json
import pstats
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.controller.controller import KafkaController
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.config import broker_config
from barnabas.model.ids import TopicPartition
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataResponse
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.server.server import CoordinatorServer

FIRST, SECOND = 1, 2
"""Who reigns, and who reigns after it; the first is no replica's broker, so that its end is a failover and no more."""
BROKERS = (2, 3, 4)
PARTITIONS_OF_A_TOPIC = 10
LOT = 50
"""Topics that are asked for at a time."""
SESSION_TIMEOUT_MS = 120_000


class Answering:
    """A broker that encodes what it is told, and says yes."""

    told = 0

    async def connect(self) -> None:
        await asyncio.sleep(0)

    async def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any:
        assert version is not None
        Answering.told += len(message.encode(version))
        await asyncio.sleep(0)
        if isinstance(message, LeaderAndIsrRequest):
            return LeaderAndIsrResponse(
                topics=[
                    LeaderAndIsrResponse.LeaderAndIsrTopicError(
                        topic.topic_id,
                        [
                            LeaderAndIsrResponse.LeaderAndIsrPartitionError(partition_index=state.partition_index)
                            for state in topic.partition_states
                        ],
                    )
                    for topic in message.topic_states
                ]
            )
        return StopReplicaResponse() if isinstance(message, StopReplicaRequest) else UpdateMetadataResponse()

    def abort(self, reason: BaseException | None = None) -> None:
        return


class Cluster:
    def __init__(self, connect: str) -> None:
        self.connect = connect
        self.runtime = real_runtime()
        self.tasks = Tasks(self._failed)
        self.sessions: dict[int, ZooKeeperClient] = {}
        self.controllers: dict[int, KafkaController] = {}

    def _failed(self, name: str, error: BaseException) -> None:
        raise SystemExit(f"{name} failed: {error!r}")

    async def client(self, name: str) -> ZooKeeperClient:
        made = ZooKeeperClient(
            self.runtime, self.connect, session_timeout_ms=SESSION_TIMEOUT_MS, connection_timeout_ms=10_000, name=name
        )
        await made.start()
        return made

    async def start(self, broker: int, *, reigns: bool) -> None:
        """Registers a broker; one that `reigns` is the controller, or the next one."""
        session = self.sessions[broker] = await self.client(f"broker-{broker}")
        zk = KafkaZkClient(self.runtime, session)
        await zk.create_top_level_paths()
        info = BrokerInfo(broker, (Endpoint("PLAINTEXT", "host", 9000 + broker),))
        epoch = await zk.register_broker(info)
        if reigns:
            config = broker_config({"broker.id": str(broker), "auto.leader.rebalance.enable": "false"})
            made = KafkaController(
                self.runtime,
                broker,
                epoch,
                info,
                config,
                zk,
                tasks=self.tasks,
                connect=lambda *_: Answering(),
                known=MetadataCache(),
            )
            self.controllers[broker] = made
            made.startup()
            await self.until(lambda: made.active_controller_id >= 0)

    async def until(self, fact: Callable[[], bool]) -> None:
        while not fact():  # noqa: ASYNC110 -- the controller has nobody to tell
            await asyncio.sleep(0.002)

    def quiet(self, broker: int) -> bool:
        """The controller at `broker` reigns, has no event, and every broker has answered."""
        controller = self.controllers[broker]
        manager, reign = controller.event_manager, controller.reign
        return (
            reign is not None
            and not manager.event_queue_size
            and not manager.status().event
            and not any(reign.channels.queue_sizes().values())
        )


async def measure(partitions: int) -> dict[str, float]:
    topics = partitions // PARTITIONS_OF_A_TOPIC
    took: dict[str, float] = {}

    async def timed(name: str, step: Callable[[], Awaitable[None]]) -> None:
        began = time.process_time()
        await step()
        took[f"{name}_us"] = (time.process_time() - began) / partitions * 1e6

    with tempfile.TemporaryDirectory() as directory:
        server = CoordinatorServer(real_runtime(), host="127.0.0.1", port=0, data_dir=directory, fsync=False)
        await server.start()
        cluster = Cluster(f"127.0.0.1:{server.port}")
        for broker in (FIRST, *BROKERS):
            await cluster.start(broker, reigns=broker in (FIRST, SECOND))
        zk = KafkaZkClient(cluster.runtime, await cluster.client("bench"))
        before_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss

        def known(broker: int) -> int:
            reign = cluster.controllers[broker].reign
            return 0 if reign is None else len(reign.context.partitions_leadership_info)

        async def create() -> None:
            for lot in range(0, topics, LOT):
                for number in range(lot, min(lot + LOT, topics)):
                    name = f"topic-{number}"
                    replicas = [tuple(BROKERS[(number + i + j) % 3] for j in range(3)) for i in range(3)]
                    await zk.create_topic_assignment(
                        name,
                        cluster.runtime.entropy.uuid(),
                        {TopicPartition(name, i): replicas[i % 3] for i in range(PARTITIONS_OF_A_TOPIC)},
                    )
                wanted = min(lot + LOT, topics) * PARTITIONS_OF_A_TOPIC
                await cluster.until(lambda wanted=wanted: known(FIRST) >= wanted and cluster.quiet(FIRST))  # type: ignore[misc]

        async def death() -> None:
            gone = BROKERS[-1]
            await cluster.sessions.pop(gone).close()
            await cluster.until(lambda: _has_gone(cluster, gone) and cluster.quiet(FIRST))

        async def failover() -> None:
            await cluster.controllers.pop(FIRST).shutdown()
            await cluster.sessions.pop(FIRST).close()
            second = cluster.controllers[SECOND]
            await cluster.until(lambda: second.is_active and known(SECOND) >= partitions and cluster.quiet(SECOND))

        await timed("create", create)
        took["memory_kb"] = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before_kb) / partitions
        await timed("death", death)
        await timed("failover", failover)
        for controller in cluster.controllers.values():
            await controller.shutdown()
        await cluster.tasks.end()
        for session in cluster.sessions.values():
            await session.close()
        await zk.close()
        await server.close()
    return took


def _has_gone(cluster: Cluster, broker: int) -> bool:
    reign = cluster.controllers[FIRST].reign
    return reign is not None and broker not in reign.context.live_or_shutting_down_broker_ids


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("partitions", type=int, nargs="+")
    parser.add_argument("--profile", action="store_true", help="where the time of the first size goes")
    parser.add_argument("--here", action="store_true", help="in this process, as JSON")
    arguments = parser.parse_args()
    if arguments.profile:
        profile = cProfile.Profile()
        profile.enable()
        asyncio.run(measure(arguments.partitions[0]))
        profile.disable()
        pstats.Stats(profile).sort_stats("tottime").print_stats(45)
        return
    if arguments.here:
        print(json.dumps(asyncio.run(measure(arguments.partitions[0]))))
        return
    print(f"{'partitions':>10}  {'created':>9}  {'death':>9}  {'failover':>9}  {'memory':>9}   (of one partition)")
    for partitions in arguments.partitions:
        done = subprocess.run(
            [sys.executable, __file__, "--here", str(partitions)], capture_output=True, text=True, check=True
        )
        of = json.loads(done.stdout)
        print(
            f"{partitions:>10}  {of['create_us']:>6.0f} µs  {of['death_us']:>6.0f} µs  {of['failover_us']:>6.0f} µs"
            f"  {of['memory_kb']:>6.1f} KB"
        )


if __name__ == "__main__":
    main()
