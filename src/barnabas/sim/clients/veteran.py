"""An old producer, which writes messages of magic 0 and 1, single or in a compressed wrapper, with Produce 0 to 2. An
acknowledged message is as durable as any other record.

It repeats nothing that was not answered, because an old broker could not detect the repetition.
"""

from __future__ import annotations

import asyncio
import zlib
from struct import Struct
from typing import TYPE_CHECKING, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.connection import Connection
from barnabas.client.produce_requests import produce_request, read_produce
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import ACKS_ALL
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.history import Sent
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action
from barnabas.wire.compression import Codec, compress
from barnabas.wire.message_sets import build_message_set
from barnabas.wire.records import Record

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

TIMEOUT_MS: Final = 4_000
AFTERWARDS: Final = 4
KEYS: Final = tuple(b"key %d" % number for number in range(9))
_MAGIC_1_FROM: Final = 2
_CODECS: Final = (Codec.NONE, Codec.NONE, Codec.GZIP, Codec.SNAPPY)
_REFUSED: Final = (
    ErrorCode.MESSAGE_TOO_LARGE, ErrorCode.INVALID_RECORD, ErrorCode.NOT_ENOUGH_REPLICAS, ErrorCode.INVALID_TIMESTAMP,
)  # fmt: skip
"""After these errors nothing is written."""
_PREFIX: Final = Struct(">qi")
_MAGIC_0: Final = Struct(">bb")
_MAGIC_1: Final = Struct(">bbq")
_CRC: Final = Struct(">I")
_LENGTH: Final = Struct(">i")


class Veteran:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.topic = str(action.arguments["topic"])
        self.records = action.whole("records", 40)
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self.pause_ns = 2 * action.duration_ns // max(1, self.records)
        self.written = 0

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        loop = self.workload.world.loop
        while self.written < self.records and loop.now_ns < self.ends_ns and not self.workload.stopping:
            await self._writes(runtime, cluster)
            await asyncio.sleep(self.chance.exponential_ns(self.pause_ns) / 1e9)
        await self.workload.healed.wait()
        for _ in range(AFTERWARDS):
            await self._writes(runtime, cluster)

    async def _writes(self, runtime: Runtime, cluster: ClusterClient) -> None:
        try:
            partitions = (await cluster.refresh([self.topic])).partitions(self.topic)
            if partitions:
                each = self.chance.one_of(list(partitions))
                await self._write(runtime, await cluster.leader(each), each)
        except (KafkaError, OSError) as error:
            self.workload.failed(self.client, error)

    async def _write(self, runtime: Runtime, leader: Connection, each: TopicPartition) -> None:
        chance = self.chance
        version = chance.whole(0, _MAGIC_1_FROM)
        magic = 1 if version >= _MAGIC_1_FROM and chance.happens(0.8) else 0
        sent = [self._another(runtime, each, magic) for _ in range(chance.whole(1, 3))]
        records = [
            Record(offset, one.timestamp, one.key, b"%s %d" % (self.client.encode(), one.number))
            for offset, one in enumerate(sent)
        ]
        codec = chance.one_of(_CODECS)
        messages = build_message_set(records, magic)
        request = produce_request([(each, _wrapped(messages, records, magic, codec))], timeout_ms=TIMEOUT_MS)
        try:
            answer = read_produce(await leader.send(request, version, TIMEOUT_MS + 1_000))[each]
        except OSError as error:
            self._are_answered(sent, f"unknown: {error!r}")
            return
        if answer.acknowledged:
            self._are_answered(sent, "acknowledged", answer.base_offset)
        else:
            kind = "refused" if answer.error in _REFUSED else "unknown"
            self._are_answered(sent, f"{kind}: {answer.error.name}")

    def _another(self, runtime: Runtime, each: TopicPartition, magic: int) -> Sent:
        self.written += 1
        sent = self.workload.history.sent[b"%s %d" % (self.client.encode(), self.written)] = Sent(
            self.client, self.written, each.topic, ACKS_ALL, False, self.workload.world.loop.now_ns,
            partition=each.partition, key=self.chance.one_of(KEYS),
        )  # fmt: skip
        if magic:
            sent.timestamp = runtime.clock.now_ms() - self.chance.whole(0, 500)
        return sent

    def _are_answered(self, sent: list[Sent], answered: str, base_offset: int = -1) -> None:
        for number, one in enumerate(sent):
            one.answered, one.answered_ns = answered, self.workload.world.loop.now_ns
            if base_offset >= 0:
                one.offset = base_offset + number
                self.workload.history.on_acknowledged(one)


def _wrapped(messages: bytes, records: list[Record], magic: int, codec: Codec) -> bytes:
    """The messages in one that holds them compressed, or as they are."""
    if codec is Codec.NONE:
        return messages
    youngest = max(record.timestamp for record in records)
    head = _MAGIC_1.pack(1, codec, youngest) if magic else _MAGIC_0.pack(0, codec)
    value = compress(codec, messages)
    body = head + _LENGTH.pack(-1) + _LENGTH.pack(len(value)) + value
    return _PREFIX.pack(len(records) - 1, _CRC.size + len(body)) + _CRC.pack(zlib.crc32(body)) + body
