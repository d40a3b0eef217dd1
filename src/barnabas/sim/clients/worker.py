"""Workers that read, transform and write exactly once (KIP-447); T6 judges the results."""

from __future__ import annotations

import asyncio
import contextlib
import hashlib
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import READ_COMMITTED
from barnabas.client.transactions import State, TransactionalProducer
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.readers import Reader
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, RESULTS, WORKERS, Action
from barnabas.sim.world.world import World

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

DAWDLES: Final = 0.3
"""How often a slow worker waits before it commits."""
TAKEN_MAX: Final = 10
"""Records of a transaction. Their results are one batch for each partition; where that is too large for a segment, it
takes half as many from then on."""


def result(place: bytes, value: bytes) -> bytes:
    """The result of a record: its partition and offset, and a digest, so that it is small however large the record
    is."""
    return place + b" of " + hashlib.blake2b(value, digest_size=8).hexdigest().encode()


class Worker:
    """Writes one result for each record that it is given; the value names the record."""

    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.topic = str(action.arguments["topic"])
        self.timeout_ms = action.whole("transaction_timeout_ms", 8_000)
        self.delivery_timeout_ms = action.whole("delivery_timeout_ms", 20_000)
        self.session_timeout_ms = action.whole("session_timeout_ms", 6_000)
        self.dawdle_ns = action.whole("dawdle_ms", 0) * MS
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.taken_max = TAKEN_MAX

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        producer: TransactionalProducer | None = None
        while not self.workload.stopping:
            try:
                if producer is None or producer.state is not State.READY:
                    producer = await self._take_over(cluster)
                await self._transform(cluster, producer)
            except (KafkaError, OSError, ValueError) as error:
                self.workload.failed(self.client, error)
                if isinstance(error, KafkaError) and error.code is ErrorCode.RECORD_LIST_TOO_LARGE:
                    self.taken_max = max(1, self.taken_max // 2)
                if producer is not None and producer.state in (State.SPOILT, State.IN_TRANSACTION):
                    with contextlib.suppress(KafkaError, OSError):
                        await producer.abort_transaction()
                await asyncio.sleep(0.3)
        if producer is not None:
            with contextlib.suppress(KafkaError, OSError):
                await producer.close()

    async def _take_over(self, cluster: ClusterClient) -> TransactionalProducer:
        producer = TransactionalProducer(
            cluster, self.client, transaction_timeout_ms=self.timeout_ms, delivery_timeout_ms=self.delivery_timeout_ms
        )
        await producer.init_transactions()
        self.workload.history.transactional_ids[producer.identity.producer_id] = self.client
        return producer

    async def _transform(self, cluster: ClusterClient, producer: TransactionalProducer) -> None:
        """Records that were given and not committed are given again when a worker begins again, this one or another."""
        consumer = Consumer(
            cluster, group=WORKERS, isolation_level=READ_COMMITTED, max_wait_ms=300,
            session_timeout_ms=self.session_timeout_ms, max_poll_interval_ms=20_000, metadata_max_age_ms=3_000,
        )  # fmt: skip
        await consumer.subscribe([self.topic])
        self.workload.reading[self.client] = Reader(consumer, WORKERS, (self.topic,), committed=True)
        while not self.workload.stopping:
            taken = await consumer.poll(300, max_records=self.taken_max)
            if not taken:
                continue
            await producer.begin_transaction()
            for topic, number, record in taken:
                place = b"%s-%d@%d" % (topic.encode(), number, record.offset)
                await producer.append(RESULTS, result(place, record.value or b""), key=place)
            await producer.send_offsets_to_transaction(consumer.positions(), consumer.group_metadata())
            if self.dawdle_ns and not self.workload.healed.is_set() and self.chance.happens(DAWDLES):
                await asyncio.sleep(self.chance.exponential_ns(self.dawdle_ns) / 1e9)
            await producer.commit_transaction()
        await consumer.close()


def every_record_has_one_result(
    world: World,
    counting: Mapping[tuple[str, int], bytes],
    sources: Mapping[str, int],
    may_be_lost: Callable[[], bool],
    deleted_to: Callable[[str], int] = lambda partition: 0,
    cleaned_to: Callable[[str], int] = lambda partition: 0,
) -> None:
    """T6: each record below the workers' committed offset has one result that counts, and no record has more.

    `counting` are the records that count, by partition and offset; `sources` the group's committed offsets. Records
    that a leader deleted, up to `deleted_to`, may be back with the next one, and were given to nobody. Up to
    `cleaned_to` the next leader may not have cleaned its copy yet.
    """
    results: dict[bytes, list[tuple[str, int]]] = {}
    for place, value in sorted(counting.items()):
        if place[0].rpartition("-")[0] == RESULTS:
            results.setdefault(value, []).append(place)
    for (partition, offset), value in sorted(counting.items()):
        if not deleted_to(partition) <= offset < sources.get(partition, -1):
            continue
        world.check("T6")
        there = results.get(result(b"%s@%d" % (partition.encode(), offset), value), [])
        if len(there) != 1 and (may_be_lost() or (not there and offset < cleaned_to(partition))):
            world.waive("T6")
        elif len(there) != 1:
            world.violated("T6", f"of {partition}@{offset} count {len(there)} results: {there}", partition)
