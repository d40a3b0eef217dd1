# ruff: noqa: TID251 -- a bench reads the real clock
"""What a record with acks=all costs a cluster, without its sockets: ``python bench/lane.py --instructions``.

Three brokers in one process, or fewer by ``--replicas``, the first of which leads everything: connections, handlers,
logs and fetchers are the product's, and bytes go from one to the other by a call. Producers are frames that were made
before, each sent when the one before it on its connection is answered. So what is counted is what brokers do from the
bytes of a produce to those of its answer, on the leader and on its followers, and what the loop does between.

CPU time is the process's own, the least of several rounds. ``--instructions`` runs each shape twice under valgrind,
with a few hundred and with many requests, and divides the difference: that is the same on a machine that is busy.
"""

from __future__ import annotations

import argparse
import asyncio
import gc
import os
import random
import re
import shutil
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from barnabas.runtime.compiled import take_compiled

if "--compiled" in sys.argv:
    take_compiled()

from barnabas.broker.connection import BrokerConnection
from barnabas.broker.framed_connection import ConnectionLimits
from barnabas.broker.quotas import Quotas
from barnabas.broker.request_channel import RequestChannel
from barnabas.broker.request_memory import RequestMemory
from barnabas.broker.request_metrics import RequestMetrics
from barnabas.broker.unsent_answers import UnsentAnswers
from barnabas.client.connection import Connection
from barnabas.log.log_dirs import LogDirs
from barnabas.model.acl import CLUSTER_NAME, Operation, Permission, ResourceType
from barnabas.model.config import broker_config
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.replicas import Replicas
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.security.acls import Acl, AclAuthorizer, Resource
from barnabas.security.authorizer import AllowAll, Authorizer
from barnabas.wire.frames import encode_request
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest
from barnabas.wire.records import Record, build_batch

TOPIC = "flights"
TOPIC_ID = Uuid(bytes(15) + b"x")
BROKERS = (1, 2, 3)
TIMESTAMP_MS = 1_700_000_000_000
AUTHORIZER: Authorizer = AllowAll()
Assignment = Sequence[Sequence[int]]
"""Replicas by partition, the leader first."""


class Shape(NamedTuple):
    """What is sent: over how many connections, to how many partitions in all and by one request, and of which size."""

    says: str
    connections: int
    partitions: int
    at_once: int
    records: int
    value_bytes: int
    in_flight: int = 1


SHAPES = {
    "one": Shape("1 connection, 1 partition, a record", 1, 1, 1, 1, 100),
    "eight": Shape("8 connections, 1 partition, a record", 8, 1, 1, 1, 100),
    "spread": Shape("8 connections, 64 partitions, one a request, a record", 8, 64, 1, 1, 100),
    "four": Shape("8 connections, 64 partitions, 4 a request, a record each", 8, 64, 4, 1, 100),
    "sixteen": Shape("8 connections, 64 partitions, 16 a request, a record each", 8, 64, 16, 1, 100),
    "spread-batches": Shape("8 connections, 64 partitions, one a request, 16 KB of 100 B", 8, 64, 1, 140, 100),
    "four-batches": Shape("8 connections, 64 partitions, 4 a request, 16 KB of 100 B each", 8, 64, 4, 140, 100),
    "sixteen-batches": Shape("8 connections, 64 partitions, 16 a request, 16 KB of 100 B each", 8, 64, 16, 140, 100),
    "sixty-four": Shape("1 connection, 64 partitions a request, a record each", 1, 64, 64, 1, 100),
    "batches": Shape("1 connection, 1 partition, 16 KB batches of 100 B, 5 in flight", 1, 1, 1, 140, 100, 5),
    "large": Shape("1 connection, 1 partition, 16 KB batches of 1 KB, 5 in flight", 1, 1, 1, 16, 1000, 5),
}


class Wire(asyncio.Transport):
    """One direction of a connection in memory. What is written in a turn of the loop arrives in the next, together."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        super().__init__()
        self._loop = loop
        self._written = bytearray()
        self.to: Callable[[bytearray], None]
        self.back: Wire | None = None
        """The other direction, where one end may close the connection before the other one."""

    def write(self, data: Any) -> None:
        if not self._written:
            self._loop.call_soon(self._arrive)
        self._written += data

    def writelines(self, parts: Any) -> None:
        self.write(b"".join(parts))

    def _arrive(self) -> None:
        written, self._written = self._written, bytearray()
        self.to(written)

    def abort(self) -> None:
        if self.back is not None:
            self.back.to = lambda data: None

    close = abort

    def pause_reading(self) -> None:
        pass

    resume_reading = pause_reading


def into(protocol: asyncio.BufferedProtocol) -> Callable[[bytearray], None]:
    """Gives what arrives to `protocol`, as a socket's transport does."""

    def arrived(data: bytearray) -> None:
        taken = 0
        while taken < len(data):
            buffer: memoryview = protocol.get_buffer(-1)  # type: ignore[assignment]
            count = min(len(buffer), len(data) - taken)
            buffer[:count] = data[taken : taken + count]
            protocol.buffer_updated(count)
            taken += count

    return arrived


class Near:
    """The brokers of this process, whose ports are their ids."""

    def __init__(self, brokers: dict[int, Broker]) -> None:
        self._brokers = brokers

    async def listen(self, protocol_factory: Callable[[], Any], host: str, port: int, **_: Any) -> Any:
        raise AssertionError("nobody listens here")

    async def connect(self, protocol_factory: Callable[[], Any], host: str, port: int, **_: Any) -> Any:
        protocol = protocol_factory()
        there, back = Wire(asyncio.get_running_loop()), Wire(asyncio.get_running_loop())
        serving = self._brokers[port].serve(back)
        there.to, back.to = into(serving), into(protocol)
        there.back = back
        protocol.connection_made(there)
        return protocol


class Connections:
    def opened(self, connection: BrokerConnection, transport: object = None) -> None:
        pass

    closed = opened

    def complain(self, connection: BrokerConnection, reason: str) -> None:
        raise AssertionError(reason)


class Seeded(random.Random):
    """Session ids that are the same in each run."""

    def uuid(self) -> Uuid:
        return Uuid(self.randbytes(16))

    token = random.Random.randbytes


class Broker:
    """What produces and fetches need of a broker."""

    def __init__(self, broker_id: int, directory: str, brokers: dict[int, Broker]) -> None:
        self.broker_id = broker_id
        self.config = broker_config({"log.dirs": f"{directory}/{broker_id}", "replica.fetch.wait.max.ms": "60000"})
        self.metadata = MetadataCache()
        self.tasks = Tasks(_failed)
        runtime = replace(real_runtime(), network=Near(brokers), entropy=Seeded(broker_id))
        self.log_dirs = LogDirs(runtime, self.config)
        self.replicas = Replicas(
            runtime,
            broker_id,
            self.config,
            self.log_dirs,
            tasks=self.tasks,
            metadata=self.metadata,
            alter_partition=None,  # type: ignore[arg-type]
            connect=lambda endpoint, client_id: Connection(runtime, endpoint.host, endpoint.port, client_id),
            inter_broker_listener="PLAINTEXT",
            broker_epoch=lambda: 100 + broker_id,
        )
        self.quotas = Quotas(runtime.clock, self.config)
        self.unsent_answers = UnsentAnswers(runtime.clock)
        self.channel = RequestChannel(
            self,  # type: ignore[arg-type]
            Connections(),  # type: ignore[arg-type]
            authorizer=AUTHORIZER,
            quotas=self.quotas,
            memory=RequestMemory(),
            requests=RequestMetrics(lambda: broker_id, runtime.clock),
            unsent_answers=self.unsent_answers,
        )
        self.channel.parts = self  # type: ignore[assignment]
        brokers[broker_id] = self

    def serve(self, back: asyncio.Transport) -> BrokerConnection:
        connection = BrokerConnection(self.channel, "PLAINTEXT", ConnectionLimits(100 << 20, self.channel.memory))
        connection.connection_made(back)
        return connection

    def take_part(self, assignment: Assignment) -> None:
        brokers = sorted({each for replicas in assignment for each in replicas})
        states = [
            LeaderAndIsrRequest.LeaderAndIsrPartitionState(TOPIC, index, 1, of[0], 0, list(of), 0, list(of))
            for index, of in enumerate(assignment)
            if self.broker_id in of
        ]
        known = [
            UpdateMetadataRequest.UpdateMetadataPartitionState(
                partition_index=index, leader=of[0], leader_epoch=0, isr=list(of), replicas=list(of)
            )
            for index, of in enumerate(assignment)
        ]
        endpoints = [
            UpdateMetadataRequest.UpdateMetadataBroker(
                each, endpoints=[UpdateMetadataRequest.UpdateMetadataEndpoint(each, "here", "PLAINTEXT")]
            )
            for each in brokers
        ]
        told = UpdateMetadataRequest.UpdateMetadataTopicState(TOPIC, TOPIC_ID, known)
        self.metadata.update(UpdateMetadataRequest(topic_states=[told], live_brokers=endpoints))
        topic = LeaderAndIsrRequest.LeaderAndIsrTopicState(TOPIC, TOPIC_ID, states)
        self.replicas.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, topic_states=[topic]))


def _failed(name: str, error: BaseException) -> None:
    raise error


Serve = Callable[[asyncio.Transport], Callable[[bytearray], None]]
"""Whoever takes what a producer sends: given where answers go, it returns what takes the bytes."""
Frame = Callable[[ProduceRequest, int], bytes]
"""How a request is written: itself and the producer's number."""


def by_connection(leader: Broker) -> Serve:
    return lambda back: into(leader.serve(back))


def frame(message: ProduceRequest, number: int) -> bytes:
    return b"".join(encode_request(message, 11, number, f"producer-{number}"))


class Producer:
    """Sends frames in turn, and the next one for each answer."""

    def __init__(
        self, number: int, shape: Shape, serve: Serve, written: Frame = frame, partitions: Sequence[int] = ()
    ) -> None:
        """`partitions`: those that are led where it sends to, else all."""
        loop = asyncio.get_running_loop()
        self.wire, back = Wire(loop), Wire(loop)
        self.wire.to, back.to = serve(back), self.answered
        value = random.Random(number).randbytes(shape.value_bytes)
        batch = build_batch([Record(at, TIMESTAMP_MS, None, value, []) for at in range(shape.records)])
        self._frames: deque[bytes] = deque()
        chance = random.Random(number)
        order = list(partitions or range(shape.partitions))
        for _ in range(max(1, len(order) // shape.at_once) * 4):
            chance.shuffle(order)
            data = [ProduceRequest.PartitionProduceData(index, batch) for index in sorted(order[: shape.at_once])]
            message = ProduceRequest(None, -1, 30_000, [ProduceRequest.TopicProduceData(TOPIC, data)])
            self._frames.append(written(message, number))
        self._in_flight = shape.in_flight
        self._arrived = bytearray()
        self.left = 0
        self._unanswered = 0
        self.done: asyncio.Future[None]

    def produce(self, requests: int) -> asyncio.Future[None]:
        self.done = asyncio.get_running_loop().create_future()
        self.left = requests
        self._unanswered = 0
        for _ in range(self._in_flight):
            self._send()
        return self.done

    def _send(self) -> None:
        if self.left:
            self.left -= 1
            self._unanswered += 1
            self.wire.write(self._frames[0])
            self._frames.rotate(-1)

    def answered(self, data: bytearray) -> None:
        self._arrived += data
        while len(self._arrived) >= 4:
            size = int.from_bytes(self._arrived[:4], "big") + 4
            if len(self._arrived) < size:
                break
            del self._arrived[:size]
            self._unanswered -= 1
            self._send()
        if not self._unanswered and not self.left:
            self.done.set_result(None)


async def brokers_for(assignment: Assignment, directory: str) -> dict[int, Broker]:
    """Brokers that have these replicas; returns when followers wait for records at every leader."""
    brokers: dict[int, Broker] = {}
    for each in sorted({each for replicas in assignment for each in replicas}):
        await Broker(each, directory, brokers).log_dirs.load()
    for broker in brokers.values():
        broker.take_part(assignment)
    for leader in dict.fromkeys(replicas[0] for replicas in assignment):
        followers = {each for replicas in assignment if replicas[0] == leader for each in replicas[1:]}
        while brokers[leader].replicas.purgatories.follower_fetch.delayed < len(followers):
            await asyncio.sleep(0.01)
    return brokers


async def cpu_us(producers: list[Producer], shape: Shape, requests: int) -> float:
    """CPU in µs a partition's batch."""
    each = max(1, requests // shape.connections)
    gc.collect()
    began = time.process_time_ns()
    for future in [producer.produce(each) for producer in producers]:
        await future
    return (time.process_time_ns() - began) / 1000 / (each * shape.connections * shape.at_once)


async def end(brokers: dict[int, Broker], assignment: Assignment) -> None:
    """Ends the brokers. Raises `AssertionError` where something is not replicated."""
    for index, replicas in enumerate(assignment):
        partition = brokers[replicas[0]].replicas.partition(TopicPartition(TOPIC, index))
        assert partition is not None
        log = partition.local_log()
        assert log.high_watermark == log.log_end_offset, f"{log} is replicated"
    for broker in brokers.values():
        await broker.replicas.shutdown(checkpoint=False)
        await broker.tasks.end()
        broker.log_dirs.close()


def log_directory() -> str:
    return tempfile.mkdtemp(prefix="barnabas-lane-", dir="/dev/shm" if os.path.isdir("/dev/shm") else None)


async def run(shape: Shape, requests: int, rounds: int, replicas: int) -> list[float]:
    """CPU in µs a partition's batch, of each round."""
    directory = log_directory()
    try:
        assignment = [BROKERS[:replicas]] * shape.partitions
        brokers = await brokers_for(assignment, directory)
        producers = [Producer(number, shape, by_connection(brokers[1])) for number in range(shape.connections)]
        figures = [await cpu_us(producers, shape, requests) for _ in range(rounds)]
        await end(brokers, assignment)
        return figures
    finally:
        shutil.rmtree(directory)


def with_acls() -> AclAuthorizer:
    """One that allows what is asked for, by its ACLs."""
    made = AclAuthorizer()
    made.update(Resource(ResourceType.TOPIC, TOPIC), [Acl("User:*", "*", Operation.WRITE, Permission.ALLOW)])
    made.update(
        Resource(ResourceType.CLUSTER, CLUSTER_NAME), [Acl("User:*", "*", Operation.CLUSTER_ACTION, Permission.ALLOW)]
    )
    return made


def instructions(program: str, name: str, requests: int, *more: str) -> int:
    """Instructions of `program`, this one or one like it, with so many requests of the shape `name`."""
    command = ["valgrind", "--tool=none" if not requests else "--tool=cachegrind", "--cache-sim=no"]
    command += ["--cachegrind-out-file=/dev/null", sys.executable, program, name, "--rounds", "1"]
    command += ["--requests", str(requests), *more]
    environment = {**os.environ, "PYTHONHASHSEED": "0", "PYTHONDONTWRITEBYTECODE": "1"}
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found = re.search(r"I\s+refs:\s+([\d,]+)", done.stderr)
    assert found, done.stderr
    return int(found[1].replace(",", ""))


def instructions_a_request(program: str, name: str, requests: int, *more: str) -> float:
    few, many = 256, 256 + max(256, requests // 2)
    return (instructions(program, name, many, *more) - instructions(program, name, few, *more)) / (many - few)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("shapes", nargs="*", default=list(SHAPES), metavar="SHAPE", help=f"of {', '.join(SHAPES)}")
    parser.add_argument("--requests", type=int, default=2000, help="in a round, over all connections")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--instructions", action="store_true", help="count instructions, by valgrind")
    parser.add_argument("--compiled", action="store_true", help="with the hot path compiled, as in a broker's process")
    parser.add_argument("--acls", action="store_true", help="with an authorizer that allows, by ACLs")
    parser.add_argument("--replicas", type=int, choices=range(1, len(BROKERS) + 1), default=len(BROKERS))
    arguments = parser.parse_args()
    more = [f"--{name}" for name in ("acls", "compiled") if getattr(arguments, name)]
    more.append(f"--replicas={arguments.replicas}")
    if arguments.acls:
        global AUTHORIZER
        AUTHORIZER = with_acls()
    for name in arguments.shapes:
        shape = SHAPES[name]
        requests = max(shape.connections, arguments.requests // (1 if shape.at_once < 8 else shape.at_once // 4))
        if arguments.instructions:
            spent = instructions_a_request(__file__, name, requests, *more) / shape.at_once
            figure = f"{spent / 1000:8.1f} thousand instructions"
        else:
            figures = asyncio.run(
                run(
                    shape,
                    requests if arguments.rounds > 1 else arguments.requests,
                    arguments.rounds,
                    arguments.replicas,
                )
            )
            figure = f"{min(figures):8.1f} µs"
        print(f"{figure}  {name}: {shape.says}", flush=True)


if __name__ == "__main__":
    main()
