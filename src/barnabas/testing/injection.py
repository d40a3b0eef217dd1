"""A layer between a broker's connections and its handlers in a test: it injects faults and records the history."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any, Final

from barnabas.broker.context import Disconnect, FollowersConnection, Handle, Pending, RequestContext, Route, is_answer
from barnabas.broker.parts import BrokerParts
from barnabas.broker.repeated_fetch import RepeatedFetches
from barnabas.broker.server import Broker
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import ZERO_UUID, TopicPartition, Uuid
from barnabas.model.sentinels import ACKS_ALL
from barnabas.runtime.doors import Bytes
from barnabas.runtime.file_records import FileRecords
from barnabas.testing.history import ClusterHistory
from barnabas.testing.network import CLIENT, Links
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.records import MAGIC_AT, batches, parse_header

_BATCHES_SINCE: Final = 3
"""The first version of Produce whose records are batches in the stored format."""
_STORED_SINCE: Final = 4
"""The first version of Fetch that returns stored batches; older versions get converted ones."""
_CONSUMER: Final = -1
_OF_FETCH_SESSIONS: Final = frozenset(
    {
        ErrorCode.FETCH_SESSION_ID_NOT_FOUND,
        ErrorCode.INVALID_FETCH_SESSION_EPOCH,
        ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
    }
)


@dataclass(eq=False)
class Injection:
    """A fault of requests of one kind. `hits` counts the faulty requests; `stop` ends the fault before `times`
    requests."""

    api: ApiKey
    error: ErrorCode | None
    times: int | None
    broker_id: int | None
    sources: frozenset[str]
    applied: bool
    delay: float | None
    hits: int = 0

    @property
    def over(self) -> bool:
        return self.times is not None and self.hits >= self.times

    def stop(self) -> None:
        """Ends the fault."""
        self.times = self.hits


class Injections:
    """The present faults."""

    def __init__(self, links: Links) -> None:
        self._links = links
        self._rules: list[Injection] = []

    def add(self, rule: Injection) -> None:
        self._rules.append(rule)

    def clear(self) -> None:
        for rule in self._rules:
            rule.stop()
        self._rules.clear()

    def of(self, api: ApiKey, broker_id: int) -> Iterator[Injection]:
        """The faults that may apply to requests of that kind at that broker, for any sender."""
        for rule in self._rules:
            if rule.api is api and rule.broker_id in (None, broker_id) and not rule.over:
                yield rule

    def match(self, api: ApiKey, broker_id: int, context: RequestContext) -> Injection | None:
        for rule in self.of(api, broker_id):
            port = context.connection.peer.rpartition(":")[2]
            source = self._links.name_of(int(port)) if port.isdigit() else CLIENT
            if source in rule.sources:
                return rule
        return None


class _RepeatedFetches(RepeatedFetches):
    """Answers followers' repeated fetches without the handler, unless a fault may apply."""

    __slots__ = ("_injections",)

    def __init__(self, route: Route, injections: Injections) -> None:
        super().__init__(route)
        self._injections = injections

    def answer(self, broker: BrokerParts, connection: FollowersConnection, frame: bytearray) -> list[Bytes] | None:
        if any(self._injections.of(ApiKey.FETCH, broker.broker_id)):
            return None
        return super().answer(broker, connection, frame)


def instrument(broker: Broker, injections: Injections, history: ClusterHistory) -> None:
    """Wraps the handlers of a broker that has not started yet, for faults and history."""
    router = broker.request_channel.router
    routes = router.routes
    for number, route in list(routes.items()):
        api = ApiKey(number)
        handle = _story_of(route)
        if api is ApiKey.PRODUCE:
            handle = _acknowledging(handle, history)
        elif api is ApiKey.FETCH:
            handle = _serving(handle, history)
        routes[number] = route._replace(handle=_failing(handle, api, injections, history))
    router.repeated_fetches = _RepeatedFetches(routes[int(ApiKey.FETCH)], injections)


def _story_of(route: Route) -> Handle:
    """The handler as a coroutine function; some handlers answer at once."""

    async def story(broker: BrokerParts, request: Any, context: RequestContext) -> Any:
        handled = route.handle(broker, request, context)
        return handled if is_answer(handled, route.response_class) else await handled

    return story


def _failing(handle: Handle, api: ApiKey, injections: Injections, history: ClusterHistory) -> Handle:
    async def failing(broker: BrokerParts, request: Any, context: RequestContext) -> Any:
        rule = injections.match(api, broker.broker_id, context)
        if rule is None:
            return await handle(broker, request, context)
        rule.hits += 1
        name = f"broker {broker.broker_id}"
        if rule.delay is not None:
            history.note(name, f"{api.name} waits {rule.delay:g} s, as the test asked")
            await asyncio.sleep(rule.delay)
            return await handle(broker, request, context)
        how = "closes the connection" if rule.error is None else f"answers {rule.error.name}"
        history.note(name, f"{api.name} {how}{' after it was carried out' if rule.applied else ''}, as the test asked")
        fail_in_part = _FAIL_IN_PART.get(api)
        if api is ApiKey.METADATA and not rule.applied:
            request.allow_auto_topic_creation = False
        response = await handle(broker, request, context) if rule.applied or fail_in_part else None
        if type(response) is Pending:
            response = await response.answered()
        if rule.error is None:
            raise Disconnect("the test asked for it")
        if fail_in_part is not None:
            return fail_in_part(response, rule.error)
        if api is ApiKey.PRODUCE and request.acks == 0:
            raise Disconnect("the test asked for it")
        raise KafkaError(rule.error, "injected by the test")

    return failing


def _fetch_failed(response: Any, error: ErrorCode) -> Any:
    """A fetch fails by partition. It fails as a whole if it names no partition, or if its session fails."""
    if error in _OF_FETCH_SESSIONS:
        response.responses = []
    partitions = [partition for topic in response.responses for partition in topic.partitions]
    for partition in partitions:
        partition.error_code = error
        partition.high_watermark = -1
        partition.records = b""
    if not partitions:
        response.error_code = error
    return response


def _metadata_failed(response: Any, error: ErrorCode) -> Any:
    """Metadata fail by topic but contain the brokers: clients treat a broker that names none as one that has just
    started."""
    for topic in response.topics:
        topic.error_code = error
        topic.partitions = []
    return response


# The broker's usual answer, with the error in each entry.
_FAIL_IN_PART: dict[ApiKey, Callable[[Any, ErrorCode], Any]] = {
    ApiKey.FETCH: _fetch_failed,
    ApiKey.METADATA: _metadata_failed,
}


def _acknowledging(handle: Handle, history: ClusterHistory) -> Handle:
    async def acknowledging(broker: BrokerParts, request: Any, context: RequestContext) -> Any:
        if request.acks != ACKS_ALL:
            return await handle(broker, request, context)
        sent = {(topic.name, data.index): data.records for topic in request.topic_data for data in topic.partition_data}

        def note(response: Any) -> Any:
            for topic in () if response is None else response.responses:
                for answer in topic.partition_responses:
                    if not answer.error_code:
                        records = sent[topic.name, answer.index]
                        _acknowledge(broker, history, context, topic.name, answer, records)
            return response

        return _noted(await handle(broker, request, context), note)

    return acknowledging


def _noted(outcome: Any, note: Callable[[Any], Any]) -> Any:
    """The handler's result; its response is passed to `note`, now or once it is known."""
    if type(outcome) is not Pending:
        return note(outcome)
    return Pending(outcome.operation, lambda: note(outcome.answer()))


def _acknowledge(
    broker: BrokerParts, history: ClusterHistory, context: RequestContext, topic: str, answer: Any, records: Any
) -> None:
    topic_partition = TopicPartition(topic, answer.index)
    topic_id, converts = _topic(broker, topic_partition)
    last_offset, crc = answer.base_offset, None
    if context.version >= _BATCHES_SINCE and records[MAGIC_AT] == 2:
        header = parse_header(records)
        last_offset += header.last_offset_delta
        crc = None if converts else header.crc
    history.acknowledge(broker.broker_id, topic_id, topic_partition, answer.base_offset, last_offset, crc)


def _topic(broker: BrokerParts, topic_partition: TopicPartition) -> tuple[Uuid, bool]:
    """The topic's id, and whether its leader may rewrite batches, compressed anew or with its own timestamps."""
    log = broker.log_dirs.get(topic_partition)
    if log is None:
        return ZERO_UUID, True
    settings = log.settings
    return log.topic_id or ZERO_UUID, settings.log_append_time or settings.codec is not None


def _serving(handle: Handle, history: ClusterHistory) -> Handle:
    async def serving(broker: BrokerParts, request: Any, context: RequestContext) -> Any:
        outcome = await handle(broker, request, context)
        replica = request.replica_id if context.version < 15 else request.replica_state.replica_id
        if replica != _CONSUMER or context.version < _STORED_SINCE:
            return outcome

        def note(response: Any) -> Any:
            for topic in response.responses:
                for partition in topic.partitions:
                    if partition.records:
                        name = topic.topic or broker.metadata.topic_name(topic.topic_id) or ""
                        _serve(broker, history, TopicPartition(name, partition.partition_index), partition.records)
            return response

        return _noted(outcome, note)

    return serving


def _serve(broker: BrokerParts, history: ClusterHistory, topic_partition: TopicPartition, records: Any) -> None:
    topic_id, _ = _topic(broker, topic_partition)
    log = broker.log_dirs.get(topic_partition)
    if log is not None and log.settings.compact:
        return  # the cleaner rewrites batches and leaves records out
    if isinstance(records, FileRecords):
        records = records.read()
    try:
        for header, _, _ in batches(records):
            history.serve(broker.broker_id, topic_id, topic_partition, header.base_offset, header.crc)
    except WireError as error:
        history.contradictions.append(f"{topic_partition}: a consumer received bytes that cannot be read ({error})")


def follow_high_watermarks(broker: Broker, history: ClusterHistory) -> None:
    """Records the changes of high watermarks on a started broker."""
    replicas = broker.replicas
    moved = replicas.high_watermark_moved

    def noting(partition: Any) -> None:
        if partition.log is not None:
            history.high_watermark(broker.broker_id, partition.topic_partition, partition.log.high_watermark)
        moved(partition)

    replicas.high_watermark_moved = noting
    replicas.purgatories.high_watermark_moved = noting  # type: ignore[method-assign]
