"""Histories: the operations of each client, with times and outcomes; in memory as numpy columns, on disk as Parquet.

A row is one operation of one client, with one of three outcomes: `Status.OK`: it was acknowledged. `Status.FAILED`: it
certainly did not happen. `Status.UNKNOWN`: everything else (a timeout, a broken connection, a dead client); it may have
happened, or may happen later. Rows of a client are in the order of their invocation, and records of one poll in the
order in which it returned them.

All sent records have different values, so a read shows from which send it came. docs/judge.md tells the meaning of each
column for each kind of operation.
"""

from __future__ import annotations

import json
import threading
from array import array
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import IntEnum
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.parquet as pq

Column = npt.NDArray[Any]

NONE: Final = -1
"""The number for a missing offset, key, value, transaction or place in a row."""
NEVER: Final = np.iinfo(np.int64).max
"""The time of completion of an operation with unknown outcome."""
TOMBSTONE: Final = "tombstone"
"""The `name` of a send without a value, which deletes its key in a compacted topic."""
FORMAT: Final = "1"
BEFORE_KIP_890: Final = "before-kip-890"
"""The fact with the transactional ids, separated by commas, whose clients end transactions as before KIP-890."""
APACHE_VERSION: Final = "apache.version"
"""The fact with the brokers' version of Apache Kafka, if it is known."""
_METADATA: Final = b"barnabas.judge"


class Op(IntEnum):
    SEND = 0
    READ = 1
    MARKER = 2
    COMMIT = 3
    ABORT = 4
    ASSIGN = 5
    COMMIT_OFFSET = 6
    FETCH_OFFSET = 7
    HIGH_WATERMARK = 8
    LAST_STABLE = 9
    LOG_START = 10
    SCANNED = 11
    DELETE = 12
    NEMESIS = 13
    TOTAL = 14
    LEADER = 15
    FORGOTTEN = 16
    COPY = 17
    LOADING = 18
    MERGED = 19

    @property
    def word(self) -> str:
        return self.name.lower().replace("_", "-")


class Status(IntEnum):
    OK = 0
    FAILED = 1
    UNKNOWN = 2

    @property
    def word(self) -> str:
        return self.name.lower()


class HistoryError(ValueError):
    """The file is not a history, or contradicts itself; the text tells where."""


@dataclass(frozen=True, slots=True)
class Client:
    """A client and its guarantees. A client with `scan` reads every partition once, from its start to its end."""

    name: str
    driver: str = ""
    acks: str = "all"
    idempotent: bool = True
    isolation: str = "read_uncommitted"
    scan: bool = False
    transactional_id: str | None = None
    group: str | None = None
    transaction_timeout_ms: int = 60_000


@dataclass(frozen=True, slots=True)
class Context:
    """The context of the rows: clients by number, topics with their configurations, and facts about the cluster."""

    clients: tuple[Client, ...] = ()
    topics: Mapping[str, Mapping[str, str]] = field(default_factory=dict)
    facts: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class OperationHistory:
    """Columns of one length; row `i` is one operation. Times are nanoseconds; `invoked`, `completed` are monotonic."""

    context: Context
    places: tuple[tuple[str, int], ...]
    names: tuple[str, ...]
    errors: tuple[str, ...]
    process: Column
    op: Column
    status: Column
    invoked: Column
    completed: Column
    wall: Column
    place: Column
    offset: Column
    key: Column
    value: Column
    txn: Column
    follows: Column
    name: Column
    error: Column

    def __len__(self) -> int:
        return len(self.op)

    def rows(self, *ops: Op) -> Column:
        """The numbers of the rows of these kinds."""
        wanted = self.op == ops[0]
        for op in ops[1:]:
            wanted |= self.op == op
        return np.flatnonzero(wanted)

    def place_name(self, place: int) -> str:
        topic, partition = self.places[place]
        return f"{topic}/{partition}"


_TEXT: Final = pa.dictionary(pa.int32(), pa.string())
SCHEMA: Final = pa.schema(
    [
        pa.field("process", pa.int32(), nullable=False),
        pa.field("op", _TEXT, nullable=False),
        pa.field("status", _TEXT, nullable=False),
        pa.field("invoked_ns", pa.int64(), nullable=False),
        pa.field("completed_ns", pa.int64()),
        pa.field("wall_ns", pa.int64(), nullable=False),
        pa.field("topic", _TEXT),
        pa.field("partition", pa.int32()),
        pa.field("offset", pa.int64()),
        pa.field("key", pa.int64()),
        pa.field("value", pa.int64()),
        pa.field("txn", pa.int64()),
        pa.field("name", _TEXT),
        pa.field("error", _TEXT),
        pa.field("follows", pa.int64()),
    ]
)
"""The file's columns. The schema's metadata holds the context as JSON under ``barnabas.judge``."""
LATER: Final = ("follows",)
"""Columns that older files do not have."""


def write(history: OperationHistory, path: Path | str) -> None:
    """Raises ``OSError``."""
    metadata = {_METADATA: json.dumps({"format": FORMAT, **asdict(history.context)}).encode()}
    schema = SCHEMA.with_metadata(metadata)
    topics = tuple(dict.fromkeys(topic for topic, _ in history.places))
    topic_of = np.array([topics.index(topic) for topic, _ in history.places] or [0], np.int32)
    partition_of = np.array([partition for _, partition in history.places] or [0], np.int32)
    somewhere = np.maximum(history.place, 0)
    nowhere = history.place < 0
    columns = [
        pa.array(history.process, pa.int32()),
        _words(history.op, [op.word for op in Op]),
        _words(history.status, [status.word for status in Status]),
        pa.array(history.invoked, pa.int64()),
        pa.array(history.completed, pa.int64(), mask=history.completed == NEVER),
        pa.array(history.wall, pa.int64()),
        _words(np.where(nowhere, NONE, topic_of[somewhere]), topics),
        pa.array(partition_of[somewhere], pa.int32(), mask=nowhere),
        *(pa.array(column, pa.int64(), mask=column < 0) for column in (history.offset, history.key, history.value)),
        pa.array(history.txn, pa.int64(), mask=history.txn < 0),
        _words(history.name, history.names),
        _words(history.error, history.errors),
        pa.array(history.follows, pa.int64(), mask=history.follows < 0),
    ]
    pq.write_table(pa.table(columns, schema=schema), path, compression="zstd")


def _words(codes: Column, words: Sequence[str]) -> Any:
    indices = pa.array(codes.astype(np.int32), pa.int32(), mask=codes < 0)
    return pa.DictionaryArray.from_arrays(indices, pa.array(words, pa.string()))


def read(path: Path | str) -> OperationHistory:
    """Reads a history from a file. Raises `HistoryError` for a file that is not a history, and ``OSError``."""
    try:
        table = pq.read_table(path, read_dictionary=["op", "status", "topic", "name", "error"])
    except pa.ArrowInvalid as error:
        raise HistoryError(f"{path} is not a Parquet file: {error}") from None
    return of_table(table, context_of(table.schema, path), path)


def context_of(schema: Any, path: Path | str) -> Context:
    """The context in a file's schema. Raises `HistoryError` for a file that is not a history."""
    missing = [name for name in SCHEMA.names if name not in (*schema.names, *LATER)]
    if missing:
        raise HistoryError(f"{path} is not a history: it has no column {', '.join(missing)}")
    return _context((schema.metadata or {}).get(_METADATA), path)


def of_table(table: Any, context: Context, path: Path | str = "the history") -> OperationHistory:
    """An Arrow table with the columns of `SCHEMA`. Raises `HistoryError`."""
    op, op_words = _codes(table, "op")
    status, status_words = _codes(table, "status")
    topic, topics = _codes(table, "topic")
    name, names = _codes(table, "name")
    error_code, errors = _codes(table, "error")
    place, places = _places(topic, topics, _numbers(table, "partition"))
    history = OperationHistory(
        context=context,
        places=places,
        names=names,
        errors=errors,
        process=_numbers(table, "process").astype(np.int32),
        op=_recoded(op, op_words, {kind.word: kind for kind in Op}, "op", path),
        status=_recoded(status, status_words, {outcome.word: outcome for outcome in Status}, "status", path),
        invoked=_numbers(table, "invoked_ns"),
        completed=_numbers(table, "completed_ns", NEVER),
        wall=_numbers(table, "wall_ns"),
        place=place,
        offset=_numbers(table, "offset"),
        key=_numbers(table, "key"),
        value=_numbers(table, "value"),
        txn=_numbers(table, "txn"),
        follows=_numbers(table, "follows") if "follows" in table.schema.names else np.full(len(table), NONE, np.int64),
        name=name,
        error=error_code,
    )
    if len(history) and not 0 <= history.process.min() <= history.process.max() < len(context.clients):
        raise HistoryError(f"{path} has rows of clients that its metadata does not name")
    return history


def _context(raw: bytes | None, path: Path | str) -> Context:
    if raw is None:
        raise HistoryError(f"{path} is not a history: its schema has no metadata {_METADATA.decode()!r}")
    try:
        told = json.loads(raw)
        if told["format"] != FORMAT:
            raise HistoryError(f"{path} has format {told['format']}; this is for format {FORMAT}")
        return Context(tuple(Client(**client) for client in told["clients"]), told["topics"], told["facts"])
    except (KeyError, TypeError, json.JSONDecodeError) as error:
        raise HistoryError(f"{path} has metadata that cannot be read: {error!r}") from None


def _numbers(table: Any, name: str, none: int = NONE) -> Column:
    column = table.column(name)
    if column.null_count:
        column = column.fill_null(none)
    found: Column = column.to_numpy()
    return found


def _codes(table: Any, name: str) -> tuple[Column, tuple[str, ...]]:
    column = table.column(name)
    if not pa.types.is_dictionary(column.type):
        column = column.dictionary_encode()
    column = column.unify_dictionaries()
    if column.num_chunks == 0:
        return np.empty(0, np.int32), ()
    words = tuple(column.chunk(0).dictionary.to_pylist())
    codes = [chunk.indices.fill_null(NONE).to_numpy() for chunk in column.chunks]
    return np.concatenate(codes).astype(np.int32), words


def _recoded(codes: Column, words: Sequence[str], known: Mapping[str, int], what: str, path: Path | str) -> Column:
    strange = [word for word in words if word not in known]
    if strange:
        raise HistoryError(f"{path} has the {what} {strange[0]!r}, which is not one of {', '.join(known)}")
    if len(codes) and codes.min() < 0:
        raise HistoryError(f"{path} has rows without {what}")
    return np.array([known[word] for word in words] or [0], np.uint8)[codes]


def _places(topic: Column, topics: Sequence[str], partition: Column) -> tuple[Column, tuple[tuple[str, int], ...]]:
    both = np.where(topic < 0, NONE, topic.astype(np.int64) << 32 | partition.astype(np.int64))
    distinct, inverse = np.unique(both, return_inverse=True)
    shift = 1 if len(distinct) and distinct[0] == NONE else 0
    places = tuple((topics[code >> 32], int(code & 0xFFFFFFFF)) for code in map(int, distinct[shift:]))
    return (inverse - shift).astype(np.int32), places


@dataclass(slots=True)
class Row:
    """One operation, for recording. `completed` is None if it never completed."""

    process: int
    op: Op
    status: Status
    invoked: int
    completed: int | None
    wall: int = 0
    topic: str | None = None
    partition: int = NONE
    offset: int = NONE
    key: int = NONE
    value: int = NONE
    txn: int = NONE
    name: str | None = None
    error: str | None = None
    follows: int = NONE


_TEXTS: Final = ("topic", "name", "error")


class Recording:
    """Records the rows of any number of clients in columns of numbers. A run of an hour fits into memory, and Python's
    garbage collector, which stops all threads while it visits objects, has no objects to visit. One thread may add rows
    while others read.
    """

    def __init__(self) -> None:
        self._columns = [array("q") for _ in SCHEMA.names]
        self._texts: dict[str, int] = {}
        """The texts in rows, each with the number that stands for it."""
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._columns[0])

    def add(self, row: Row) -> None:
        with self._lock:
            for column, value in zip(self._columns, _values(row), strict=True):
                column.append(self._texts.setdefault(value, len(self._texts)) if isinstance(value, str) else value)

    def extend(self, other: Recording) -> None:
        with other._lock:
            texts = np.array([*(self._texts.setdefault(text, len(self._texts)) for text in other._texts), NONE])
            for name, column, more in zip(SCHEMA.names, self._columns, other._columns, strict=True):
                column.frombytes((texts[np.array(more)] if name in _TEXTS and more else more).tobytes())

    def acknowledged(self, *ops: Op) -> Iterator[tuple[int, int, int]]:
        """For each acknowledged operation of these kinds: when it was invoked and completed, and when it was invoked by
        the wall clock."""
        with self._lock:
            _, op, status, invoked, completed, wall, *_ = (np.array(column) for column in self._columns[:6])
        found = np.isin(op, ops) & (status == Status.OK)
        return zip(*(times[found].tolist() for times in (invoked, completed, wall)), strict=True)

    def history(self, context: Context) -> OperationHistory:
        """The history, in the order of invocation; rows invoked at the same time keep their order."""
        (
            process,
            op,
            status,
            invoked,
            completed,
            wall,
            topic,
            partition,
            offset,
            key,
            value,
            txn,
            name,
            error,
            follows,
        ) = self._columns
        texts = list(self._texts)
        places: dict[tuple[str, int], int] = {}
        names: dict[str, int] = {}
        errors: dict[str, int] = {}
        place = [
            NONE if topic[i] == NONE else places.setdefault((texts[topic[i]], partition[i]), len(places))
            for i in range(len(self))
        ]
        name_codes = [NONE if text == NONE else names.setdefault(texts[text], len(names)) for text in name]
        error_codes = [NONE if text == NONE else errors.setdefault(texts[text], len(errors)) for text in error]
        order = np.argsort(np.array(invoked, np.int64), kind="stable")

        def column(values: Iterable[int], kind: type = np.int64) -> Column:
            return np.array(values, kind)[order]

        return OperationHistory(
            context, tuple(places), tuple(names), tuple(errors),
            column(process, np.int32), column(op, np.uint8), column(status, np.uint8), column(invoked),
            column(completed), column(wall), column(place, np.int32), column(offset), column(key), column(value),
            column(txn), column(follows), column(name_codes, np.int32), column(error_codes, np.int32),
        )  # fmt: skip


def _values(row: Row) -> tuple[int | str, ...]:
    completed = NEVER if row.completed is None or row.status is Status.UNKNOWN else row.completed
    return (
        row.process, row.op, row.status, row.invoked, completed, row.wall, _text(row.topic), row.partition,
        row.offset, row.key, row.value, row.txn, _text(row.name), _text(row.error), row.follows,
    )  # fmt: skip


def _text(text: str | None) -> int | str:
    return NONE if text is None else text
