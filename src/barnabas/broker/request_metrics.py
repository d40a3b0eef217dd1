"""Metrics of requests: how many, how long each part took, and the errors (Kafka's ``RequestMetrics``).

Every decoded request is counted, and timed from end to end. Produces and fetches take microseconds, so that the clock
would be a visible cost: of a connection's only the first `TIMED_EACH` are timed, and then one in `TIMED_EACH`, which
counts for as many. Followers' fetches that repeat (`repeated_fetch`) are timed as rarely, and counted by the
connection's own counter (`BrokerConnection.count_repeats`). All metrics are plain integers.
"""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from operator import attrgetter
from typing import Any, Final, NamedTuple

from barnabas.broker.context import RequestContext, Route
from barnabas.broker.request_figures import RequestFigures
from barnabas.model.errors import ErrorCode
from barnabas.runtime import Clock, Histogram, SparingLog
from barnabas.wire.kernel import staying
from barnabas.wire.plans import error_counter

logger = logging.getLogger(__name__)

TIMED_EACH: Final = 64
"""One in so many produces, or fetches, is timed; a power of two."""

REFUSALS: Final = frozenset(
    code
    for code in ErrorCode
    if code.name.endswith("_AUTHORIZATION_FAILED")
    or code.name
    in (
        "CORRUPT_MESSAGE",
        "FENCED_INSTANCE_ID",
        "GROUP_MAX_SIZE_REACHED",
        "ILLEGAL_SASL_STATE",
        "INVALID_PRODUCER_EPOCH",
        "INVALID_PRODUCER_ID_MAPPING",
        "INVALID_RECORD",
        "INVALID_TXN_STATE",
        "KAFKA_STORAGE_ERROR",
        "MESSAGE_TOO_LARGE",
        "OUT_OF_ORDER_SEQUENCE_NUMBER",
        "POLICY_VIOLATION",
        "PRODUCER_FENCED",
        "RECORD_LIST_TOO_LARGE",
        "SASL_AUTHENTICATION_FAILED",
        "SECURITY_DISABLED",
        "THROTTLING_QUOTA_EXCEEDED",
        "TRANSACTION_COORDINATOR_FENCED",
        "UNKNOWN_PRODUCER_ID",
        "UNKNOWN_SERVER_ERROR",
        "UNSUPPORTED_SASL_MECHANISM",
    )
)
"""Errors that an operator should see. NOT_ENOUGH_REPLICAS has lines of its own, with the partition's ISR."""
_REFUSED: Final = frozenset(map(int, REFUSALS))

_NAMES: Final = (
    *("name", "topic", "topic_name", "group_id", "resource_name", "transactional_id", "key"),
    *("partition_index", "partition", "index"),
)
"""Fields that tell what an error is about, in the order in which they are logged."""


class RequestMetrics:
    """The requests of one broker."""

    def __init__(self, broker_id: Callable[[], int], clock: Clock) -> None:
        self.clock = clock.monotonic_ns
        self.figures: dict[str, RequestFigures] = {}
        """By Kafka's names; a fetch is a ``FetchConsumer`` or a ``FetchFollower``."""
        self._broker_id = broker_id
        self._refused = SparingLog(logger)

    def of(self, route: Route, request: Any, version: int) -> RequestFigures:
        name = route.name
        if name == "Fetch":
            # Since version 15 the follower's id is in a tagged field.
            name = "FetchConsumer"
            if request is not None and (request.replica_id if version < 15 else request.replica_state.replica_id) >= 0:
                name = "FetchFollower"
        return self.named(name)

    def named(self, name: str) -> RequestFigures:
        figures = self.figures.get(name)
        if figures is None:
            figures = self.figures[name] = RequestFigures(name)
        return figures

    def answered(self, context: RequestContext, response: Any) -> None:
        """Counts the errors in a response, and logs the first that an operator should see."""
        figures = context.figures
        if figures is None:
            figures = self.of(context.route, context.request, context.version)
        seen = None
        fine = count_of_fine(response)
        if fine > 0:
            figures.count_error(0, fine)
        elif fine < 0:
            codes, seen = errors_in(response)
            for code, times in codes.items():
                figures.count_error(code, times)
        throttle_ms = getattr(response, "throttle_time_ms", 0)
        if throttle_ms:
            figures.throttle.observe_ms(throttle_ms)
        else:
            figures.throttle.buckets[0] += 1  # as nearly always
        if seen is not None:
            self._tell(context, f"is refused: {seen}", int(seen.code))
        elif throttle_ms:
            self._tell(context, f"is throttled by its quota for {throttle_ms} ms", -1)

    def _tell(self, context: RequestContext, what: str, cause: int) -> None:
        self._refused.log(
            (context.header.api_key, cause),
            "[broker %d] %s of client %s at %s as %s %s",
            self._broker_id(),
            context.api_name,
            context.client_id or "without an id",
            context.connection.peer,
            context.principal,
            what,
        )

    def counted(self) -> dict[str, RequestFigures]:
        """All figures; ``Fetch`` has the counts (no times) of both kinds of fetches together."""
        figures = dict(self.figures)
        if kinds := self._fetches():
            both = figures["Fetch"] = RequestFigures("Fetch")
            for kind in kinds:
                both.request_bytes += kind.request_bytes
                for version, count in kind.requests.items():
                    both.count(version, count)
                for code, count in kind.errors.items():
                    both.count_error(code, count)
        return figures

    def times(self, part: str) -> Iterator[tuple[str, Histogram]]:
        """One of the times of all kinds of requests; ``Fetch`` has both kinds of fetches together."""
        for name, figures in self.figures.items():
            yield name, getattr(figures, part)
        if kinds := self._fetches():
            both = Histogram()
            for kind in kinds:
                both.add(getattr(kind, part))
            yield "Fetch", both

    def _fetches(self) -> list[RequestFigures]:
        return [self.figures[name] for name in ("FetchConsumer", "FetchFollower") if name in self.figures]


class ToldError(NamedTuple):
    """One error code of a response."""

    code: int
    about: tuple[Any, ...]
    message: str | None

    def __str__(self) -> str:
        try:
            name = ErrorCode(self.code).name
        except ValueError:
            name = str(self.code)
        about = "-".join(str(value) for value in self.about if value is not None)
        return f"{name}{f' for {about}' if about else ''}{f' ({self.message})' if self.message else ''}"


class _Shape(NamedTuple):
    """Where a response has error codes: in this struct, and in the structs of which of its lists."""

    code: bool
    message: bool
    lists: tuple[tuple[str, _Shape], ...]

    @property
    def tells(self) -> bool:
        return self.code or bool(self.lists)


_error_code: Final = attrgetter("error_code")
_shapes: Final[dict[type, _Shape]] = {}
_counters: Final[dict[type, Callable[[Any], int] | None]] = {}


def count_of_fine(response: Any) -> int:
    """The number of error codes in a response if all are 0, as nearly always; -1 if `errors_in` has to look."""
    kind = type(response)
    try:
        counter = _counters[kind]
    except KeyError:
        counter = _counters[kind] = error_counter(kind)
    return -1 if counter is None else counter(response)


def errors_in(response: Any) -> tuple[Counter[int], ToldError | None]:
    """How often each error code is in a response, including 0 (``AbstractResponse.errorCounts``), and the first that an
    operator should see. An answer may have a hundred thousand codes: counting makes no object for each."""
    kind = type(response)
    shape = _shapes.get(kind)
    if shape is None:
        shape = _shapes[kind] = _shape_of(kind, kind)
    codes: Counter[int] = Counter()
    seen: list[ToldError] = []
    _look([response], shape, (), codes, seen)
    return codes, seen[0] if seen else None


def _look(
    structs: Sequence[Any], shape: _Shape, above: tuple[Any, ...], codes: Counter[int], seen: list[ToldError]
) -> None:
    """Counts, and notes the first refused element."""
    if shape.code:
        found = Counter(map(_error_code, structs))
        codes.update(found)
        if not seen and not _REFUSED.isdisjoint(found):
            first = next(struct for struct in structs if struct.error_code in _REFUSED)
            seen.append(_told(first, shape, above))
    for name, inner in shape.lists:
        for struct in structs:
            below = getattr(struct, name)
            if below:
                _look(below, inner, (*above, struct), codes, seen)


def _told(struct: Any, shape: _Shape, above: tuple[Any, ...]) -> ToldError:
    about = tuple(getattr(owner, name) for owner in (*above, struct) for name in _names_of(owner))
    return ToldError(struct.error_code, about, struct.error_message if shape.message else None)


def _names_of(struct: Any) -> list[str]:
    fields: dict[str, str] = type(struct).__annotations__
    return [name for name in _NAMES if name in fields and not fields[name].startswith("ClassVar")]


@staying
def _shape_of(struct: type, response: type) -> _Shape:
    fields: dict[str, str] = struct.__annotations__
    lists = []
    for name, kind in fields.items():
        if kind.startswith("list["):
            inner = getattr(response, kind.removeprefix("list[").partition("]")[0].rpartition(".")[2], None)
            if isinstance(inner, type):
                shape = _shape_of(inner, response)
                if shape.tells:
                    lists.append((name, shape))
    return _Shape("error_code" in fields, "error_message" in fields, tuple(lists))
