"""A broker that is asked, and its names for what it gave ids to: the same thing has the same name on both sides."""

from __future__ import annotations

import copy
import re
import socket
import struct
from collections import Counter
from typing import Any, NamedTuple

from answers.asking import CLOSED, LEFT_OUT, OWN_VALUE, SILENCE, _fields, frame_of
from drawn.batches import Batches
from drawn.pools import ABSENT_ID

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.wire.errors import WireError
from barnabas.wire.frames import decode_response, response_class
from barnabas.wire.records import batches, records_of
from barnabas.wire.schema import message_schema
from barnabas.wire.structs import Struct

WAITED_S = 20.0
NOW_MS = 1_750_000_000_000
"""Times from here on are a broker's own, but for those that are far ahead."""
FAR_MS = 4_000_000_000_000
_LEFT = LEFT_OUT | {"client_host", "finalized_features_epoch"}
_MEMBER = re.compile(r".*-[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}").fullmatch
_EPISODE = re.compile(r"e\d+-").match
_OWN_WORDS = re.compile(
    r"(localhost|127\.0\.0\.1)(:\d+)?|[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}|\b[\w-]{22}\b"
    r"|\b1(7[5-9]|[89]\d)\d{10}\b"
)


class New(NamedTuple):
    """An id that was not seen before. They are named in the order of the sorted answer."""

    kind: str
    real: Any

    def __repr__(self) -> str:
        return f"new {self.kind}"


class Side:
    def __init__(self, port: int) -> None:
        self._port = port
        self._sockets: dict[str, socket.socket] = {}
        self.begin("")

    def begin(self, prefix: str) -> None:
        """An episode: what has another prefix belongs to one before."""
        self._prefix = prefix
        self._names: dict[New, Any] = {}
        self._reals: dict[Any, Any] = {}
        self.given: Counter[str] = Counter()
        """How many names of each kind there are."""

    def close(self) -> None:
        for name in list(self._sockets):
            self.leave(name)

    def leave(self, connection: str) -> None:
        self._sockets.pop(connection).close()

    def send(self, connection: str, message: Any, version: int) -> socket.socket:
        if connection not in self._sockets:
            self._sockets[connection] = socket.create_connection(("127.0.0.1", self._port), WAITED_S)
        frame = frame_of(self._resolved(message), version)
        self._sockets[connection].sendall(struct.pack(">i", len(frame)) + frame)
        return self._sockets[connection]

    def receive(self, connection: str, message: Any, version: int, seconds: float = WAITED_S) -> Any:
        """The masked answer, or why there is none; then the connection is closed."""
        try:
            self._sockets[connection].settimeout(seconds)
            (size,) = struct.unpack(">i", self._exactly(connection, 4))
            frame = self._exactly(connection, size)
        except OSError as error:
            self.leave(connection)
            return SILENCE if isinstance(error, TimeoutError) else CLOSED
        answer = decode_response(response_class(message.api_key), version, frame)[1]
        return self._named(_sorted(self._masked(answer, version, "")))

    def _exactly(self, connection: str, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            received = self._sockets[connection].recv(count - len(found))
            if not received:
                raise ConnectionError("closed")
            found += received
        return bytes(found)

    def _real(self, name: Any) -> Any:
        return self._reals.get(name, name)

    def _resolved(self, value: Any) -> Any:
        """A request with this broker's own ids."""
        if isinstance(value, Batches):
            return value.encoded(self._real)
        if isinstance(value, list):
            return [self._resolved(each) for each in value]
        if isinstance(value, Struct):
            made = copy.copy(value)
            for name in _fields(value):
                setattr(made, name, self._resolved(getattr(value, name)))
            return made
        return self._real(value)

    def _masked(self, value: Any, version: int, field: str) -> Any:
        if isinstance(value, Struct):
            return self._masked_struct(value, version)
        if isinstance(value, list):
            return [self._masked(each, version, field) for each in value if not self._is_of_another_episode(each)]
        if field == "records" and value is not None:
            return {"records": self._records(bytes(value))}
        if isinstance(value, Uuid) and value not in (ZERO_UUID, ABSENT_ID):
            return self._known("topic", value)
        if field in ("producer_id", "session_id") and value > (0 if field == "session_id" else -1):
            return self._known(field, value)
        if field in ("member_id", "leader") and isinstance(value, str) and _MEMBER(value):
            return self._known("member", value)
        if isinstance(value, memoryview | bytearray | bytes) and not isinstance(value, Uuid):
            return bytes(value).hex()
        if isinstance(value, int) and not isinstance(value, bool):
            return _time(value)
        return _OWN_WORDS.sub("its own", value) if field.endswith("error_message") and value else value

    def _masked_struct(self, value: Struct, version: int) -> dict[str, Any]:
        message, _, name = type(value).__qualname__.partition(".")
        schema = message_schema(message)
        own = getattr(value, "name", None) in OWN_VALUE
        found = {
            field.attribute: self._masked(getattr(value, field.attribute), version, field.attribute)
            for field in (schema.structs[name] if name else schema.root).fields
            if version in field.versions and field.attribute not in _LEFT and not (own and field.attribute == "value")
        }
        if message == "FetchResponse" and not name:
            found["responses"] = _merged(found["responses"])
        return found

    def _is_of_another_episode(self, each: Any) -> bool:
        names = [getattr(each, name, None) for name in ("topic", "name", "group_id", "transactional_id", "user")]
        others = [name for name in names if isinstance(name, str) and _EPISODE(name)]
        return any(not name.startswith(self._prefix) for name in others) or str(names[1]).startswith("barnabas.")

    def _known(self, kind: str, real: Any) -> Any:
        return self._names.get(New(kind, real), New(kind, real))

    def _named(self, value: Any) -> Any:
        if isinstance(value, New):
            if value not in self._names:
                number = self.given[value.kind]
                self.given[value.kind] += 1
                name = {
                    "topic": Uuid(b"topic %10d" % number),
                    "producer_id": (1 << 40) + number,
                    "session_id": (1 << 28) + number,
                    "member": f"member {number}",
                }[value.kind]
                self._names[value], self._reals[name] = name, value.real
            return self._names[value]
        if isinstance(value, dict):
            return {key: self._named(each) for key, each in value.items()}
        return [self._named(each) for each in value] if isinstance(value, list) else value

    def _records(self, content: bytes) -> tuple[Any, ...]:
        """The headers and the records: brokers of different languages compress to different bytes."""
        found: list[Any] = []
        end = 0
        for header, start, end in batches(content):
            producer = self._known("producer_id", header.producer_id) if header.producer_id >= 0 else -1
            told = header._replace(length=0, crc=0, producer_id=producer, max_timestamp=_time(header.max_timestamp))
            try:
                records = [] if header.is_control else records_of(content, start, end)
            except WireError as error:
                found.append(str(error))
            else:
                found.append([repr(told), *(repr(each._replace(timestamp=_time(each.timestamp))) for each in records)])
        return (*map(repr, found), len(content) - end)


def _time(value: int) -> Any:
    return "now" if NOW_MS < value < FAR_MS else value


def _merged(topics: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """One entry for each topic: Apache's names a topic again after a partition with an error."""
    found: dict[str, dict[str, Any]] = {}
    for topic in topics:
        known = found.setdefault(repr((topic.get("topic"), topic.get("topic_id"))), {**topic, "partitions": []})
        known["partitions"] += topic["partitions"]
    return list(found.values())


def _sorted(value: Any) -> Any:
    if isinstance(value, dict):
        return {key: _sorted(each) for key, each in value.items()}
    return sorted(map(_sorted, value), key=repr) if isinstance(value, list) else value
