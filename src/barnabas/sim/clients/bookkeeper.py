"""Somebody who commits for a group without members, and deletes what is committed, as operators' tools do.

G1: what the group has in the end is what was written last, whoever coordinates it by then. What got no answer, or an
error, or was sent again, may have been done, and may be done late. Of a commit within a transaction and a plain one
behind it the plain one counts, however and whenever the transaction ends: the later record of the two. What was deleted
may come back where the tombstones were not replicated within ``offsets.commit.timeout.ms``: the coordinator has
forgotten it by then, and says so. Kafka's never waits (``GroupMetadataManager.cleanupGroupMetadata``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Final

from barnabas.client.admin import Admin
from barnabas.client.asking import RETRY_BACKOFF_MS
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import CommittedOffset
from barnabas.client.transactions import TransactionalProducer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

PAUSE_NS: Final = 800_000_000
NOTHING: Final = -1
DELETES: Final = 0.35
DELETES_ALL: Final = 0.1
IN_TRANSACTIONS: Final = 0.4
"""How often it commits both within a transaction and behind it."""
ABORTS: Final = 0.3
TRANSACTION_TIMEOUT_MS: Final = 5_000


class Bookkeeper:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.group = f"books of {self.client}"
        self.topic = str(action.arguments["topic"])
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self.written: dict[TopicPartition, int] = {}
        """What was acknowledged last, `NOTHING` where that was a deletion."""
        self.perhaps: dict[TopicPartition, dict[int, None]] = {}
        """What may have been written, or may be still."""
        self.unburied: dict[TopicPartition, int] = {}
        """What was there before a deletion that took as long as its tombstones are waited for."""
        self._number = 0
        self._unsettled = False
        """Whether a transaction may not be over everywhere. Nothing is deleted meanwhile: its end would lie behind
        that in the log of the groups."""

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        while not self.workload.stopping and self.workload.world.loop.now_ns < self.ends_ns:
            await asyncio.sleep(self.chance.exponential_ns(PAUSE_NS) / 1e9)
            try:
                partitions = (await cluster.refresh([self.topic])).partitions(self.topic)
            except (KafkaError, OSError):
                continue
            if partitions and (not self._unsettled or await self._settle(cluster) is not None):
                await self._write(admin, self.chance.one_of(partitions))

    async def _settle(self, cluster: ClusterClient) -> TransactionalProducer | None:
        """Takes its transactional id anew, which waits for the end of the transaction before."""
        producer = TransactionalProducer(
            cluster,
            self.client,
            transaction_timeout_ms=TRANSACTION_TIMEOUT_MS,
            delivery_timeout_ms=TRANSACTION_TIMEOUT_MS,
        )
        try:
            await producer.init_transactions()
        except (KafkaError, OSError):
            return None
        self.workload.history.transactional_ids[producer.identity.producer_id] = self.client
        self._unsettled = False
        return producer

    async def _commit(self, admin: Admin, place: TopicPartition, values: list[int]) -> KafkaError | None:
        """The last of the values; of two the first within a transaction that ends behind the second."""
        producer = await self._settle(admin.cluster) if len(values) > 1 else None
        if producer is not None:
            self._unsettled = True
            await producer.begin_transaction()
            await producer.send_offsets_to_transaction({place: values[0]}, self.group)
        error = (await admin.alter_group_offsets(self.group, {place: CommittedOffset(values[-1])})).get(place)
        if producer is not None:
            await (producer.abort_transaction() if self.chance.happens(ABORTS) else producer.commit_transaction())
        return error

    async def _write(self, admin: Admin, place: TopicPartition) -> None:
        places, values, error, begun_ns = [place], [NOTHING], None, self.workload.world.loop.now_ns
        try:
            if self.written and self.chance.happens(DELETES_ALL):
                places = list({**self.written, **self.perhaps})
                await admin.delete_group(self.group)
            elif self.written and self.chance.happens(DELETES):
                error = (await admin.delete_group_offsets(self.group, places)).get(place)
            else:
                count = 2 if self.chance.happens(IN_TRANSACTIONS) else 1
                values = [self._number + 1 + each for each in range(count)]
                self._number = values[-1]
                error = await self._commit(admin, place, values)
            is_done = error is None
        except (KafkaError, OSError):
            is_done = False
        took_ms = (self.workload.world.loop.now_ns - begun_ns) / MS
        for each in places:
            if is_done:
                before, self.written[each] = self.written.get(each, NOTHING), values[-1]
                if values != [NOTHING]:
                    self.unburied.pop(each, None)
                elif before != NOTHING and took_ms >= self._commit_timeout_ms():
                    self.unburied[each] = before
            if not is_done or took_ms >= RETRY_BACKOFF_MS:
                self.perhaps.setdefault(each, {}).update(dict.fromkeys(values))

    def _commit_timeout_ms(self) -> int:
        brokers = self.workload.world.brokers.values()
        return min((broker.config.number("offsets.commit.timeout.ms") for broker in brokers), default=0)
