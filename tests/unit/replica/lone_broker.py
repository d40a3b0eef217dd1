"""One broker with two log directories that leads `flights-0`, and calls in the place of other brokers."""

from __future__ import annotations

from pathlib import Path

from replica_worlds import TOPIC_ID, TOPIC_PARTITION, batch, state
from replicas_alone import replicas_alone

from barnabas.log.log import Log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.partition import Partition
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest


class Broker:
    """Its ISR is itself alone. `topic` are the topic's own values."""

    def __init__(
        self,
        directory: Path,
        *,
        replicas: tuple[int, ...] = (1,),
        topic: dict[str, str] | None = None,
        **values: str,
    ) -> None:
        self.a, self.b = str(directory / "a"), str(directory / "b")
        config = broker_config(
            {
                "log.dirs": f"{self.a},{self.b}",
                "replica.fetch.backoff.ms": "5",
                "replica.fetch.max.bytes": "1",
                **values,
            }
        )
        self.assigned = replicas
        self.failures: list[BaseException] = []
        self.tasks = Tasks(lambda name, error: self.failures.append(error))
        self.log_dirs = LogDirs(real_runtime(), config)
        self.log_dirs.update_topic_config(TOPIC_PARTITION.topic, topic or {})
        self.metadata = MetadataCache()
        self.replicas = replicas_alone(config, self.log_dirs, self.tasks, self.metadata)

    async def startup(self) -> None:
        await self.log_dirs.load()
        self.replicas.startup()
        self.lead(0)

    def lead(self, epoch: int) -> None:
        states = [
            LeaderAndIsrRequest.LeaderAndIsrTopicState(
                "flights", TOPIC_ID, [state(1, epoch, (1,), self.assigned, epoch)]
            )
        ]
        self.replicas.become_leader_or_follower(LeaderAndIsrRequest(1, controller_epoch=1, topic_states=states))

    @property
    def partition(self) -> Partition:
        return self.replicas.partition_or_raise(TOPIC_PARTITION)

    @property
    def log(self) -> Log:
        return self.partition.local_log()

    @property
    def path(self) -> str:
        return self.log.log_dir.path

    def append(self, *values: bytes) -> int:
        info = self.replicas.appending.append_as_leader(TOPIC_PARTITION, batch(*values), 1)[1]
        return info.first_offset

    def alter(self, path: str) -> ErrorCode:
        try:
            self.replicas.log_dir_moves.alter(TOPIC_PARTITION, path)
        except KafkaError as error:
            return error.code
        return ErrorCode.NONE

    def content(self) -> bytes:
        return bytes(self.log.read(self.log.log_start_offset, 1 << 24))

    async def stop(self, *, clean: bool = True) -> None:
        await self.replicas.shutdown(checkpoint=clean)
        await self.tasks.end()
        self.log_dirs.close(clean=clean)
        assert not self.failures
