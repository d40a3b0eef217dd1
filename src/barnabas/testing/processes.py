"""The host that runs each broker as a process of its own, for faults that only the operating system can cause.

The coordinator stays in the test's process. A broker writes each acknowledgement to a file before it answers. The file
survives a ``kill -9``, so that `verify` also knows the promises of dead brokers.
"""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.metadata import ClusterMetadata, metadata_request, read_metadata
from barnabas.model.config import properties_text
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.runtime.doors import Disk
from barnabas.runtime.real import RealDisk, real_runtime
from barnabas.runtime.started_process import PYTHON
from barnabas.testing.history import Acknowledged, ClusterHistory, HistoryEvent, now_ms
from barnabas.testing.host import START_TIMEOUT_S, Host, PartitionView, broker_name
from barnabas.testing.life import ClusterError

SESSION_TIMEOUT_MS: Final = 1_500
STOP_TIMEOUT_S: Final = 20.0


class _Tail:
    """Reads the lines of a file that are new since the last look."""

    def __init__(self, path: Path) -> None:
        self._path = path
        self._position = 0

    def lines(self) -> list[str]:
        if not self._path.exists():
            return []
        with self._path.open("rb") as file:
            file.seek(self._position)
            data = file.read()
        whole = data.rfind(b"\n") + 1
        self._position += whole
        return data[:whole].decode(errors="replace").splitlines()


class ProcessHost(Host):
    def __init__(self, *arguments: Any, held: Sequence[int] = (), **options: Any) -> None:
        """`held` has descriptors that brokers inherit and hold as long as they run."""
        super().__init__(*arguments, **options)
        self._held = held
        self._processes: dict[int, subprocess.Popen[bytes]] = {}
        self._paused: dict[int, None] = {}
        self._client: ClusterClient | None = None
        assert self.directory is not None
        self._acknowledgements = [_Tail(self._file(number, "acknowledged")) for number in range(self.count)]
        self._logs = [_Tail(self._file(number, "log")) for number in range(self.count)]

    def _file(self, broker_id: int, kind: str) -> Path:
        assert self.directory is not None
        return self.directory / f"{broker_name(broker_id)}.{kind}"

    # ---- lives

    async def start(self) -> None:
        await self.start_coordinator()
        self._client = self.harness_client(real_runtime(), connect_timeout_ms=500, request_timeout_ms=1_000)
        await asyncio.gather(*(self.start_broker(broker_id) for broker_id in range(self.count)))
        await self.until(self.complete, f"{self.count} brokers that know each other and a controller")

    async def close(self) -> None:
        if self._client is not None:
            await self._client.close()
        for broker_id in list(self._processes):
            await self.kill_broker(broker_id)
        await super().close()

    def state(self, broker_id: int) -> str:
        process = self._processes.get(broker_id)
        if process is None:
            return "stopped"
        if process.poll() is not None:
            return "failed"
        return "paused" if broker_id in self._paused else "running"

    async def start_broker(self, broker_id: int) -> None:
        if self.state(broker_id) in ("running", "paused"):
            return
        name = broker_name(broker_id)
        self.history.note(name, "starts")
        values = self.configuration(broker_id)
        properties = self._file(broker_id, "properties")
        properties.write_text(properties_text(values))
        ready = self._file(broker_id, "ready")
        ready.unlink(missing_ok=True)
        words = [str(word) for word in (properties, ready, self._file(broker_id, "acknowledged"))]
        with self._file(broker_id, "log").open("ab") as log:
            process = subprocess.Popen(  # noqa: ASYNC220
                [*PYTHON, "-m", "barnabas.testing.node", *words],
                stdin=subprocess.DEVNULL,
                stdout=log,
                stderr=log,
                pass_fds=self._held,
                start_new_session=True,
            )
        self._processes[broker_id] = process
        loop = self.background.loop
        deadline = loop.time() + START_TIMEOUT_S
        while not ready.exists():
            if process.poll() is not None or loop.time() > deadline:
                await self.kill_broker(broker_id)
                last = self._file(broker_id, "log").read_text(errors="replace").splitlines()[-1:]
                raise ClusterError(f"Broker {broker_id} did not start: {''.join(last)}")
            await asyncio.sleep(0.01)

    async def _gone(self, broker_id: int, timeout: float) -> bool:
        process = self._processes[broker_id]
        deadline = self.background.loop.time() + timeout
        while process.poll() is None:
            if self.background.loop.time() > deadline:
                return False
            await asyncio.sleep(0.005)
        del self._processes[broker_id]
        self._paused.pop(broker_id, None)
        return True

    async def stop_broker(self, broker_id: int) -> None:
        if broker_id not in self._processes:
            return
        if broker_id in self._paused:
            raise ClusterError(f"Broker {broker_id} is paused and cannot stop: resume or kill it.")
        self.history.note(broker_name(broker_id), "is asked to stop")
        self._signal(broker_id, signal.SIGTERM)
        if not await self._gone(broker_id, STOP_TIMEOUT_S):
            raise ClusterError(f"Broker {broker_id} did not stop within {STOP_TIMEOUT_S:.0f} s.")

    async def kill_broker(self, broker_id: int) -> None:
        if broker_id in self._processes:
            self.history.note(broker_name(broker_id), "is killed")
            self._signal(broker_id, signal.SIGKILL)
            await self._gone(broker_id, STOP_TIMEOUT_S)

    async def pause_broker(self, broker_id: int) -> None:
        self.history.note(broker_name(broker_id), "is paused")
        self._signal(broker_id, signal.SIGSTOP)
        self._paused[broker_id] = None

    async def resume_broker(self, broker_id: int) -> None:
        self.history.note(broker_name(broker_id), "is resumed")
        self._paused.pop(broker_id, None)
        self._signal(broker_id, signal.SIGCONT)

    def _signal(self, broker_id: int, number: signal.Signals) -> None:
        process = self._processes.get(broker_id)
        if process is None:
            raise ClusterError(f"Broker {broker_id} does not run.")
        process.send_signal(number)

    # ---- looking

    async def _told_by(self, broker_id: int, topics: list[str]) -> ClusterMetadata | None:
        assert self._client is not None
        try:
            connection = await self._client.connection(*self.harness_address(broker_id))
            return read_metadata(await connection.send(metadata_request(topics)))
        except OSError:
            return None

    async def complete(self) -> bool:
        for broker_id in range(self.count):
            told = await self._told_by(broker_id, [])
            if told is None or len(told.brokers) < self.count or told.controller is None:
                return False
        return True

    async def agreed(self, topic_partition: TopicPartition, view: PartitionView) -> bool:
        topic, number = topic_partition
        for broker_id in sorted(view.isr):
            if broker_id in self._paused and broker_id != view.leader:
                continue
            told = await self._told_by(broker_id, [topic])
            found = None if told is None or topic not in told.topics else told.topics[topic].partitions.get(number)
            if found is None or found.leader != view.leader or frozenset(found.isr) != view.isr:
                return False
        return True

    def files(self, broker_id: int) -> tuple[Disk, str]:
        return RealDisk(), self.place(broker_name(broker_id))

    def gather(self) -> None:
        history = self.history
        for broker_id in range(self.count):
            for line in self._acknowledgements[broker_id].lines():
                at_ms, topic_id, topic, number, base_offset, last_offset, crc = json.loads(line)
                partition = TopicPartition(topic, number)
                history.acknowledged.append(
                    Acknowledged(at_ms, broker_id, Uuid.parse(topic_id), partition, base_offset, last_offset, crc)
                )
            for line in self._logs[broker_id].lines():
                seconds, _, text = line.partition(" ")
                if seconds.replace(".", "", 1).isdigit():
                    history.timeline.append(HistoryEvent(round(float(seconds) * 1000), broker_name(broker_id), text))


class WrittenHistory(ClusterHistory):
    """The history of a broker process: its promises are written to a file before they are made."""

    def __init__(self, path: str) -> None:
        super().__init__()
        self._descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o644)

    def acknowledge(
        self,
        broker_id: int,
        topic_id: Uuid,
        topic_partition: TopicPartition,
        base_offset: int,
        last_offset: int,
        crc: int | None,
    ) -> None:
        at_ms = now_ms()
        line = [at_ms, str(topic_id), topic_partition.topic, topic_partition.partition, base_offset, last_offset, crc]
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def serve(
        self, broker_id: int, topic_id: Uuid, topic_partition: TopicPartition, base_offset: int, crc: int
    ) -> None:
        """Does nothing: batches given to consumers are recorded only if the brokers run in the test's process."""
