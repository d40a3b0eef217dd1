"""The clients of a run that are librdkafka's (confluent-kafka), each in a thread of its own."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from contextlib import contextmanager
from typing import Any, Final

from confluent_kafka import Consumer, KafkaError, KafkaException, Message, Producer
from confluent_kafka import TopicPartition as Place
from confluent_kafka.admin import AdminClient

from barnabas.judge.history import NONE, TOMBSTONE, Client, Op, Status
from barnabas.judge.journal import TRANSACTION_TIMEOUT_MS, Journal, now
from barnabas.judge.workload import ABORTED, ENDS_S, KEYS, Work, decoded, encoded
from barnabas.judge.workloads import COMPACTION, DELETES_S, DELETION, IDENTITY, LIST_APPEND, REGISTERS, TOMBSTONES
from barnabas.model.ids import TopicPartition

THEIRS: Final = "librdkafka"
QUIET: Final = {"log_level": 0, "error_cb": lambda error: None}


def said(error: KafkaException) -> KafkaError:
    said = error.args[0]
    assert isinstance(said, KafkaError)
    return said


@contextmanager
def fatal_errors() -> Iterator[None]:
    """A context in which a producer's fatal error is raised as ``KafkaException``, even if it comes during other
    callbacks.

    The binding sets the exception as soon as librdkafka calls back with the error. In a flush, and so in an EndTxn,
    librdkafka goes on with the callbacks of waiting records. There Python finds an exception that was not raised, and
    makes a ``SystemError`` of it.
    """
    try:
        yield
    except SystemError as error:
        cause: BaseException | None = error
        while isinstance(cause, SystemError):
            cause = cause.__cause__
        if isinstance(cause, KafkaException):
            raise cause from None
        raise


def within(seconds: float, call: Callable[[], object]) -> None:
    """Calls a function of librdkafka. Raises ``KafkaException`` with ``_TIMED_OUT`` if it has not returned after
    `seconds`.

    `send_offsets_to_transaction` sometimes never returns, whatever its timeout (librdkafka 2.16.0). Its thread stays
    and holds the client, which is of no use any more.
    """
    returned: Future[object] = Future()

    def body() -> None:
        try:
            returned.set_result(call())
        except BaseException as error:
            returned.set_exception(error)

    threading.Thread(target=body, name="librdkafka call", daemon=True).start()
    try:
        returned.result(seconds)
    except TimeoutError:
        raise KafkaException(KafkaError(KafkaError._TIMED_OUT, f"no answer within {seconds:g} s")) from None


def transactional_producer(work: Work, name: str) -> Producer:
    """A producer of transactions; `name` is its transactional id."""
    config = {"transactional.id": name, "transaction.timeout.ms": TRANSACTION_TIMEOUT_MS, "message.timeout.ms": 15_000}
    return Producer({**work.librdkafka(), **config, **QUIET})


def group_consumer(work: Work, group: str, isolation: str) -> Consumer:
    """A member that commits explicitly."""
    return Consumer(
        {
            **work.librdkafka(),
            "group.id": group,
            "isolation.level": isolation,
            "auto.offset.reset": "earliest",
            "enable.auto.commit": False,
            "session.timeout.ms": 10_000,
            "max.poll.interval.ms": 20_000,
            **QUIET,
        }
    )


def place_of(message: Message) -> tuple[TopicPartition, int]:
    """A message's partition and offset."""
    return TopicPartition(str(message.topic()), int(message.partition() or 0)), int(message.offset() or 0)


class RecordUnderWay:
    """One record in flight; librdkafka calls it with the outcome."""

    def __init__(self, journal: Journal, at: TopicPartition, txn: int, bare: bool = False, **fields: int) -> None:
        self.journal, self.at, self.txn, self.fields = journal, at, txn, fields
        self.name = TOMBSTONE if bare else None
        self.invoked, self.settled = now(), False

    def __call__(self, error: KafkaError | None, message: Message) -> None:
        if error is not None:
            self._add(Status.UNKNOWN, error=error.name())
        else:
            # None if a broker only answered that it has the repeated batch (DUPLICATE_SEQUENCE_NUMBER), or if the batch
            # behind it was acknowledged first.
            offset = message.offset()
            self._add(Status.OK, offset=NONE if offset is None else max(NONE, offset))
        # Only now: with a pending fatal error (`fatal_errors`) the call ends above, before anything is recorded.
        self.settled = True

    def give_up(self) -> None:
        if not self.settled:
            self._add(Status.UNKNOWN)

    def _add(self, status: Status, **more: Any) -> None:
        self.journal.add(
            Op.SEND, self.invoked, self.at, status=status, txn=self.txn, name=self.name, **self.fields, **more
        )


def send(producer: Producer, sending: RecordUnderWay, payload: bytes | None = None) -> None:
    """Sends a record; its bytes are the history's value, or `payload`."""
    key, value = sending.fields.get("key"), payload or encoded(sending.fields["value"])
    bare = sending.name == TOMBSTONE
    producer.produce(
        sending.at.topic,
        None if bare else value,
        headers=[(IDENTITY, value)] if bare else None,
        key=None if key is None else encoded(key),
        partition=sending.at.partition,
        on_delivery=sending,
    )


def flush(producer: Producer, seconds: float) -> None:
    """Waits up to `seconds` for the records in flight. Raises ``KafkaException`` for a fatal error."""
    with fatal_errors():
        producer.flush(seconds)


def write(work: Work, name: str, workload: str = REGISTERS) -> None:
    idempotent = work.acks == "all"
    # No timeout: if a record in flight times out, librdkafka takes another epoch and sends the records behind it again,
    # some of which the broker may have written. That would not be the broker's fault.
    config = {"acks": work.acks, "enable.idempotence": idempotent, "message.timeout.ms": 0}
    while not work.stopping():
        journal = work.notes.journal(Client(name, THEIRS, work.acks, idempotent))
        under_way: list[RecordUnderWay] = []
        try:
            _write(work, Producer({**work.librdkafka(), **config, **QUIET}), journal, name, workload, under_way)
        except KafkaException:
            # librdkafka takes an answer as fatal, such as that of a former leader: another producer goes on.
            time.sleep(1)
        finally:
            for sending in under_way:
                sending.give_up()


def _write(
    work: Work, producer: Producer, journal: Journal, name: str, workload: str, under_way: list[RecordUnderWay]
) -> None:
    chance = random.Random(f"{name} {now()}")
    topic, tombstones = work.topics[workload], TOMBSTONES if workload == COMPACTION else 0.0
    while not work.stopping():
        for _ in range(10):
            value, bare = work.notes.value(), chance.random() < tombstones
            under_way.append(
                RecordUnderWay(journal, work.place(chance, topic), NONE, bare, key=value % KEYS, value=value)
            )
            send(producer, under_way[-1])
        producer.poll(work.pause_s)
        time.sleep(work.pause_s)
        under_way[:] = [sending for sending in under_way if not sending.settled]
    flush(producer, 30)


def delete(work: Work, name: str) -> None:
    """Deletes records of one partition after the other, each time up to an offset between the log's start and its
    end."""
    chance = random.Random(name)
    journal = work.notes.journal(Client(name, THEIRS))
    admin = AdminClient({**work.librdkafka(), **QUIET})
    consumer = Consumer({**work.librdkafka(), "group.id": name, **QUIET})
    while not work.stopping():
        time.sleep(max(DELETES_S, work.pause_s))
        at = work.place(chance, work.topics[DELETION])
        try:
            begin, end = consumer.get_watermark_offsets(Place(*at), timeout=5)
        except KafkaException:
            continue
        before, invoked = chance.randint(begin, max(begin, end)), now()
        try:
            admin.delete_records([Place(*at, before)])[Place(*at)].result(30)
            journal.add(Op.DELETE, invoked, at, offset=before)
        except (KafkaException, TimeoutError) as error:
            journal.add(Op.DELETE, invoked, at, status=Status.UNKNOWN, offset=before, error=error)
    consumer.close()


def transact(work: Work, name: str) -> None:
    while not work.stopping():
        journal = work.notes.journal(
            Client(name, THEIRS, transactional_id=name, transaction_timeout_ms=TRANSACTION_TIMEOUT_MS)
        )
        producer = transactional_producer(work, name)
        try:
            producer.init_transactions(30)
            _transactions(work, producer, journal, name)
        except KafkaException:
            time.sleep(1)  # another producer with the same transactional id goes on


def _transactions(work: Work, producer: Producer, journal: Journal, name: str) -> None:
    chance = random.Random(f"{name} {now()}")
    while not work.stopping():
        producer.begin_transaction()
        txn = work.notes.txn()
        sent: list[RecordUnderWay] = []
        try:
            for _ in range(chance.randint(2, 6)):
                sent.append(
                    RecordUnderWay(journal, work.place(chance, work.topics[LIST_APPEND]), txn, value=work.notes.value())
                )
                send(producer, sent[-1])
                producer.poll(work.pause_s)  # so that a late EndTxn finds a transaction open
            # An abort drops unsent records, but the records that it ends must be in the log.
            flush(producer, 15)
            ended(producer, journal, txn, name, committed=chance.random() > ABORTED)
        finally:
            for sending in sent:
                sending.give_up()
        time.sleep(work.pause_s)


def ended(producer: Producer, journal: Journal, txn: int, name: str, *, committed: bool) -> bool:
    """Ends the transaction; returns whether it was committed. Repeats the request until the outcome is known, an error
    forbids it, or it took too long. Each request is a row."""
    deadline = now() + ENDS_S * 10**9
    while True:
        op = Op.COMMIT if committed else Op.ABORT
        invoked = now()
        try:
            with fatal_errors():
                if committed:
                    producer.commit_transaction(15)
                else:
                    producer.abort_transaction(15)
            journal.add(op, invoked, txn=txn, name=name)
            return committed
        except KafkaException as error:
            trouble = said(error)
            journal.add(op, invoked, status=Status.UNKNOWN, txn=txn, name=name, error=trouble.name())
            if now() > deadline or not (trouble.txn_requires_abort() or trouble.retriable()):
                raise
            committed = committed and not trouble.txn_requires_abort()


def consume(work: Work, name: str, topic: str, group: str, isolation: str) -> None:
    """Runs a member that reads and commits, and sometimes leaves the group and comes back."""
    chance = random.Random(name)
    while not work.stopping():
        journal = work.notes.journal(Client(name, THEIRS, isolation=isolation, group=group))
        consumer = group_consumer(work, group, isolation)
        leaves = now() + int(chance.uniform(8, 25) * 1e9)
        consumer.subscribe([topic], on_assign=lambda it, places, to=journal: assigned(it, places, to, group))
        try:
            while not work.stopping() and now() < leaves:
                _poll(consumer, journal)
                if chance.random() < 0.3:
                    _commit(consumer, journal, group)
        except KafkaException:
            time.sleep(1)
        finally:
            consumer.close()


def assigned(consumer: Consumer, places: list[Place], journal: Journal, group: str) -> None:
    """Asks for the group's offset and begins there, so that the history has the start of the assignment."""
    invoked = now()
    try:
        told = consumer.committed(places, timeout=10) if places else []
    except KafkaException:
        told = []
    completed = now()
    known = {(place.topic, place.partition): place for place in told if place.error is None}
    for place in places:
        at = TopicPartition(place.topic, place.partition)
        committed = known.get((place.topic, place.partition))
        offset = NONE if committed is None else max(NONE, committed.offset)
        if committed is not None:
            journal.add(Op.FETCH_OFFSET, invoked, at, completed=completed, offset=offset, name=group)
        journal.add(Op.ASSIGN, completed, at, offset=offset)
    # A committed offset has its leader epoch, by which librdkafka asks whether the log still has it.
    begins = {at: place for at, place in known.items() if place.offset >= 0}
    consumer.assign([begins.get((place.topic, place.partition), place) for place in places])


def value_of(message: Message) -> int:
    headers: Any = message.headers() or []
    data: Any = message.value()
    return decoded(dict(headers).get(IDENTITY) if data is None else data)


def _poll(consumer: Consumer, journal: Journal) -> None:
    """Up to 500 records, one by one, since the assignment may change between two of them."""
    patience = 0.5
    for _ in range(500):
        invoked = now()
        message = consumer.poll(patience)
        completed, patience = now(), 0.0
        if message is None:
            return
        if message.error() is None:
            at, offset = place_of(message)
            fields: dict[str, Any] = {"key": decoded(message.key()), "value": value_of(message)}
            journal.add(Op.READ, invoked, at, completed=completed, offset=offset, **fields)


def _commit(consumer: Consumer, journal: Journal, group: str) -> None:
    positions = [position for position in consumer.position(consumer.assignment()) if position.offset >= 0]
    if not positions:
        return
    invoked = now()
    error: object = None
    try:
        answers = consumer.commit(offsets=positions, asynchronous=False) or []
    except KafkaException as trouble:
        answers, error = [], said(trouble).name()
    good = {(answer.topic, answer.partition) for answer in answers if answer.error is None}
    completed = now()
    for position in positions:
        status = Status.OK if (position.topic, position.partition) in good else Status.UNKNOWN
        at = TopicPartition(position.topic, position.partition)
        fields: dict[str, Any] = {"offset": position.offset, "name": group, "error": error}
        journal.add(Op.COMMIT_OFFSET, invoked, at, status=status, completed=completed, **fields)
