"""A small world for the controller: a coordinator, its real clients, real controllers, and brokers that only answer,
all in virtual time.

The brokers stand behind the connection that a controller is given: they keep what they were told, and answer as a
healthy broker does, unless a play says otherwise.
"""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.controller.controller import KafkaController
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime import Tasks
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance, EventHash
from barnabas.sim.world.loop import SimLoop
from barnabas.sim.world.network import SimulatedNetwork
from barnabas.sim.world.node import Node
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.zk_client import KafkaZkClient
from barnabas.zk.kafka.znodes import DeleteTopicsTopicZNode, TopicZNode
from barnabas.zk.protocol.errors import SessionExpired
from barnabas.zk.server.server import CoordinatorServer

Request = LeaderAndIsrRequest | UpdateMetadataRequest | StopReplicaRequest


class AnsweringBroker:
    """What broker `broker_id` was told, in order; `storage_errors` lie in a failed log directory."""

    def __init__(self, broker_id: int) -> None:
        self.broker_id = broker_id
        self.told: list[Request] = []
        self.storage_errors: set[TopicPartition] = set()
        self.deletion_error = ErrorCode.NONE
        self.reachable = True
        self.log: list[str] = []

    def of(self, kind: type[Any]) -> list[Any]:
        return [request for request in self.told if isinstance(request, kind)]

    def answer(self, request: Request, version: int) -> Any:
        # Through the wire, so that what is told can be encoded and is not changed afterwards.
        told, _ = type(request).decode(request.encode(version), version)
        self.told.append(told)
        if isinstance(told, UpdateMetadataRequest):
            return UpdateMetadataResponse()
        if isinstance(told, StopReplicaRequest):
            return StopReplicaResponse(
                partition_errors=[
                    StopReplicaResponse.StopReplicaPartitionError(
                        topic_name=topic.topic_name,
                        partition_index=state.partition_index,
                        error_code=int(self.deletion_error) if state.delete_partition else 0,
                    )
                    for topic in told.topic_states
                    for state in topic.partition_states
                ]
            )
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrResponse.LeaderAndIsrTopicError(
                    topic_id=topic.topic_id,
                    partition_errors=[
                        LeaderAndIsrResponse.LeaderAndIsrPartitionError(
                            partition_index=state.partition_index,
                            error_code=int(
                                ErrorCode.KAFKA_STORAGE_ERROR
                                if TopicPartition(topic.topic_name, state.partition_index) in self.storage_errors
                                else ErrorCode.NONE
                            ),
                        )
                        for state in topic.partition_states
                    ],
                )
                for topic in told.topic_states
            ]
        )


class AnsweringConnection:
    def __init__(self, broker: AnsweringBroker) -> None:
        self.broker = broker
        self.closed = False

    async def connect(self) -> None:
        await asyncio.sleep(0)
        if not self.broker.reachable:
            raise ConnectionRefusedError(f"broker {self.broker.broker_id} is down")

    async def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any:
        await asyncio.sleep(0)
        if self.closed or not self.broker.reachable:
            raise ConnectionResetError(f"broker {self.broker.broker_id} is gone")
        assert version is not None
        return self.broker.answer(message, version)

    def abort(self, reason: BaseException | None = None) -> None:
        self.closed = True


class World:
    def __init__(self, runtime: Runtime, connect: str) -> None:
        self.connect = connect
        self.runtime = runtime
        self.brokers: dict[int, AnsweringBroker] = {}
        self.sessions: dict[int, ZooKeeperClient] = {}
        self.controllers: dict[int, KafkaController] = {}
        self.known: dict[int, MetadataCache] = {}
        self.tasks: dict[int, Tasks] = {}
        self.failures: list[BaseException] = []
        self.epochs: dict[int, int] = {}
        self.config: dict[str, str] = {"auto.leader.rebalance.enable": "false"}

    async def zk(self) -> KafkaZkClient:
        """A session of the play's own."""
        if 0 not in self.sessions:
            self.sessions[0] = await self._session("play")
        return KafkaZkClient(self.runtime, self.sessions[0])

    async def _session(self, name: str) -> ZooKeeperClient:
        client = ZooKeeperClient(
            self.runtime, self.connect, session_timeout_ms=6_000, connection_timeout_ms=10_000, name=name
        )
        await client.start()
        return client

    async def start(self, *broker_ids: int, rack: str | None = None) -> None:
        """Registers brokers and begins their controllers, in this order."""
        for broker_id in broker_ids:
            session = self.sessions[broker_id] = await self._session(f"broker-{broker_id}")
            zk = KafkaZkClient(self.runtime, session)
            await zk.create_top_level_paths()
            info = BrokerInfo(broker_id, (Endpoint("PLAINTEXT", f"host{broker_id}", 9000 + broker_id),), rack)
            epoch = self.epochs[broker_id] = await zk.register_broker(info, wait_ms=10_000)
            self.brokers.setdefault(broker_id, AnsweringBroker(broker_id)).reachable = True
            tasks = self.tasks[broker_id] = Tasks(lambda _, error: self.failures.append(error))
            config = broker_config({"broker.id": str(broker_id), **self.config})
            known = self.known[broker_id] = MetadataCache()
            controller = self.controllers[broker_id] = KafkaController(
                self.runtime, broker_id, epoch, info, config, zk, tasks=tasks, connect=self._connection, known=known,
            )  # fmt: skip
            controller.startup()
            await self.until(lambda c=controller: c.active_controller_id != -1, "somebody is controller")

    def _connection(self, endpoint: Endpoint, client_id: str, timeout_ms: int) -> AnsweringConnection:
        return AnsweringConnection(self.brokers[endpoint.port - 9000])

    async def die(self, broker_id: int) -> None:
        """Its process and its session end; nobody is asked."""
        self.brokers[broker_id].reachable = False
        controller = self.controllers.pop(broker_id)
        controller._on_controller_resignation()
        await self.tasks.pop(broker_id).end()
        await self.sessions.pop(broker_id).close()

    async def expire(self, broker_id: int) -> None:
        """Ends the broker's session behind its back, as a server does after a long pause."""
        client = self.sessions[broker_id]
        session_id, password = client._session.id, client._session.password
        for _ in range(100):
            # Whoever comes last has the session: its owner may take it back before it is closed here.
            thief = ZooKeeperClient(self.runtime, self.connect, session_timeout_ms=6_000, connection_timeout_ms=10_000)
            thief._session.id, thief._session.password = session_id, password
            with contextlib.suppress(SessionExpired):  # it is over already
                await thief.start()
            await thief.close()
            if client._connection is not None:
                client._connection.drop("the session was ended elsewhere")
            await asyncio.sleep(0.02)
            if client._session.id != session_id or client._session.expired:
                return
        raise AssertionError(f"the session of broker {broker_id} does not end")

    async def close(self) -> None:
        for broker_id in list(self.controllers):
            await self.controllers[broker_id].shutdown()
            await self.tasks[broker_id].end()
        for session in self.sessions.values():
            await session.close()
        assert self.failures == []

    # looking

    @property
    def controller(self) -> KafkaController:
        (active,) = [controller for controller in self.controllers.values() if controller.is_active]
        return active

    async def until(self, fact: Callable[[], Any], what: str) -> None:
        """Waits until `fact` is so: the world moves by itself."""
        for _ in range(4_000):
            found = fact()
            if await found if inspect.isawaitable(found) else found:
                return
            await asyncio.sleep(0.005)
        raise AssertionError(f"never: {what}")

    async def settled(self) -> None:
        """Waits until the controller has nothing to do and every broker has answered."""
        quiet = 0
        for _ in range(4_000):
            active = [c for c in self.controllers.values() if c.is_active]
            busy = len(active) != 1 or any(
                c.event_manager.event_queue_size or c.event_manager.status().event for c in self.controllers.values()
            )
            if active and active[0].reign is not None:
                busy = busy or any(
                    size
                    for broker_id, size in active[0].reign.channels.queue_sizes().items()
                    if self.brokers[broker_id].reachable
                )
            quiet = 0 if busy else quiet + 1
            if quiet >= 10:
                return
            await asyncio.sleep(0.004)
        raise AssertionError("the world never settles")

    async def state(self, partition: TopicPartition) -> LeaderAndIsr:
        known = (await (await self.zk()).get_topic_partition_states([partition])).get(partition)
        assert known is not None, f"{partition} has no state"
        return known.leader_and_isr

    # doing

    async def create(self, topic: str, *assignment: tuple[int, ...], config: dict[str, str] | None = None) -> Uuid:
        zk = await self.zk()
        topic_id = self.runtime.entropy.uuid()
        if config:
            await zk.set_or_create_entity_configs("topics", topic, config)
        await zk.create_topic_assignment(
            topic, topic_id, {TopicPartition(topic, index): each for index, each in enumerate(assignment)}
        )
        active = self.controller
        await self.until(
            lambda: (
                active.reign is not None
                and all(
                    active.reign.context.partition_leadership_info(TopicPartition(topic, index)) is not None
                    for index in range(len(assignment))
                )
            ),
            f"{topic} has leaders",
        )
        await self.settled()
        return topic_id

    async def delete(self, topic: str) -> None:
        await (await self.zk()).create_delete_topic_path(topic)

    async def delete_without_broker_3(self) -> None:
        """Three brokers, of which the third is dead, and with it a replica of "t", whose deletion waits for it."""
        await self.start(1, 2, 3)
        await self.create("t", (1, 2), (2, 3))
        await self.die(3)
        await self.settled()
        await self.delete("t")
        await self.until(lambda: "t" in self.controller.reign.context.topics_to_be_deleted, "queued")
        await self.settled()

    async def until_deleted(self, topic: str) -> None:
        await self.until(lambda: self.deleted(topic), f"{topic} is deleted")

    async def deleted(self, topic: str) -> bool:
        zk = await self.zk()
        return not await zk.path_exists(TopicZNode.path(topic)) and not await zk.path_exists(
            DeleteTopicsTopicZNode.path(topic)
        )

    async def alter_partition(
        self, partition: TopicPartition, isr: tuple[int, ...], *, state: LeaderAndIsr | None = None
    ) -> tuple[AlterPartitionResponse, AlterPartitionResponse.PartitionData | None]:
        """The leader asks for another ISR; `state` is what it believes, by default the truth."""
        current = await self.state(partition) if state is None else state
        active = self.controller
        assert active.reign is not None
        request = AlterPartitionRequest(
            broker_id=current.leader,
            broker_epoch=self.epochs[current.leader],
            topics=[
                AlterPartitionRequest.TopicData(
                    topic_id=active.reign.context.topic_ids[partition.topic],
                    partitions=[
                        AlterPartitionRequest.PartitionData(
                            partition_index=partition.partition,
                            leader_epoch=current.leader_epoch,
                            new_isr_with_epochs=[
                                AlterPartitionRequest.BrokerState(broker_id=replica, broker_epoch=-1) for replica in isr
                            ],
                            leader_recovery_state=int(current.leader_recovery_state),
                            partition_epoch=current.partition_epoch,
                        )
                    ],
                )
            ],
        )
        response = await active.alter_partitions(request)
        partitions = [each for topic in response.topics for each in topic.partitions]
        return response, partitions[0] if partitions else None


Play = Callable[[World], Awaitable[None]]


def played(story: Play, **config: str) -> None:
    """Plays a story on the simulator's loop, in virtual time: the coordinator and all who speak to it on one machine.

    `config` is the brokers', with underscores for the dots.
    """
    chance = Chance(1, "controller")
    loop = SimLoop(chance.stream("loop"), EventHash())
    machine = Node(loop, SimulatedNetwork(loop, chance.stream("network"), EventHash()), chance, "machine")
    over = loop.create_future()

    async def main(runtime: Runtime) -> None:
        try:
            await _played(runtime, story, config)
        except BaseException as error:
            over.set_exception(error)
        else:
            over.set_result(None)

    machine.begin(main)
    loop.run_until_complete(over)
    assert loop.unhandled == []


async def _played(runtime: Runtime, story: Play, config: dict[str, str]) -> None:
    server = CoordinatorServer(runtime, host="machine", port=2181, data_dir="/zookeeper", fsync=False)
    await server.start()
    made = World(runtime, "machine:2181")
    made.config |= {key.replace("_", "."): value for key, value in config.items()}
    try:
        async with asyncio.timeout(600):
            await story(made)
        await made.close()
    finally:
        await server.close()
