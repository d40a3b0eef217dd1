"""A client that sends several batches of a partition over one connection before the first is answered, as the producers
of Java and librdkafka do; ours waits for each answer. Some batches are in transactions.

T1: a leader takes them in order: when a batch is written, the next one is not out of order. L1: when all has healed, as
many batches as may be in flight are taken one after the other.
"""

from __future__ import annotations

import asyncio
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.produce_requests import Produced, produce_request, read_produce
from barnabas.client.transaction import Transaction
from barnabas.client.transaction_requests import TransactionIdentity
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.sentinels import ACKS_ALL
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.history import Sent
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import Action
from barnabas.wire.messages.init_producer_id import InitProducerIdRequest
from barnabas.wire.records import Record, build_batch

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

FEWEST: Final = 2
IN_FLIGHT: Final = 5
REQUEST_TIMEOUT_MS: Final = 5_000
TRANSACTION_TIMEOUT_MS: Final = 8_000
REGRETS: Final = 0.2
GETS_ON_NS: Final = 60_000_000_000
AGAIN_S: Final = 0.5
AFTERWARDS: Final = 5
MAY_FAIL: Final = 1
"""Of those, since a leader may still move."""
KEYS: Final = tuple(b"key %d" % number for number in range(9))


class Pipeliner:
    """After any error it begins again, with another producer id or in another epoch of its transactional id."""

    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.topic = str(action.arguments["topic"])
        self.is_transactional = bool(action.arguments.get("transactional"))
        self.records = action.whole("records", 60)
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self.pause_ns = IN_FLIGHT * action.duration_ns // max(1, self.records)
        self.written = 0
        self.sequences: dict[TopicPartition, int] = {}

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        producer: Transaction[Any] | None = None
        while not self._is_over():
            producer = await self._go_on(runtime, cluster, producer, FEWEST)
            await asyncio.sleep(self.chance.exponential_ns(self.pause_ns) / 1e9)
        await self.workload.healed.wait()
        await self._gets_on(runtime, cluster, producer)

    async def _gets_on(self, runtime: Runtime, cluster: ClusterClient, producer: Transaction[Any] | None) -> None:
        """L1: a full flight of batches is taken nearly every time, so it hardly ever has to begin again."""
        world = self.workload.world
        world.check("L1")
        ends_ns = world.loop.now_ns + GETS_ON_NS
        while (producer := await self._go_on(runtime, cluster, producer, IN_FLIGHT)) is None:
            if world.loop.now_ns > ends_ns:
                self.workload.judge_waiting(f"{self.client} sends {IN_FLIGHT} batches at once, and never are all taken")
                return
            await asyncio.sleep(AGAIN_S)
        failed = 0
        for _ in range(AFTERWARDS):
            producer = await self._go_on(runtime, cluster, producer, IN_FLIGHT)
            failed += producer is None
        if failed > MAY_FAIL:
            self.workload.judge_waiting(f"{failed} of {AFTERWARDS} times {IN_FLIGHT} batches at once are not all taken")

    async def _go_on(
        self, runtime: Runtime, cluster: ClusterClient, producer: Transaction[Any] | None, fewest: int
    ) -> Transaction[Any] | None:
        """Sends at least `fewest` batches; None where the producer has to begin again."""
        try:
            producer = producer or await self._begin(cluster)
            return producer if await self._burst(runtime, cluster, producer, fewest) else None
        except (KafkaError, OSError) as error:
            self.workload.failed(self.client, error)
            return None

    def _is_over(self) -> bool:
        loop = self.workload.world.loop
        return self.workload.stopping or loop.now_ns > self.ends_ns or self.written >= self.records

    async def _begin(self, cluster: ClusterClient) -> Transaction[Any]:
        self.sequences.clear()
        producer = Transaction(cluster, TransactionIdentity(self.client), timeout_ms=TRANSACTION_TIMEOUT_MS)
        if self.is_transactional:
            await producer.initialize(TRANSACTION_TIMEOUT_MS)
            self.workload.history.transactional_ids[producer.identity.producer_id] = self.client
            return producer
        given = await (await cluster.any()).send(InitProducerIdRequest(None, TRANSACTION_TIMEOUT_MS))
        if given.error_code:
            raise KafkaError(ErrorCode(given.error_code))
        producer.identity = TransactionIdentity(self.client, given.producer_id, given.producer_epoch)
        return producer

    async def _burst(self, runtime: Runtime, cluster: ClusterClient, producer: Transaction[Any], fewest: int) -> bool:
        """Sends several batches to one partition. False where the producer has to begin again."""
        known = (await cluster.refresh([self.topic])).partitions(self.topic)
        if not known:
            return True
        each = self.chance.one_of(list(known))
        connection = await cluster.leader(each)
        transaction, outcome = "", "acknowledged"
        if self.is_transactional:
            transaction = f"{self.client} {self.written + 1}"
            producer.begin()
            await producer.add([each])
        count = self.chance.whole(fewest, IN_FLIGHT)
        batches = [self._batch(runtime, each, producer, transaction) for _ in range(count)]
        transactional_id = self.client if self.is_transactional else None
        asked = [
            connection.send_nowait(
                produce_request(
                    [(each, data)], acks=ACKS_ALL, timeout_ms=REQUEST_TIMEOUT_MS, transactional_id=transactional_id
                ),
                timeout_ms=REQUEST_TIMEOUT_MS + 1_000,
            )
            for _, data in batches
        ]
        told = [await _told(answer, each) for answer in asked]
        self.are_in_order(each, told)
        is_well = all(answer is not None and answer.acknowledged for answer in told)
        if self.is_transactional:
            outcome = await _ended(producer, committed=is_well and not self.chance.happens(REGRETS))
        for (sent, _), answer in zip(batches, told, strict=True):
            if answer is not None and answer.acknowledged:
                sent.offset = answer.base_offset
                self.workload.history.on_acknowledged(sent)
            wrote = self.is_transactional or sent.offset >= 0
            sent.answered = outcome if wrote else f"unknown: {answer and answer.error.name}"
            sent.answered_ns = self.workload.world.loop.now_ns
        return is_well and not outcome.startswith("unknown")

    def _batch(
        self, runtime: Runtime, each: TopicPartition, producer: Transaction[Any], transaction: str
    ) -> tuple[Sent, bytes]:
        self.written += 1
        value, key = b"%s %d" % (self.client.encode(), self.written), self.chance.one_of(KEYS)
        sent = self.workload.history.sent[value] = Sent(
            self.client, self.written, each.topic, ACKS_ALL, True, self.workload.world.loop.now_ns,
            partition=each.partition, transaction=transaction, key=key,
        )  # fmt: skip
        sequence = self.sequences.get(each, 0)
        self.sequences[each] = sequence + 1
        batch = build_batch(
            [Record(0, runtime.clock.now_ms(), key, value, ())],
            producer_id=producer.identity.producer_id,
            producer_epoch=producer.identity.epoch,
            base_sequence=sequence,
            is_transactional=self.is_transactional,
        )
        return sent, bytes(batch)

    def are_in_order(self, each: TopicPartition, told: list[Produced | None]) -> None:
        world = self.workload.world
        for before, behind in pairwise(told):
            world.check("T1")
            if before is None or behind is None or not before.acknowledged:
                continue
            late = behind.error is ErrorCode.OUT_OF_ORDER_SEQUENCE_NUMBER
            if late or (behind.acknowledged and behind.base_offset <= before.base_offset):
                world.violated(
                    "T1", f"{self.client} has sent two batches to {each}, one behind the other: the first is written "
                    f"at {before.base_offset}, the second {behind.error.name} {behind.base_offset}", str(each),
                )  # fmt: skip


async def _told(answer: asyncio.Future[Any], each: TopicPartition) -> Produced | None:
    """The answer; None where none came."""
    try:
        return read_produce(await answer).get(each)
    except OSError:
        return None


async def _ended(producer: Transaction[Any], *, committed: bool) -> str:
    """What became of the transaction."""
    try:
        await producer.end(committed=committed)
    except (KafkaError, OSError) as error:
        return f"unknown: {error!r}"
    return "acknowledged" if committed else "aborted"
