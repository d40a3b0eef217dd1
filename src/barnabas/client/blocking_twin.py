"""The client for programs without coroutines: the same objects with blocking calls (``blocking.connect``).

An event loop on a thread of its own does the work; heartbeats and senders go on while the caller does something else. A
rebalance callback runs in the thread that polls, and may call the consumer.
"""

from __future__ import annotations

import asyncio
import concurrent.futures
import contextlib
import queue
import re
import threading
import time
from collections import deque
from collections.abc import Callable, Coroutine, Generator, Iterable, Iterator, Mapping
from contextvars import ContextVar
from functools import wraps
from typing import Any, Final, Self, TypeVar, Unpack

from barnabas.client.admin import Admin
from barnabas.client.closing import Closing
from barnabas.client.connected import Cluster, ConsumerOptions, ProducerOptions, TransactionOptions
from barnabas.client.consumer import Consumer, RebalanceCallback
from barnabas.client.fetcher import ConsumerClosed
from barnabas.client.offsets import CommittedOffset, ListedOffset
from barnabas.client.positions import ConsumerRecord
from barnabas.client.producer import Delivered, Headers, Producer
from barnabas.client.transaction_requests import ConsumerGroupMetadata
from barnabas.client.transactions import TransactionalProducer
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime

__all__ = ["SyncAdmin", "SyncCluster", "SyncConsumer", "SyncProducer", "SyncTransactionalProducer"]

APPENDS_MAX: Final = 10_000
"""How many records may wait for the loop before `append` waits, too."""
ITERATION_RECORDS: Final = 500
_ITERATION_MS: Final = 60_000

T = TypeVar("T")
_Job = Callable[[], None]


_jobs: ContextVar[queue.SimpleQueue[_Job | None]] = ContextVar("jobs")
"""Work that the loop hands to the calling thread while that waits; each call has its own queue."""


class _Loop:
    """An event loop on its own thread, and callers that wait for its results."""

    def __init__(self) -> None:
        self.loop = asyncio.new_event_loop()
        self._thread = threading.Thread(target=self.loop.run_forever, name="barnabas-client", daemon=True)
        self._thread.start()

    @property
    def is_a_forks(self) -> bool:
        """Whether this process was forked from the one that has the thread."""
        return not self._thread.is_alive() and not self.is_closed

    @property
    def is_closed(self) -> bool:
        return self.loop.is_closed()

    def begin(self, story: Coroutine[Any, Any, T]) -> concurrent.futures.Future[T]:
        """Runs `story` on the loop, and waits for nothing."""
        self._check(story)
        return asyncio.run_coroutine_threadsafe(story, self.loop)

    def _check(self, story: Coroutine[Any, Any, Any]) -> None:
        refusal = "The client is closed." if self.is_closed else ""
        if self.is_a_forks:
            refusal = "This client was made before the process was forked: make one in each process."
        if refusal:
            story.close()
            raise RuntimeError(refusal)

    def call(self, story: Coroutine[Any, Any, T]) -> T:
        """Runs `story` on the loop. Its callbacks run here, in the thread that waits."""
        self._check(story)
        jobs: queue.SimpleQueue[_Job | None] = queue.SimpleQueue()
        future = self.begin(self._with(jobs, story))
        future.add_done_callback(lambda _: jobs.put(None))
        try:
            while (job := jobs.get()) is not None:
                job()
        except BaseException:
            future.cancel()
            raise
        return future.result()

    async def _with(self, jobs: queue.SimpleQueue[_Job | None], story: Coroutine[Any, Any, T]) -> T:
        _jobs.set(jobs)
        return await story

    def callback(self, told: Callable[[list[TopicPartition]], Any] | None) -> RebalanceCallback | None:
        """Wraps the callback `told`: the loop calls the wrapper, the waiting thread runs `told`."""
        if told is None:
            return None

        @wraps(told)
        async def in_the_callers_thread(partitions: list[TopicPartition]) -> None:
            over: concurrent.futures.Future[None] = concurrent.futures.Future()

            def job() -> None:
                try:
                    told(partitions)
                except Exception as error:  # a KeyboardInterrupt stays in the caller: it would end the loop's thread
                    over.set_exception(error)
                else:
                    over.set_result(None)

            _jobs.get().put(job)
            await asyncio.wrap_future(over)

        return in_the_callers_thread

    def end(self) -> None:
        self.loop.call_soon_threadsafe(self.loop.stop)
        self._thread.join()
        self.loop.close()


class SyncProducer(Closing):
    """`Producer` with blocking calls; `append` does not block."""

    def __init__(self, loop: _Loop, producer: Producer) -> None:
        self._loop = loop
        self._producer = producer
        self._appends: deque[tuple[dict[str, Any], concurrent.futures.Future[Delivered], float]] = deque()
        """Records for the loop, their futures, and since when they wait."""
        self._room = threading.BoundedSemaphore(APPENDS_MAX)
        self._pump: concurrent.futures.Future[None] | None = None
        self._lock = threading.Lock()

    def send(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> Delivered:
        """Returns when the record is acknowledged. Raises `KafkaError` if it is given up."""
        return self.append(topic, value, key=key, partition=partition, headers=headers, timestamp=timestamp).result()

    def append(
        self,
        topic: str,
        value: bytes | None,
        *,
        key: bytes | None = None,
        partition: int | None = None,
        headers: Headers = (),
        timestamp: int | None = None,
    ) -> concurrent.futures.Future[Delivered]:
        """Waits only while `APPENDS_MAX` records wait for the loop; the future is the acknowledgement. Order is kept.

        A future can be cancelled until the loop takes its record; a cancelled record is not sent.
        """
        record = {
            "topic": topic,
            "value": value,
            "key": key,
            "partition": partition,
            "headers": headers,
            "timestamp": timestamp,
        }
        self._room.acquire()
        future: concurrent.futures.Future[Delivered] = concurrent.futures.Future()
        with self._lock:
            self._appends.append((record, future, time.monotonic()))
            if self._pump is None:
                self._pump = self._loop.begin(self._take())
        return future

    async def _take(self) -> None:
        """Appends all waiting records, on the loop: one switch of threads serves many records.

        Where a topic's metadata did not come in time, the records that waited meanwhile fail with the first one.
        """
        refused: dict[str, tuple[Exception, float]] = {}
        while True:
            with self._lock:
                if not self._appends:
                    self._pump = None
                    return
                record, future, since = self._appends.popleft()
            self._room.release()
            if not future.set_running_or_notify_cancel():
                continue
            if record["topic"] in refused and since <= refused[record["topic"]][1]:
                future.set_exception(refused[record["topic"]][0])
                continue
            try:
                delivered = await self._producer.append(**record)
            except (KafkaError, OSError) as error:
                refused[record["topic"]] = error, time.monotonic()
                future.set_exception(error)
            except BaseException as error:
                future.set_exception(error)
                if not isinstance(error, Exception):
                    raise
            else:
                delivered.add_done_callback(lambda done, future=future: _copied(done, future))  # type: ignore[misc]

    def flush(self) -> None:
        """Returns when every record taken so far is acknowledged or given up; their futures tell which."""
        self._taken()
        self._loop.call(self._producer.flush())

    def _before_end(self) -> None:
        """Waits until the loop has taken every record."""
        self._taken()

    def _taken(self) -> None:
        with self._lock:
            pump = self._pump
        if pump is not None:
            pump.result()

    def close(self) -> None:
        if self.closed:
            return
        self._taken()
        self._loop.call(self._producer.close())

    @property
    def closed(self) -> bool:
        return self._producer.closed


class SyncTransactionalProducer(SyncProducer):
    """`TransactionalProducer` with blocking calls."""

    def __init__(self, loop: _Loop, producer: TransactionalProducer) -> None:
        super().__init__(loop, producer)
        self._transactions = producer

    def __enter__(self) -> Self:
        self._loop.call(self._transactions.__aenter__())
        return self

    def init_transactions(self) -> None:
        self._loop.call(self._transactions.init_transactions())

    def begin_transaction(self) -> None:
        self._loop.call(self._transactions.begin_transaction())

    def send_offsets_to_transaction(
        self, offsets: Mapping[TopicPartition, int | CommittedOffset], group: str | ConsumerGroupMetadata
    ) -> None:
        self._loop.call(self._transactions.send_offsets_to_transaction(offsets, group))

    def commit_transaction(self) -> None:
        self._taken()
        self._loop.call(self._transactions.commit_transaction())

    def abort_transaction(self) -> None:
        self._taken()
        self._loop.call(self._transactions.abort_transaction())

    @contextlib.contextmanager
    def transaction(self) -> Generator[Self, None, None]:
        """One transaction: committed at the end of the block, aborted where the block, or the commit, raises."""
        context = self._transactions.transaction()
        self._loop.call(_entered(context))
        try:
            yield self
            self._taken()
        except BaseException as error:
            self._taken()  # else a record of this transaction could get into the next one
            self._loop.call(_left(context, error))
            raise
        self._loop.call(_left(context, None))


class SyncConsumer(Closing):
    """`Consumer` with blocking calls."""

    def __init__(self, loop: _Loop, consumer: Consumer) -> None:
        self._loop = loop
        self._consumer = consumer
        self._ahead: deque[ConsumerRecord] = deque()
        """Records polled for the iteration that the caller has not got yet."""

    def __iter__(self) -> Iterator[ConsumerRecord]:
        """One record after the other, however long it takes; ends when the consumer is closed. Positions are after the
        record that was given last."""
        while not self.closed:
            while self._ahead:
                yield self._ahead.popleft()
            try:
                self._loop.call(self._look_ahead(_ITERATION_MS, ITERATION_RECORDS))
            except ConsumerClosed:
                return

    async def _look_ahead(self, timeout_ms: float, max_records: int | None) -> None:
        """Polled records stay in `ahead` until they are given: an interrupted caller gets them the next time."""
        self._ahead.extend(await self._consumer.poll(timeout_ms, max_records=max_records))

    def _call(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        """Runs `work` on the loop once the positions are those after the last record given."""
        return self._loop.call(self._behind_what_was_given(work))

    async def _behind_what_was_given(self, work: Callable[[], Coroutine[Any, Any, T]]) -> T:
        # Done here, on the loop: an interrupted poll may have ended only now.
        for partition, place in self._places_ahead().items():
            self._consumer.seek(partition, place)
        self._ahead.clear()
        return await work()

    def _first_ahead(self) -> dict[TopicPartition, int]:
        first: dict[TopicPartition, int] = {}
        for record in self._ahead:
            first.setdefault(record.topic_partition, record.offset)
        return first

    def _places_ahead(self) -> dict[TopicPartition, CommittedOffset]:
        ahead = self._consumer.offsets_to_commit()
        return {
            partition: ahead[partition]._replace(offset=offset)
            for partition, offset in self._first_ahead().items()
            if partition in ahead
        }

    def poll(self, timeout_ms: float, *, max_records: int | None = None) -> list[ConsumerRecord]:
        self._call(lambda: self._look_ahead(timeout_ms, max_records))
        records = list(self._ahead)
        self._ahead.clear()
        return records

    def subscribe(
        self,
        topics: str | list[str] | re.Pattern[str],
        *,
        on_assigned: Callable[[list[TopicPartition]], Any] | None = None,
        on_revoked: Callable[[list[TopicPartition]], Any] | None = None,
        on_lost: Callable[[list[TopicPartition]], Any] | None = None,
    ) -> None:
        told = self._loop.callback
        self._call(
            lambda: self._consumer.subscribe(
                topics, on_assigned=told(on_assigned), on_revoked=told(on_revoked), on_lost=told(on_lost)
            )
        )

    def unsubscribe(self) -> None:
        self._call(self._consumer.unsubscribe)

    def assign(self, positions: Mapping[TopicPartition, int | CommittedOffset] | Iterable[TopicPartition]) -> None:
        self._call(lambda: self._consumer.assign(positions))

    def seek(self, topic_partition: TopicPartition, offset: int | CommittedOffset) -> None:
        self._call(lambda: _called(lambda: self._consumer.seek(topic_partition, offset)))

    def seek_to_beginning(self, *partitions: TopicPartition) -> None:
        self._call(lambda: _called(lambda: self._consumer.seek_to_beginning(*partitions)))

    def seek_to_end(self, *partitions: TopicPartition) -> None:
        self._call(lambda: _called(lambda: self._consumer.seek_to_end(*partitions)))

    def pause(self, *partitions: TopicPartition) -> None:
        self._call(lambda: _called(lambda: self._consumer.pause(*partitions)))

    def resume(self, *partitions: TopicPartition) -> None:
        self._loop.call(_called(lambda: self._consumer.resume(*partitions)))

    @property
    def paused(self) -> list[TopicPartition]:
        return self._consumer.paused

    @property
    def assignment(self) -> list[TopicPartition]:
        return self._consumer.assignment

    @property
    def subscription(self) -> list[str]:
        return self._consumer.subscription

    def position(self, topic_partition: TopicPartition) -> int:
        """The offset of the next record that it will give. Raises ``LookupError`` while it is unknown."""
        ahead = self._first_ahead().get(topic_partition)
        return self._consumer.position(topic_partition) if ahead is None else ahead

    def positions(self) -> dict[TopicPartition, int]:
        return {**self._consumer.positions(), **self._first_ahead()}

    def offsets_to_commit(self) -> dict[TopicPartition, CommittedOffset]:
        return {**self._consumer.offsets_to_commit(), **self._places_ahead()}

    def commit(self, offsets: Mapping[TopicPartition, int | CommittedOffset] | None = None) -> None:
        """Commits these offsets (of the next record to read) for the group, or every position."""
        self._loop.call(self._consumer.commit(self.offsets_to_commit() if offsets is None else offsets))

    def committed(self, partitions: Iterable[TopicPartition] | None = None) -> dict[TopicPartition, int]:
        return self._loop.call(self._consumer.committed(partitions))

    def group_metadata(self) -> ConsumerGroupMetadata:
        return self._consumer.group_metadata()

    def beginning_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._loop.call(self._consumer.beginning_offsets(partitions))

    def end_offsets(self, partitions: Iterable[TopicPartition]) -> dict[TopicPartition, int]:
        return self._loop.call(self._consumer.end_offsets(partitions))

    def offsets_for_times(self, timestamps: Mapping[TopicPartition, int]) -> dict[TopicPartition, ListedOffset | None]:
        return self._loop.call(self._consumer.offsets_for_times(timestamps))

    def _before_end(self) -> None:
        """The loop's consumer has no record that was not given: it may commit its positions."""
        self._call(lambda: _called(lambda: None))

    def close(self) -> None:
        if not self.closed:
            self._call(self._consumer.close)

    @property
    def closed(self) -> bool:
        return self._consumer.closed


class SyncAdmin:
    """`Admin` with blocking calls."""

    def __init__(self, loop: _Loop, admin: Admin) -> None:
        self._loop = loop
        self._admin = admin

    def __getattr__(self, name: str) -> Callable[..., Any]:
        method = getattr(self._admin, name)

        @wraps(method)
        def waits(*arguments: Any, **named: Any) -> Any:
            return self._loop.call(method(*arguments, **named))

        return waits

    def __dir__(self) -> list[str]:
        return [name for name in dir(self._admin) if not name.startswith("_")]


Made = TypeVar("Made", bound=SyncProducer | SyncConsumer)


class SyncCluster(Closing):
    """`Cluster` with blocking calls."""

    def __init__(self, bootstrap: str | None, config: Mapping[str, str] | None) -> None:
        self._cluster = Cluster(real_runtime(), bootstrap, config=config)
        self._loop = _Loop()
        self._made: list[SyncProducer | SyncConsumer] = []

    @property
    def admin(self) -> SyncAdmin:
        return SyncAdmin(self._loop, self._cluster.admin)

    def producer(self, **options: Unpack[ProducerOptions]) -> SyncProducer:
        made = self._loop.call(_called(lambda: self._cluster.producer(**options)))
        return self._remembered(SyncProducer(self._loop, made))

    def transactional_producer(
        self, transactional_id: str | None = None, **options: Unpack[TransactionOptions]
    ) -> SyncTransactionalProducer:
        made = self._loop.call(_called(lambda: self._cluster.transactional_producer(transactional_id, **options)))
        return self._remembered(SyncTransactionalProducer(self._loop, made))

    def consumer(
        self,
        *topics: str | re.Pattern[str],
        group: str | None = None,
        on_assigned: Callable[[list[TopicPartition]], Any] | None = None,
        on_revoked: Callable[[list[TopicPartition]], Any] | None = None,
        on_lost: Callable[[list[TopicPartition]], Any] | None = None,
        **options: Unpack[ConsumerOptions],
    ) -> SyncConsumer:
        told = self._loop.callback
        made = self._loop.call(
            _called(
                lambda: self._cluster.consumer(
                    *topics,
                    group=group,
                    on_assigned=told(on_assigned),
                    on_revoked=told(on_revoked),
                    on_lost=told(on_lost),
                    **options,
                )
            )
        )
        return self._remembered(SyncConsumer(self._loop, made))

    def _remembered(self, made: Made) -> Made:
        self._made = [other for other in self._made if not other.closed]
        self._made.append(made)
        return made

    def close(self) -> None:
        """Closes its producers, consumers and connections."""
        if self._loop.is_a_forks or self._loop.is_closed:
            return  # it belongs to the parent process, or is closed already
        try:
            for made in self._made:
                made._before_end()
            self._loop.call(self._cluster.close())
        finally:
            self._loop.end()


async def _called(work: Callable[[], T]) -> T:
    """Runs on the loop's thread, with nothing else beside it."""
    return work()


async def _entered(context: contextlib.AbstractAsyncContextManager[Any]) -> None:
    await context.__aenter__()


async def _left(context: contextlib.AbstractAsyncContextManager[Any], error: BaseException | None) -> None:
    with contextlib.suppress(type(error)) if error is not None else contextlib.nullcontext():
        await context.__aexit__(type(error) if error is not None else None, error, None)


def _copied(done: asyncio.Future[Delivered], future: concurrent.futures.Future[Delivered]) -> None:
    error = done.exception()
    if error is not None:
        future.set_exception(error)
    else:
        future.set_result(done.result())
