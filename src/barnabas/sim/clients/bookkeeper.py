"""A client that commits offsets for a group without members, and deletes them, as operators' tools do.

G1: in the end the group has what was written last, whoever coordinates it by then. A request that got an error or no
answer, or was sent again, may have been done, and may be done late. Of a commit within a transaction and a later plain
one, the plain one counts, however and whenever the transaction ends: it is the later record. A deleted offset may come
back where its tombstone was not replicated within ``offsets.commit.timeout.ms``: the coordinator has forgotten the
offset by then and says so. Kafka's coordinator never waits (``GroupMetadataManager.cleanupGroupMetadata``).
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final

from barnabas.client.admin import Admin
from barnabas.client.asking import RETRY_BACKOFF_MS
from barnabas.client.cluster import ClusterClient
from barnabas.client.offsets import CommittedOffset
from barnabas.client.transaction import Transaction
from barnabas.client.transaction_requests import ConsumerGroupMetadata, TransactionIdentity, errors_of
from barnabas.client.transactions import TransactionalProducer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.doors import Runtime
from barnabas.sim.clients.commits_in_order import CommitsInOrder
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action
from barnabas.wire.messages.offset_commit import OffsetCommitRequest

if TYPE_CHECKING:
    from barnabas.sim.clients.workload import Workload

PAUSE_NS: Final = 800_000_000
NOTHING: Final = -1
DELETES: Final = 0.35
DELETES_ALL: Final = 0.1
IN_TRANSACTIONS: Final = 0.4
"""How often it commits both within a transaction and after it."""
ABORTS: Final = 0.3
TRANSACTION_TIMEOUT_MS: Final = 5_000
STORIES: Final = 0.7
"""How often a `thorough` one has several transactions open for one partition, and writes and deletes there
meanwhile."""
DAWDLES_NS: Final = 60_000_000
KEPT_MS: Final = 800
"""The longest retention time that it gives an offset of its own."""
BRIEFLY: Final = "write for a moment"
RETENTION_VERSION: Final = 3
"""The last version of OffsetCommit that has a retention time."""


class Bookkeeper:
    def __init__(self, workload: Workload, action: Action) -> None:
        self.workload = workload
        self.client = str(action.arguments["client"])
        self.group = f"books of {self.client}"
        self.topic = str(action.arguments["topic"])
        self.chance = Chance(workload.world.seed, f"action/{action.number}")
        self.ends_ns = workload.world.loop.now_ns + action.duration_ns
        self.thorough = bool(action.arguments.get("thorough"))
        self.groups = [self.group, *([str(also)] if (also := action.arguments.get("also")) else [])]
        """Those that a transaction commits for when this one is `thorough`."""
        self.pause_ns = action.whole("pause_ms", PAUSE_NS // MS) * MS
        self.written: dict[TopicPartition, int] = {}
        """By partition: the offset that was acknowledged last, `NOTHING` after a deletion."""
        self.perhaps: dict[TopicPartition, dict[int, None]] = {}
        """By partition: offsets that may have been written, or may be still."""
        self.brief: dict[TopicPartition, None] = {}
        """Partitions whose last acknowledged offset has a short retention time."""
        self.unburied: dict[TopicPartition, int] = {}
        """By partition: the offset before a deletion that took as long as the coordinator waits for its tombstones."""
        self._number = 0
        self._unsettled = False
        """Whether a transaction may not be over everywhere. Then nothing is deleted: its end would lie behind the
        deletion in the group's log."""

    async def work(self, runtime: Runtime, cluster: ClusterClient) -> None:
        admin = Admin(cluster)
        while not self.workload.stopping and self.workload.world.loop.now_ns < self.ends_ns:
            await asyncio.sleep(self.chance.exponential_ns(self.pause_ns) / 1e9)
            try:
                partitions = (await cluster.refresh([self.topic])).partitions(self.topic)
            except (KafkaError, OSError):
                continue
            if partitions and (not self._unsettled or await self._settle(cluster) is not None):
                if self.thorough and self.chance.happens(STORIES):
                    await self._tell(admin, self.chance.one_of(partitions))
                else:
                    await self._write(admin, self.chance.one_of(partitions))

    async def _settle(self, cluster: ClusterClient) -> TransactionalProducer | None:
        """Initializes its transactional id again, which waits for the end of the transaction before."""
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
        """Commits the last value. Of two, the first is committed within a transaction that ends after the second."""
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
                self.brief.pop(each, None)
                if values != [NOTHING]:
                    self.unburied.pop(each, None)
                elif before != NOTHING and took_ms >= self._commit_timeout_ms():
                    self.unburied[each] = before
            if not is_done or took_ms >= RETRY_BACKOFF_MS:
                self.perhaps.setdefault(each, {}).update(dict.fromkeys(values))

    async def _tell(self, admin: Admin, place: TopicPartition) -> None:
        """Opens one or two transactions for one partition, writes and deletes there meanwhile, and ends them in some
        order. Where a request may have been done twice every value may count."""
        chance, ledger = self.chance, CommitsInOrder(self.written.get(place, NOTHING))
        names = [self.client, f"{self.client} too"][: chance.whole(1, 2)]
        meanwhile = chance.shuffled(["write", "delete", BRIEFLY])[: chance.whole(0, 3)]
        asked, is_sure, brief = {NOTHING: None, ledger.value: None}, True, NOTHING
        self._unsettled = True
        try:
            open_now = {name: await self._begun(admin.cluster, name) for name in names}
            for step in chance.shuffled([*names, *meanwhile]):
                await asyncio.sleep(chance.exponential_ns(DAWDLES_NS) / 1e9)
                self._number += 1
                asked[self._number] = None
                brief = self._number if step == BRIEFLY else brief
                is_sure = await self._step(admin, place, step, open_now.get(step), ledger) and is_sure
            for name in chance.shuffled(names):
                await asyncio.sleep(chance.exponential_ns(DAWDLES_NS) / 1e9)
                committed = not chance.happens(ABORTS)
                await open_now[name].end(committed=committed)
                ledger.end(name, committed=committed)
                is_sure = is_sure and not open_now[name].answer_lost
        except (KafkaError, OSError):
            is_sure = False
        if not is_sure:
            self.perhaps.setdefault(place, {}).update(asked)
        elif ledger.value != self.written.get(place, NOTHING):
            self.written[place] = ledger.value
            self.unburied.pop(place, None)
            self.brief.pop(place, None)
            if ledger.value == brief:
                self.brief[place] = None

    async def _begun(self, cluster: ClusterClient, name: str) -> Transaction[Any]:
        transaction = Transaction(cluster, TransactionIdentity(name), timeout_ms=TRANSACTION_TIMEOUT_MS)
        await transaction.initialize(TRANSACTION_TIMEOUT_MS)
        self.workload.history.transactional_ids[transaction.identity.producer_id] = name
        transaction.begin()
        return transaction

    async def _step(
        self,
        admin: Admin,
        place: TopicPartition,
        step: str,
        transaction: Transaction[Any] | None,
        ledger: CommitsInOrder,
    ) -> bool:
        """Whether the step is done, and was requested only once."""
        value, begun_ns = self._number, self.workload.world.loop.now_ns
        if transaction is not None:
            for group in self.chance.shuffled(self.groups):
                await transaction.add_offsets(ConsumerGroupMetadata(group), {place: CommittedOffset(value)})
            ledger.write(value, step)
            return not transaction.answer_lost
        if step == "delete":
            error = (await admin.delete_group_offsets(self.group, [place])).get(place)
            ledger.delete()
        elif step == "write":
            error = (await admin.alter_group_offsets(self.group, {place: CommittedOffset(value)})).get(place)
            ledger.write(value)
        else:
            error = await self._write_briefly(admin.cluster, place, value)
            ledger.write(value)
        return error is None and (self.workload.world.loop.now_ns - begun_ns) / MS < RETRY_BACKOFF_MS

    async def _write_briefly(self, cluster: ClusterClient, place: TopicPartition, value: int) -> KafkaError | None:
        """Commits an offset that expires soon, unless another one is written there."""
        coordinator = await cluster.coordinator(self.group)
        partitions = [OffsetCommitRequest.OffsetCommitRequestPartition(place.partition, value, committed_metadata="")]
        topics = [OffsetCommitRequest.OffsetCommitRequestTopic(place.topic, partitions)]
        request = OffsetCommitRequest(self.group, -1, "", None, self.chance.whole(1, KEPT_MS), topics)
        answer = await coordinator.send(request, RETENTION_VERSION)
        return next((KafkaError(code) for code in errors_of(answer)), None)

    def _commit_timeout_ms(self) -> int:
        brokers = self.workload.world.brokers.values()
        return min((broker.config.number("offsets.commit.timeout.ms") for broker in brokers), default=0)
