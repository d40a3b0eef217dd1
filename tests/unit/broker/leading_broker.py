"""A broker that leads, without sockets: its connection is fed with bytes, and its transport only remembers."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from replicas_alone import replicas_alone

from barnabas.broker.connection import BrokerConnection
from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.long_requests import LongRequests
from barnabas.broker.quotas import Quotas
from barnabas.broker.request_metrics import RequestMetrics
from barnabas.broker.router import Router
from barnabas.broker.unsent_answers import UnsentAnswers
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import Config, broker_config
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.security.authorizer import AllowAll
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest

TOPIC = "flights"
TOPIC_ID = Uuid(bytes(15) + b"x")
PARTITION = TopicPartition(TOPIC, 0)


class Transport(asyncio.Transport):
    def __init__(self) -> None:
        super().__init__()
        self.written = bytearray()
        self.closed = False

    def write(self, data: Any) -> None:
        self.written += data

    def writelines(self, parts: Any) -> None:
        self.written += b"".join(parts)

    def abort(self) -> None:
        self.closed = True

    close = abort

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


class Connections:
    def opened(self, connection: BrokerConnection, transport: object = None) -> None:
        pass

    closed = complain = opened


class Broker:
    """What produces, fetches and connections need of a broker: it leads some partitions of one topic."""

    broker_id = 1
    connections = Connections()

    def __init__(
        self,
        directory: Path,
        *,
        replicas: tuple[int, ...] = (1,),
        partitions: Sequence[int] = (0,),
        config: Mapping[str, str] | None = None,
        request_bytes_max: int = 1 << 20,
    ) -> None:
        self._limits = ConnectionLimits(request_bytes_max)
        self.runtime = real_runtime()
        self.config: Config = broker_config({"log.dirs": str(directory), **(config or {})})
        self.metadata = MetadataCache()
        self.tasks = Tasks(lambda name, error: None)
        self.log_dirs = LogDirs(real_runtime(), self.config)
        self.replicas = replicas_alone(self.config, self.log_dirs, self.tasks, self.metadata)
        self._assigned, self._partitions = list(replicas), partitions
        self.lead(0)
        self.router = Router()
        self.long_requests = LongRequests()
        self.unsent_answers = UnsentAnswers(real_runtime().clock)
        self.requests = RequestMetrics(lambda: self.broker_id, real_runtime().clock)
        self.quotas = Quotas(real_runtime().clock, self.config)
        self.authorizer = AllowAll()
        self.node = self.parts = self
        self.connect()

    def lead(self, epoch: int, isr: Sequence[int] = ()) -> None:
        """Of the ISR are all replicas, unless `isr` says it."""
        in_sync = list(isr or self._assigned)
        states = [
            LeaderAndIsrRequest.LeaderAndIsrPartitionState(TOPIC, index, 1, 1, epoch, in_sync, epoch, self._assigned)
            for index in self._partitions
        ]
        known = [
            UpdateMetadataRequest.UpdateMetadataPartitionState(
                partition_index=index, leader=1, leader_epoch=epoch, isr=in_sync, replicas=self._assigned
            )
            for index in self._partitions
        ]
        told = UpdateMetadataRequest.UpdateMetadataTopicState(TOPIC, TOPIC_ID, known)
        alive = [UpdateMetadataRequest.UpdateMetadataBroker(broker_id) for broker_id in self._assigned]
        self.metadata.update(UpdateMetadataRequest(live_brokers=alive, topic_states=[told]))
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(TOPIC, TOPIC_ID, states)
        self.replicas.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic]))

    def connect(self) -> None:
        self.transport = Transport()
        self.connection = BrokerConnection(self, "PLAINTEXT", self._limits)  # type: ignore[arg-type]
        self.connection.connection_made(self.transport)

    def feed(self, data: bytes) -> None:
        while data and not self.transport.closed:
            buffer = self.connection.get_buffer(-1)
            count = min(len(buffer), len(data))
            buffer[:count] = data[:count]
            self.connection.buffer_updated(count)
            data = data[count:]

    @property
    def log(self) -> bytes:
        partition = self.replicas.partition(PARTITION)
        assert partition is not None
        log = partition.local_log()
        return bytes(log.read(log.log_start_offset, 1 << 30))
