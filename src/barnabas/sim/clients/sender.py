"""A client that writes distinct values to a topic for some time, and a few more when all has healed."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.produce_requests import BATCH_BYTES, DELIVERY_TIMEOUT_MS, REQUEST_TIMEOUT_MS
from barnabas.client.producer import Producer
from barnabas.client.producing import NO_PRODUCER, PartitionQueue
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.history import Sent
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

AFTERWARDS: Final = 4
"""How many more each client writes when all has healed: records, or transactions."""
AFTERWARDS_NS: Final = 20_000_000
GETS_ON_NS: Final = 60_000_000_000
"""For records to be given up at their delivery timeout, and for a request to a broker that vanished to end at its own:
30 s."""


KEYS: Final = (b"\0\0\0\0", b"\0\0\0\1", b"a key of more than 16 bytes", *(b"key %d" % number for number in range(21)))
"""The first two are the keys of end markers (KAFKA-14055)."""


def keys_of(action: Action) -> Sequence[bytes]:
    """The keys that the client uses: the first `keys`, or by default all but the odd ones."""
    return KEYS[: action.whole("keys", 0)] or KEYS[3:]


class Sender:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.action = action
        self.client = str(action.arguments["client"])
        self.topic = str(action.arguments["topic"])
        self.acks = action.whole("acks", -1)
        self.idempotent = bool(action.arguments.get("idempotent", self.acks == -1))
        self.records = action.whole("records", 100)
        self.padding = b"." * action.whole("bytes", 0)
        self.skew_ms = action.whole("skew_ms", 0)
        self.keys = keys_of(action)
        self.headed = bool(action.arguments.get("headers"))
        self.keyless = action.whole("keyless", 0) / 100
        self.at_once = action.whole("at_once", 1)
        self.tombstones = action.whole("tombstones", 0) / 100
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self.pause_ns = max(1, action.duration_ns // max(1, self.records))
        self._pending: list[asyncio.Future[Any]] = []
        self._last: asyncio.Future[Any] | None = None
        """The last record's answer, if it was sent."""

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        loop, producer = self.workload.world.loop, self._producer(cluster)
        for number in range(self.records):
            if loop.now_ns > self.ends_ns or self.workload.stopping:
                break
            await self._send(producer, runtime, number)
        await self.workload.healed.wait()
        self.pause_ns = AFTERWARDS_NS
        for number in range(self.records, self.records + AFTERWARDS):
            await self._send(producer, runtime, number)
        for future in self._pending:
            with suppress(KafkaError, OSError):
                await future
        await self._gets_on(producer, runtime)
        await producer.close()

    async def _gets_on(self, producer: Producer, runtime: Runtime) -> None:
        """L1: when all has healed, what it sends is written. It may first be told of earlier failures."""
        world, number = self.workload.world, self.records + AFTERWARDS
        world.check("L1")
        ends_ns = world.loop.now_ns + GETS_ON_NS
        while not await self._is_answered():
            if world.loop.now_ns > ends_ns:
                world.violated("L1", f"{self.client} writes nothing to {self.topic}, though all has healed")
                return
            await self._send(producer, runtime, number)
            number += 1

    async def _is_answered(self) -> bool:
        """Whether the last record was sent, and is acknowledged or surely not written."""
        try:
            await (self._last or asyncio.sleep(0))
        except KafkaError as error:
            return error.code in _SURELY_NOT
        except OSError:
            return False
        return self._last is not None

    def _value(self, number: int) -> bytes:
        return b"%s %d" % (self.client.encode(), number) + self.padding

    def _producer(self, cluster: ClusterClient) -> Producer:
        action, sequence = self.action, self.action.whole("sequence", 0)
        kind = _FromSequence if sequence else Producer
        producer = kind(
            cluster,
            acks=self.acks,
            idempotent=self.idempotent,
            linger_ms=action.whole("linger_ms", 2),
            request_timeout_ms=action.whole("request_timeout_ms", REQUEST_TIMEOUT_MS),
            delivery_timeout_ms=action.whole("delivery_timeout_ms", DELIVERY_TIMEOUT_MS),
            batch_bytes=action.whole("batch_bytes", BATCH_BYTES),
            compression=str(action.arguments.get("compression", "none")),
        )
        if isinstance(producer, _FromSequence):
            producer.first_sequence = sequence
        return producer

    async def _send(self, producer: Producer, runtime: Runtime, number: int) -> None:
        history, loop, chance = self.workload.history, self.workload.world.loop, self.chance
        sent = history.sent[(value := self._value(number))] = Sent(
            self.client, number, self.topic, self.acks, self.idempotent, loop.now_ns
        )
        sent.key = self._key()
        if self.skew_ms:
            sent.timestamp = runtime.clock.now_ms() + chance.whole(-self.skew_ms, self.skew_ms)
        if self.headed:
            sent.headers = ("sender", self.client.encode()), ("number", b"%d" % number), ("nothing", None)
        try:
            # A producer that waits for a deleted topic sends nothing meanwhile.
            future = await producer.append(
                self.topic, value, key=sent.key, headers=sent.headers,
                timestamp=sent.timestamp if self.skew_ms else None,
            )  # fmt: skip
            if self.tombstones and chance.happens(self.tombstones):
                self._pending.append(await producer.append(self.topic, None, key=self._key()))
        except (KafkaError, OSError):
            sent.answered, self._last = "never sent", None
            await asyncio.sleep(0.5)
            return
        future.add_done_callback(lambda done: self._settle(sent, done))
        self._last = future
        self._pending.append(future)
        if (number + 1) % self.at_once == 0:
            await asyncio.sleep(chance.exponential_ns(self.pause_ns * self.at_once) / 1e9)

    def _key(self) -> bytes | None:
        return None if self.keyless and self.chance.happens(self.keyless) else self.chance.one_of(self.keys)

    def _may_be_refused(self, sent: Sent, error: KafkaError) -> None:
        """L1: its records are valid, except for records without a key in compacted topics."""
        self.workload.world.check("L1")
        if error.code is ErrorCode.INVALID_RECORD and sent.key is not None:
            self.workload.world.violated("L1", f"{self.client} is told that its record is invalid: {error!r}")

    def _settle(self, sent: Sent, future: asyncio.Future[Any]) -> None:
        sent.answered_ns = self.workload.world.loop.now_ns
        error = future.exception()
        if error is None:
            delivered = future.result()
            sent.answered = "acknowledged"
            sent.partition, sent.offset = delivered.partition, delivered.offset
            self.workload.history.on_acknowledged(sent)
        elif isinstance(error, KafkaError) and error.code in _SURELY_NOT:
            sent.answered = f"refused: {error.code.name}"
            self._may_be_refused(sent, error)
        else:
            sent.answered = f"unknown: {error!r}"


class _FromSequence(Producer):
    """A producer that seems to have written very much already."""

    first_sequence = 0

    async def _prepare(self, ready: Sequence[PartitionQueue]) -> None:
        fresh = [queue for queue in ready if queue.producer_id == NO_PRODUCER]
        await super()._prepare(ready)
        for queue in fresh:
            queue.next_sequence = self.first_sequence


_SURELY_NOT: Final = frozenset({ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.INVALID_REQUIRED_ACKS})
"""Errors after which nothing was written. No error that is retried is one: an earlier attempt may have been written."""
