"""Asks a broker, and tells its answer without what differs from run to run."""

from __future__ import annotations

import base64
import os
import re
import socket
import ssl
import struct
import time
from collections.abc import Mapping
from functools import cache
from typing import Any, NamedTuple

from answers.world import World

from barnabas.broker.router import HANDLED
from barnabas.client.asking import finished
from barnabas.client.handshake import authenticate
from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.security.sasl.login import Doors, SaslLogin
from barnabas.wire.frames import decode_response, encode_request, response_class
from barnabas.wire.message import Message
from barnabas.wire.schema import message_schema
from barnabas.wire.structs import Struct

NO_ANSWER_S = 2.0
LOGIN_S = 30.0
CLOSED = "the connection is closed"
SILENCE = "no answer"

LEFT_OUT = {
    "throttle_time_ms", "port", "unknown_tagged_fields", "cluster_id", "total_bytes", "usable_bytes", "partition_size",
    "log_dir",
}  # fmt: skip
BROKERS = {
    "node_id", "leader_id", "controller_id", "broker_id", "preferred_read_replica", "replica_nodes", "isr_nodes",
    "offline_replicas", "eligible_leader_replicas", "last_known_elr",
}  # fmt: skip
IDS = {
    "producer_id", "session_id", "member_id", "leader", "finalized_features_epoch", "producer_id_start", "token_id",
}  # fmt: skip
TIMES = {
    "log_append_time_ms", "transaction_start_time_ms", "last_timestamp", "timestamp", "client_host",
    "issue_timestamp_ms", "expiry_timestamp_ms", "max_timestamp_ms", "issue_timestamp", "expiry_timestamp",
    "max_timestamp",
}  # fmt: skip
OWN_VALUE = {
    "log.dirs", "log.dir", "listeners", "advertised.listeners", "zookeeper.connect", "broker.id", "node.id",
}  # fmt: skip
"""Configurations that no two brokers have the same of."""
MESSAGES = {"error_message", "batch_index_error_message"}
"""Null or not, empty or not, and worded alike: only numbers, addresses and lists without an order are left out."""
_ADDRESS = re.compile(r"\b(localhost|127\.0\.0\.1)(:\d+)?")
_NUMBER = re.compile(r"(?<![A-Za-z])-?\d+(\.\d+)?")
_ID = re.compile(r"\b[A-Za-z0-9_-]{22}\b")
NUMBERED = re.compile(r"\b(topic|group|transaction|absent)-\d+")


class Entrance(NamedTuple):
    """How a listener is come in by: its port by the broker's plain one."""

    ports: Mapping[int, int]
    tls: ssl.SSLContext | None
    login: SaslLogin | None


class Asked:
    """A connection that asks one broker again and again, whatever became of the request before."""

    def __init__(self, world: World, source: str = "127.0.0.1", entrance: Entrance | None = None) -> None:
        """`source` is the address that the broker sees."""
        self.world = world
        self._source = source
        self._entrance = entrance
        self._socket: socket.socket | None = None
        self._port = 0

    def close(self) -> None:
        if self._socket is not None:
            self._socket.close()
            self._socket = None

    def ask(self, port: int, body: bytes, message: Message, version: int) -> Any:
        """What is said to the frame `body`, which is a request like `message`: a masked answer or why there is none."""
        if self._socket is None or self._port != port:
            self.close()
            self._connect(port)
        assert self._socket is not None
        self._socket.settimeout(NO_ANSWER_S)
        try:
            frame = self._exchange(body)
        except TimeoutError:
            self.close()
            return SILENCE
        except OSError:
            self.close()
            return CLOSED
        _, answer = decode_response(response_class(message.api_key), version, frame)
        return masked(answer, self.world, strings_in(message), version)

    def _connect(self, port: int) -> None:
        real = self._entrance.ports[port] if self._entrance else port
        self._socket = socket.create_connection(("127.0.0.1", real), LOGIN_S, (self._source, 0))
        self._socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._port = port
        if self._entrance is not None and self._entrance.tls is not None:
            self._socket = self._entrance.tls.wrap_socket(self._socket, server_hostname="127.0.0.1")
        if self._entrance is not None and self._entrance.login is not None:
            nonce = base64.b64encode(os.urandom(24)).decode()
            doors = Doors("127.0.0.1", nonce, time.time_ns() // 1_000_000, _nothing, _nothing)
            finished(authenticate(self._say, str(real), self._entrance.login, doors))

    async def _say(self, message: Any, version: int | None) -> Any:
        version = 1 if version is None else version
        return decode_response(response_class(message.api_key), version, self._exchange(frame_of(message, version)))[1]

    def _exchange(self, body: bytes) -> bytes:
        assert self._socket is not None
        self._socket.sendall(struct.pack(">i", len(body)) + body)
        (size,) = struct.unpack(">i", self._exactly(4))
        return self._exactly(size)

    def _exactly(self, count: int) -> bytes:
        assert self._socket is not None
        parts = bytearray()
        while len(parts) < count:
            received = self._socket.recv(count - len(parts))
            if not received:
                raise ConnectionError("closed")
            parts += received
        return bytes(parts)


def _nothing(*_: Any) -> Any:
    raise AssertionError("a password is all it takes")


def frame_of(message: Message, version: int) -> bytes:
    """The request as it goes over the wire, without its size."""
    return b"".join(encode_request(message, version, 1, "answers"))[4:]


def strings_in(value: Any) -> set[str]:
    """Every string of a message."""
    if isinstance(value, str):
        return {value}
    if isinstance(value, list):
        return {found for each in value for found in strings_in(each)}
    if isinstance(value, Struct):
        return {found for name in _fields(value) for found in strings_in(getattr(value, name))}
    return set()


def _fields(value: Struct) -> list[str]:
    return [name for kind in type(value).__mro__ for name in getattr(kind, "__slots__", ())]


@cache
def _fields_of(kind: type[Struct], version: int) -> tuple[str, ...]:
    """The fields that the version has: what it has not was not said."""
    message, _, struct_name = kind.__qualname__.partition(".")
    schema = message_schema(message)
    fields = (schema.structs[struct_name] if struct_name else schema.root).fields
    return tuple(each.attribute for each in fields if version in each.versions and each.attribute not in LEFT_OUT)


def _name(value: Struct) -> str | None:
    """The topic, group or transaction that a part of an answer speaks of."""
    for attribute in ("topic_name", "topic", "group_id", "transactional_id", "name"):
        found = getattr(value, attribute, None)
        if isinstance(found, str) and found:
            return found
    return None


def _asked_for(each: Any, asked: set[str]) -> bool:
    if getattr(each, "api_key", None) is not None:
        return each.api_key in HANDLED  # what else Apache's offers stands in docs/conformance.md
    name = _name(each) if isinstance(each, Struct) else None
    if name is None or name in asked:
        return True
    return not (NUMBERED.fullmatch(name) or name.startswith(("__", "barnabas.", "org.apache.kafka.")))


def masked(value: Any, world: World, asked: set[str], version: int, field: str = "") -> Any:
    """Plain values. Ids, times and ports are left out, and so is what others than the asker made: other topics, groups
    and transactions, where all were asked for."""
    if isinstance(value, Struct):
        own = getattr(value, "name", None) in OWN_VALUE
        return {
            name: masked(getattr(value, name), world, asked, version, name)
            for name in _fields_of(type(value), version)
            if not (own and name == "value")
        }
    if isinstance(value, list):
        return sorted(
            (masked(each, world, asked, version, field) for each in value if _asked_for(each, asked)), key=repr
        )
    if isinstance(value, Uuid) or (isinstance(value, bytes) and "id" in field and len(value) == 16):
        return "no id" if value == ZERO_UUID else "asked" if value == Uuid(b"absent topic id!") else "an id"
    if field in BROKERS and isinstance(value, int) and value >= 0:
        return "home" if value == world.home else "other" if value == world.other else value
    if field == "resource_name" and value == str(world.home):
        return "home"
    if field in IDS and value not in (0, -1, ""):
        return "an id"
    if field in ("base_offset", "low_watermark") and value > 0:
        return "an offset"
    if field in TIMES and value != -1:
        return "a time"
    if isinstance(value, memoryview | bytearray | bytes):
        return "a secret" if field == "hmac" and value else bytes(value).hex()
    if field in MESSAGES and isinstance(value, str):
        return _NUMBER.sub("#", _ID.sub("an id", _ADDRESS.sub("an address", NUMBERED.sub(r"\1-N", value))))
    if isinstance(value, str):
        return NUMBERED.sub(r"\1-N", value)
    if isinstance(value, float):
        return repr(value)
    return int(value) if isinstance(value, int) else value
