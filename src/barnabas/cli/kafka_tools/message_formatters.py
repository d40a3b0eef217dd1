"""Kafka's formatters, by which the console consumer prints records, and their deserializers."""

from __future__ import annotations

import struct
import sys
import uuid
from collections.abc import Callable, Mapping
from typing import Any, Final, NamedTuple

from barnabas.cli.kafka_tools.errors import JavaError, log
from barnabas.cli.kafka_tools.java import double
from barnabas.cli.kafka_tools.json_files import compact
from barnabas.cli.kafka_tools.log_records import (
    group_key,
    group_value,
    offset_value,
    transaction_key,
    transaction_value,
)
from barnabas.wire.records import Record

SERIALIZATION: Final = "org.apache.kafka.common.errors.SerializationException"
_PACKAGE: Final = "org.apache.kafka.tools.consumer"
_SERIALIZERS: Final = "org.apache.kafka.common.serialization"


class ConsumedMessage(NamedTuple):
    topic: str
    partition: int
    timestamp_type: str
    """CreateTime or LogAppendTime; empty if the formatter does not show it."""
    record: Record


class Formatter:
    shows_timestamps = False

    def shown(self, message: ConsumedMessage) -> bytes:
        """The output for a record. Raises `JavaError` for a record that cannot be read."""
        return b""


def _fixed(name: str, format_: str, bits: int, show: Callable[[Any], str]) -> Callable[[bytes], bytes]:
    def deserialize(data: bytes) -> bytes:
        if len(data) * 8 != bits:
            raise JavaError(SERIALIZATION, f"Size of data received by {name} is not {bits // 8}")
        return show(struct.unpack(format_, data)[0]).encode()

    return deserialize


def _boolean(data: bytes) -> bytes:
    if len(data) != 1:
        raise JavaError(SERIALIZATION, "Size of data received by BooleanDeserializer is not 1")
    if data[0] > 1:
        raise JavaError(SERIALIZATION, f"Unexpected byte received by BooleanDeserializer: {data[0]}")
    return b"true" if data[0] else b"false"


def _uuid(data: bytes) -> bytes:
    text = data.decode("utf-8", "replace")
    try:
        return str(uuid.UUID(text)).encode()
    except ValueError:
        raise JavaError(SERIALIZATION, "Error parsing data into UUID") from None


def _string(data: bytes) -> bytes:
    return data.decode("utf-8", "replace").encode()


_DESERIALIZERS: Final[dict[str, Callable[[bytes], bytes]]] = {
    "StringDeserializer": _string,
    "ShortDeserializer": _fixed("ShortDeserializer", ">h", 16, str),
    "IntegerDeserializer": _fixed("IntegerDeserializer", ">i", 32, str),
    "LongDeserializer": _fixed("LongDeserializer", ">q", 64, str),
    "FloatDeserializer": _fixed("Deserializer", ">f", 32, lambda value: double(float(f"{value:.9g}"))),
    "DoubleDeserializer": _fixed("Deserializer", ">d", 64, double),
    "BooleanDeserializer": _boolean,
    "UUIDDeserializer": _uuid,
    "ByteArrayDeserializer": bytes,
}


def _deserializer(name: str | None) -> Callable[[bytes], bytes]:
    if name is None:
        return bytes
    found = _DESERIALIZERS.get(name.removeprefix(_SERIALIZERS + "."))
    if found is None or not name.startswith(_SERIALIZERS):
        log("ERROR", f"Unable to instantiate a deserializer from {name}", f"{_PACKAGE}.DefaultMessageFormatter")
        print(f"java.lang.ClassNotFoundException: {name}", file=sys.stderr)
        return bytes
    return found


class DefaultFormatter(Formatter):
    """``DefaultMessageFormatter``: the wanted ones of timestamp, partition, offset, headers, key and value."""

    def __init__(self, properties: Mapping[str, str]) -> None:
        def wanted(name: str, default: bool = False) -> bool:
            return properties[name].strip().lower() == "true" if name in properties else default

        def separator(name: str, default: str) -> bytes:
            return properties.get(name, default).encode()

        self.shows_timestamps = wanted("print.timestamp")
        self._partition = wanted("print.partition")
        self._offset = wanted("print.offset")
        self._headers = wanted("print.headers")
        self._key = wanted("print.key")
        self._value = wanted("print.value", True)
        self._columns = separator("key.separator", "\t")
        self._lines = separator("line.separator", "\n")
        self._between_headers = separator("headers.separator", ",")
        self._null = separator("null.literal", "null")
        self._read_key = _deserializer(properties.get("key.deserializer"))
        self._read_value = _deserializer(properties.get("value.deserializer"))
        self._read_header = _deserializer(properties.get("headers.deserializer"))

    def shown(self, message: ConsumedMessage) -> bytes:
        record = message.record
        columns: list[bytes] = []
        if self.shows_timestamps:
            columns.append(_timestamp(message))
        if self._partition:
            columns.append(b"Partition:%d" % message.partition)
        if self._offset:
            columns.append(b"Offset:%d" % record.offset)
        if self._headers:
            columns.append(self._shown_headers(record))
        if self._key:
            columns.append(self._read_key(self._null if record.key is None else bytes(record.key)))
        if self._value:
            columns.append(self._read_value(self._null if record.value is None else bytes(record.value)))
        return self._columns.join(columns) + self._lines if columns else b""

    def _shown_headers(self, record: Record) -> bytes:
        if not record.headers:
            return b"NO_HEADERS"
        return self._between_headers.join(
            name.encode() + b":" + self._read_header(self._null if value is None else bytes(value))
            for name, value in record.headers
        )


def _timestamp(message: ConsumedMessage) -> bytes:
    if message.record.timestamp < 0:
        return b"NO_TIMESTAMP"
    return f"{message.timestamp_type}:{message.record.timestamp}".encode()


class LoggingFormatter(DefaultFormatter):
    """``LoggingMessageFormatter``: as `DefaultFormatter`. Java's also logs records, at a level that the tools' log
    configuration does not show."""


class InternalFormatter(Formatter):
    """``ApiMessageFormatter``: a record of an internal topic as JSON; the key's version gives its type."""

    def __init__(self, key: Callable[[bytes], Any], value: Callable[[bytes], Any]) -> None:
        self._key = key
        self._value = value

    def shown(self, message: ConsumedMessage) -> bytes:
        shown: dict[str, Any] = {}
        for name, data, read in (
            ("key", message.record.key, self._key),
            ("value", message.record.value, self._value),
        ):
            if data is None:
                shown[name] = None
                continue
            found = read(bytes(data))
            if found is None and name == "key":
                return b""
            shown[name] = {"version": struct.unpack_from(">h", data)[0], "data": found}
        return compact(shown).encode()


def _of(wanted: str) -> Callable[[bytes], Any]:
    """A key of ``__consumer_offsets`` of this kind; None for a key of another kind."""

    def read(data: bytes) -> Any:
        kind, found = group_key(data)
        return found if kind in (wanted, "unknown") else None

    return read


FORMATTERS: Final[dict[str, Callable[[Mapping[str, str]], Formatter]]] = {
    f"{_PACKAGE}.DefaultMessageFormatter": DefaultFormatter,
    f"{_PACKAGE}.LoggingMessageFormatter": LoggingFormatter,
    f"{_PACKAGE}.NoOpMessageFormatter": lambda properties: Formatter(),
    f"{_PACKAGE}.OffsetsMessageFormatter": lambda properties: InternalFormatter(_of("offset"), offset_value),
    f"{_PACKAGE}.GroupMetadataMessageFormatter": lambda properties: InternalFormatter(_of("group"), group_value),
    f"{_PACKAGE}.TransactionLogMessageFormatter": lambda properties: InternalFormatter(
        transaction_key, transaction_value
    ),
}
_DEPRECATED: Final = {
    "kafka.tools.DefaultMessageFormatter": "DefaultMessageFormatter",
    "kafka.tools.LoggingMessageFormatter": "LoggingMessageFormatter",
    "kafka.tools.NoOpMessageFormatter": "NoOpMessageFormatter",
    "kafka.coordinator.transaction.TransactionLog$TransactionLogMessageFormatter": "TransactionLogMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$OffsetsMessageFormatter": "OffsetsMessageFormatter",
    "kafka.coordinator.group.GroupMetadataManager$GroupMetadataMessageFormatter": "GroupMetadataMessageFormatter",
}


def formatter_of(name: str, properties: Mapping[str, str]) -> Formatter:
    """Raises `JavaError` for a class that does not exist."""
    if name in _DEPRECATED:
        instead = f"{_PACKAGE}.{_DEPRECATED[name]}"
        print(
            f"WARNING: {name} is deprecated and will be removed in the next major release. Please use {instead} "
            "instead",
            file=sys.stderr,
        )
        name = instead
    if name not in FORMATTERS:
        raise JavaError("java.lang.ClassNotFoundException", name)
    return FORMATTERS[name](properties)
