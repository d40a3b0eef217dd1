"""A client that writes in transactions: some are slow, some are aborted, some are never ended.

Now and then the application restarts with the same transactional id.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Callable
from typing import Any

from barnabas.client.cluster import ClusterClient
from barnabas.client.produce_requests import BATCH_BYTES
from barnabas.client.transactions import State, TransactionalProducer
from barnabas.model.errors import KafkaError
from barnabas.sim.clients.history import History, Sent
from barnabas.sim.clients.sender import keys_of
from barnabas.sim.plans.chance import Chance
from barnabas.sim.plans.plan import MS, Action

COMMITTED = "acknowledged"
ABORTED = "aborted"
REGRETS = 0.3
DAWDLES = 0.3
DAWDLES_MS = 500
AT_ONE_PLACE = 0.5
"""How often all records of a transaction have one key, and so lie in one partition."""
REGRETS_LATE = 0.7
"""How often records are written before their transaction is aborted; unsent ones are dropped by the client."""
BEGINS_ANEW = 0.2
ELSEWHERE = 0.2


class Teller:
    """Writes `records` in transactions of a few each until its time is over. Each transaction's outcome is
    acknowledged, aborted or unknown, which is one of the two."""

    def __init__(self, history: History, action: Action, chance: Chance, now_ns: Callable[[], int]) -> None:
        self.history = history
        self.client = str(action.arguments["client"])
        self.transactional_id = str(action.arguments.get("transactional_id", self.client))
        self.topic = str(action.arguments["topic"])
        self.also = str(action.arguments.get("also", ""))
        """A second topic, for some records."""
        self.keys = keys_of(action)
        self.records = action.whole("records", 60)
        self.timeout_ms = action.whole("transaction_timeout_ms", 8_000)
        self.delivery_timeout_ms = action.whole("delivery_timeout_ms", 20_000)
        self.request_timeout_ms = action.whole("request_timeout_ms", 10_000)
        self.dawdle_ms = action.whole("dawdle_ms", 0)
        self.batch_bytes = action.whole("batch_bytes", BATCH_BYTES)
        self.nap_s = action.whole("nap_ms", 0) / 1e3
        self.pause_s = action.duration_ns / 1e9 / max(1, self.records)
        self.chance = chance
        self.now_ns = now_ns
        self.written = 0
        self.ended = 0
        self.producer: TransactionalProducer | None = None

    @property
    def is_a_twin(self) -> bool:
        """Whether the transactional id is another client's, which goes on."""
        return self.transactional_id != self.client

    async def work(self, cluster: ClusterClient, over: Callable[[], bool]) -> None:
        self.producer = None  # what a process had that died is gone with it
        while not over() and self.written < self.records:
            await self._step(cluster)
            await asyncio.sleep(self.chance.exponential_ns(round(2e9 * self.pause_s)) / 1e9)

    async def work_on(self, cluster: ClusterClient, transactions: int) -> bool:
        """Some more transactions when all is well; then it closes. False where it could end none."""
        self.ended = self.dawdle_ms = 0
        for _ in range(2 * transactions):
            await self._step(cluster)
        await self._leave()
        return self.ended > 0

    async def _step(self, cluster: ClusterClient) -> None:
        """One transaction, or what has to come before it."""
        if self.producer is None or self.producer.state is not State.READY:
            self.producer = await self._take_over(cluster)
            return
        await self._transaction(self.producer)
        if self.chance.happens(BEGINS_ANEW):
            await self._leave()

    async def _leave(self) -> None:
        if self.producer is not None:
            with contextlib.suppress(KafkaError, OSError):
                await self.producer.close()
            self.producer = None

    async def _take_over(self, cluster: ClusterClient) -> TransactionalProducer | None:
        producer = TransactionalProducer(
            cluster,
            self.transactional_id,
            transaction_timeout_ms=self.timeout_ms,
            delivery_timeout_ms=self.delivery_timeout_ms,
            request_timeout_ms=self.request_timeout_ms,
            batch_bytes=self.batch_bytes,
        )
        try:
            await producer.init_transactions()
        except (KafkaError, OSError):
            return None
        self.history.transactional_ids[producer.identity.producer_id] = self.transactional_id
        return producer

    async def _transaction(self, producer: TransactionalProducer) -> None:
        sent: list[Sent] = []
        regrets, key = self.chance.happens(REGRETS), self._key()
        try:
            await producer.begin_transaction()
            at_one_place = self.chance.happens(AT_ONE_PLACE)
            for _ in range(self.chance.whole(1, 5)):
                await self._append(producer, sent, key if at_one_place else self._key())
                if self.dawdle_ms or self.chance.happens(DAWDLES):
                    await producer.flush()
                    await asyncio.sleep(self.chance.exponential_ns((self.dawdle_ms or DAWDLES_MS) * MS) / 1e9)
            if self.nap_s or (regrets and self.chance.happens(REGRETS_LATE)):
                await producer.flush()
            if self.nap_s:
                nap_s, self.nap_s = self.nap_s, 0
                await asyncio.sleep(nap_s)
            if regrets:
                await producer.abort_transaction()
            else:
                await producer.commit_transaction()
            self._settle(sent, ABORTED if regrets else COMMITTED)
        except (KafkaError, OSError) as error:
            outcome = f"unknown: {error!r}"
            if producer.state in (State.SPOILT, State.IN_TRANSACTION):
                with contextlib.suppress(KafkaError, OSError):
                    await producer.abort_transaction()
                    outcome = ABORTED
            self._settle(sent, outcome)

    def _key(self) -> bytes:
        return self.chance.one_of(self.keys)

    async def _append(self, producer: TransactionalProducer, sent: list[Sent], key: bytes) -> None:
        self.written += 1
        value = b"%s %d" % (self.client.encode(), self.written)
        transaction = sent[0].transaction if sent else f"{self.transactional_id} {self.written} of {self.client}"
        topic = self.also if self.also and self.chance.happens(ELSEWHERE) else self.topic
        each = Sent(self.client, self.written, topic, -1, True, self.now_ns(), transaction=transaction)
        self.history.sent[value] = each
        sent.append(each)
        each.key = key
        delivered = await producer.append(topic, value, key=each.key)

        def told(done: asyncio.Future[Any]) -> None:
            if not done.cancelled() and done.exception() is None:
                each.partition, each.offset = done.result().partition, done.result().offset
                self.history.on_acknowledged(each)

        delivered.add_done_callback(told)

    def _settle(self, sent: list[Sent], outcome: str) -> None:
        self.ended += outcome in (COMMITTED, ABORTED)
        for record in sent:
            record.answered, record.answered_ns = outcome, self.now_ns()
