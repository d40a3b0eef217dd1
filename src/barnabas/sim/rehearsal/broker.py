"""A broker of the copied cluster: a real session, registration and controller, and canned answers in place of logs.

It accepts whatever a controller tells it. As a leader it takes into the ISR followers that were told to follow it in
its epoch, half a second later, as if they had fetched and were in sync; the request goes to the controller as
`replica.alter_partition` sends it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import Any, Final, Protocol

from barnabas.controller.controller import KafkaController
from barnabas.controller.older_forms import ControlRequest
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.model.leadership import LeaderAndIsr, LeaderRecoveryState
from barnabas.replica.alter_partition import LAST_WITH_TOPIC_NAMES, AlterPartitionManager, form_of
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime.doors import Runtime
from barnabas.runtime.story import Tasks
from barnabas.sim.world.loop import Incarnation
from barnabas.sim.world.world import broker_name, broker_number
from barnabas.wire.messages.alter_partition import AlterPartitionRequest, AlterPartitionResponse
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest, LeaderAndIsrResponse
from barnabas.wire.messages.stop_replica import StopReplicaRequest, StopReplicaResponse
from barnabas.wire.messages.update_metadata import UpdateMetadataResponse
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.kafka.zk_client import KafkaZkClient

SESSION_TIMEOUT_MS: Final = 6_000
LATENCY_S: Final = 0.001
"""Of a request between brokers, one way."""
LATEST_ALTER_PARTITION: Final = 3
PORT: Final = 9092


@dataclass(slots=True)
class ToldReplica:
    """What a broker was last told of a partition that it holds."""

    topic_id: Uuid
    state: LeaderAndIsr
    replicas: tuple[int, ...]
    controller_epoch: int


class Neighbours(Protocol):
    """The cluster as its brokers see it."""

    def alive(self, broker_id: int) -> RehearsedBroker | None: ...

    def active_controller(self) -> RehearsedBroker | None: ...

    def count(self, kind: str, partitions: int) -> None:
        """Counts a request to or from the controller."""
        ...

    def told(self, partitions: list[TopicPartition]) -> None:
        """Leaders or followers of these partitions have changed: followers may enter ISRs soon."""
        ...

    def failed(self, what: str, error: BaseException) -> None: ...


class RehearsedBroker:
    """`begin` is the story of its process; `process` has to be set before that."""

    def __init__(self, info: BrokerInfo, config: Config, zookeeper: str, neighbours: Neighbours) -> None:
        self.info = info
        self.broker_id = info.broker_id
        self.config = config
        self.partitions: dict[TopicPartition, ToldReplica] = {}
        self.controller_epoch = 0
        self.process: Incarnation | None = None
        self.tasks = Tasks(neighbours.failed)
        self._zookeeper = zookeeper
        self._neighbours = neighbours
        self._client: ZooKeeperClient | None = None
        self._controller: KafkaController | None = None
        self.alter_partition = AlterPartitionManager(
            self.broker_id, lambda: self.controller.broker_epoch, self._send_to_controller, self.tasks
        )

    @property
    def client(self) -> ZooKeeperClient:
        assert self._client is not None
        return self._client

    @property
    def controller(self) -> KafkaController:
        assert self._controller is not None
        return self._controller

    @property
    def serves(self) -> bool:
        return self.process is not None and self.process.alive and self._controller is not None

    async def begin(self, runtime: Runtime) -> None:
        """Registers the broker. Its controller is made, and does nothing yet: see `stand_for_election`."""
        self._client = ZooKeeperClient(
            runtime,
            self._zookeeper,
            session_timeout_ms=SESSION_TIMEOUT_MS,
            connection_timeout_ms=SESSION_TIMEOUT_MS,
            name=f"broker {self.broker_id}",
        )
        await self._client.start()
        zk = KafkaZkClient(runtime, self._client)
        await zk.create_top_level_paths()
        epoch = await zk.register_broker(self.info, wait_ms=10 * SESSION_TIMEOUT_MS)
        self._controller = KafkaController(
            runtime,
            self.broker_id,
            epoch,
            self.info,
            self.config,
            zk,
            tasks=self.tasks,
            connect=lambda endpoint, _, __: _Channel(self._neighbours, endpoint),
            known=MetadataCache(),
        )

    def run(self, act: Callable[[], Any]) -> Any:
        """Calls `act` in this broker's process: what it begins dies with it."""
        assert self.process is not None
        return self.process.context.run(act)

    def stand_for_election(self) -> None:
        self.run(self.controller.startup)

    async def stop(self) -> None:
        """What a broker does when it shuts down, after it has handed over its partitions."""
        self.alter_partition.close()
        await self.controller.shutdown()
        await self.tasks.end()
        await self.client.close()

    # what the controller tells

    def answer(self, request: ControlRequest) -> Any:
        stale = request.controller_epoch < self.controller_epoch
        self.controller_epoch = max(self.controller_epoch, request.controller_epoch)
        error = int(ErrorCode.STALE_CONTROLLER_EPOCH if stale else ErrorCode.NONE)
        kind = request.name.removesuffix("Request")
        self._neighbours.count(kind, sum(len(topic.partition_states) for topic in request.topic_states))
        if isinstance(request, LeaderAndIsrRequest):
            return LeaderAndIsrResponse(error_code=error) if stale else self._become_leader_or_follower(request)
        if isinstance(request, StopReplicaRequest):
            return StopReplicaResponse(error_code=error) if stale else self._stop_replicas(request)
        return UpdateMetadataResponse(error_code=error)

    def _become_leader_or_follower(self, request: LeaderAndIsrRequest) -> LeaderAndIsrResponse:
        told: list[TopicPartition] = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                partition = TopicPartition(topic.topic_name, state.partition_index)
                known = self.partitions.get(partition)
                if known is not None and state.leader_epoch < known.state.leader_epoch:
                    continue
                self.partitions[partition] = ToldReplica(
                    topic.topic_id,
                    LeaderAndIsr(
                        state.leader,
                        state.leader_epoch,
                        tuple(state.isr),
                        LeaderRecoveryState.RECOVERED,
                        state.partition_epoch,
                    ),
                    tuple(state.replicas),
                    state.controller_epoch,
                )
                told.append(partition)
        self._neighbours.told(told)
        return LeaderAndIsrResponse(
            topics=[
                LeaderAndIsrResponse.LeaderAndIsrTopicError(
                    topic.topic_id,
                    [
                        LeaderAndIsrResponse.LeaderAndIsrPartitionError(partition_index=state.partition_index)
                        for state in topic.partition_states
                    ],
                )
                for topic in request.topic_states
            ]
        )

    def _stop_replicas(self, request: StopReplicaRequest) -> StopReplicaResponse:
        answers = []
        for topic in request.topic_states:
            for state in topic.partition_states:
                self.partitions.pop(TopicPartition(topic.topic_name, state.partition_index), None)
                answers.append(
                    StopReplicaResponse.StopReplicaPartitionError(
                        topic_name=topic.topic_name, partition_index=state.partition_index
                    )
                )
        return StopReplicaResponse(partition_errors=answers)

    # what it asks the controller for

    def lead(self, partition: TopicPartition, lagging: Callable[[TopicPartition, int], bool]) -> None:
        """Proposes for the ISR the followers that follow this leader in its epoch and do not lag."""
        held = self.partitions.get(partition)
        if held is None or held.state.leader != self.broker_id:
            return
        joining = tuple(
            replica
            for replica in held.replicas
            if replica not in held.state.isr
            and not lagging(partition, replica)
            and self._is_followed(partition, replica)
        )
        if not joining:
            return
        proposed = replace(held.state, isr=held.state.isr + joining)

        def answered(outcome: LeaderAndIsr | ErrorCode) -> None:
            # Whatever else was refused, the controller has another state by now, and is about to tell it.
            if self.partitions.get(partition) is held and isinstance(outcome, LeaderAndIsr):
                held.state = outcome
            elif outcome is ErrorCode.OPERATION_NOT_ATTEMPTED:
                self._neighbours.told([partition])

        self.alter_partition.submit(partition, held.topic_id, proposed, held.controller_epoch, answered)

    def _is_followed(self, partition: TopicPartition, replica: int) -> bool:
        follower = self._neighbours.alive(replica)
        followed = None if follower is None else follower.partitions.get(partition)
        own = self.partitions[partition].state
        return (
            followed is not None
            and followed.state.leader == self.broker_id
            and followed.state.leader_epoch == own.leader_epoch
        )

    async def _send_to_controller(
        self, request: AlterPartitionRequest, max_version: int | None
    ) -> AlterPartitionResponse:
        await asyncio.sleep(LATENCY_S)
        active = self._neighbours.active_controller()
        if active is None:
            raise ConnectionRefusedError("there is no controller now")
        version = LAST_WITH_TOPIC_NAMES if max_version is not None else LATEST_ALTER_PARTITION
        self._neighbours.count("AlterPartition", sum(len(topic.partitions) for topic in request.topics))
        return await active.controller.alter_partitions(form_of(request, version), version)


class _Channel:
    """A controller's connection to a broker (`controller.channels.ChannelConnection`), without the wire."""

    def __init__(self, neighbours: Neighbours, endpoint: Endpoint) -> None:
        self._neighbours = neighbours
        self._broker_id = broker_number(endpoint.host)
        self._closed = False

    async def connect(self) -> None:
        await asyncio.sleep(LATENCY_S)
        self._reached()

    async def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any:
        await asyncio.sleep(LATENCY_S)
        answer = self._reached().answer(message)
        await asyncio.sleep(LATENCY_S)
        return answer

    def _reached(self) -> RehearsedBroker:
        broker = self._neighbours.alive(self._broker_id)
        if broker is None or self._closed:
            raise ConnectionRefusedError(f"broker {self._broker_id} is gone")
        return broker

    def abort(self, reason: BaseException | None = None) -> None:
        self._closed = True


def endpoint_of(broker_id: int) -> Endpoint:
    """The address of a broker of the copy, which listens nowhere."""
    return Endpoint("PLAINTEXT", broker_name(broker_id), PORT)
