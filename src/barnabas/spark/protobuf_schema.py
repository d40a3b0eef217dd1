"""Protobuf schemas from their text: compiled by protoc into descriptors, and the column type of a message."""

from __future__ import annotations

import base64
import re
import subprocess
import tempfile
from collections.abc import Iterable, Sequence
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory
from google.protobuf.descriptor import Descriptor, FieldDescriptor
from google.protobuf.message import DecodeError

from barnabas.runtime.started_process import PYTHON

_NAME: Final = "barnabas_registry_value.proto"
"""A name for the schema's file, since the registry has none; no import may have the same."""
_COMPILER_S: Final = 60
_MAP_ENTRY: Final = re.compile(r"\boption\s+map_entry\s*=\s*true\s*;")
"""The form in which Confluent's serializer for Java writes the entry of a map, and which protoc refuses."""
_MARK: Final = "option no_standard_descriptor_accessor = true;"
"""An option that protoc accepts, and that no schema uses."""
TIMESTAMP: Final = "google.protobuf.Timestamp"
DURATION: Final = "google.protobuf.Duration"
WRAPPERS: Final = {
    f"google.protobuf.{name}Value"
    for name in ("Double", "Float", "Int64", "UInt64", "Int32", "UInt32", "Bool", "String", "Bytes")
}
_TYPES: Final = {
    FieldDescriptor.CPPTYPE_INT32: "int",
    FieldDescriptor.CPPTYPE_INT64: "bigint",
    FieldDescriptor.CPPTYPE_UINT32: "bigint",
    FieldDescriptor.CPPTYPE_UINT64: "decimal(20,0)",
    FieldDescriptor.CPPTYPE_DOUBLE: "double",
    FieldDescriptor.CPPTYPE_FLOAT: "float",
    FieldDescriptor.CPPTYPE_BOOL: "boolean",
    FieldDescriptor.CPPTYPE_ENUM: "string",
    FieldDescriptor.CPPTYPE_STRING: "string",
}

_WIDER: Final = {
    (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_INT64),
    (FieldDescriptor.TYPE_INT32, FieldDescriptor.TYPE_ENUM),
    (FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_INT32),
    (FieldDescriptor.TYPE_ENUM, FieldDescriptor.TYPE_INT64),
    (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_UINT64),
    (FieldDescriptor.TYPE_UINT32, FieldDescriptor.TYPE_INT64),
    (FieldDescriptor.TYPE_SINT32, FieldDescriptor.TYPE_SINT64),
    (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_INT32),
    (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_INT64),
    (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_UINT32),
    (FieldDescriptor.TYPE_BOOL, FieldDescriptor.TYPE_UINT64),
    (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES),
    (FieldDescriptor.TYPE_BYTES, FieldDescriptor.TYPE_STRING),
    (FieldDescriptor.TYPE_MESSAGE, FieldDescriptor.TYPE_BYTES),
}
"""Pairs of a writer's and a reader's type, by which each value stays the same, or fails as invalid text."""


class ProtobufSchema:
    """A file's messages."""

    def __init__(self, text: str, imports: Sequence[tuple[str, str]] = ()) -> None:
        """Raises ``ValueError`` for a text that protoc refuses."""
        self._pool = descriptor_pool.DescriptorPool()
        for file in _compiled(text, tuple(imports)).file:
            self._pool.Add(file)
        self._file = self._pool.FindFileByName(_NAME)
        self._messages = [self._pool.FindMessageTypeByName(_full(self._file, name)) for name in _declared(self._file)]
        self._declares_entries = _MAP_ENTRY.search(text) is not None or _as_descriptor(text) is not None

    def named(self, name: str | None) -> Descriptor:
        """A message by its full name, or the first. Raises ``ValueError``."""
        if name is None:
            if not self._messages:
                raise ValueError("the Protobuf schema declares no message")
            return self._messages[0]
        try:
            found = self._pool.FindMessageTypeByName(name)
        except KeyError:
            found = None
        if found is None or found.file.name != _NAME:
            told = ", ".join(message.full_name for message in self._messages)
            raise ValueError(f"the Protobuf schema declares no message {name}; it declares {told}")
        return found

    def at(self, indexes: Sequence[int]) -> Descriptor:
        """The message at Confluent's message indexes: in the file, then in that message, .. Raises ``ValueError``."""
        level = self._messages
        for index in indexes:
            if not 0 <= index < len(level):
                raise ValueError(f"its message indexes {list(indexes)} are of no message of its Protobuf schema")
            found, level = level[index], self._nested(level[index])
        return found

    def indexes_of(self, message: Descriptor) -> list[int]:
        """Where `at` finds it."""
        if message.containing_type is None:
            return [_declared(message.file).index(message.name)]
        return [*self.indexes_of(message.containing_type), self._nested(message.containing_type).index(message)]

    def _nested(self, message: Descriptor) -> list[Descriptor]:
        """The messages that count in it: an entry of a map does where the schema declares it as one, which a text with
        ``map<..>`` does not (Confluent's ``ProtobufSchema.toMessageIndexes``)."""
        return [each for each in message.nested_types if self._declares_entries or not each.GetOptions().map_entry]


def require_same(written: Descriptor, expected: Descriptor) -> None:
    """Raises ``ValueError`` if a field of the writer has another type than the reader's field of that number.

    The bytes do not show it: Protobuf would read an ``int32`` of 10 as a ``sint32`` of 5, and it skips what it cannot
    read, like a field of a later schema.
    """
    theirs = {field.number: field for field in written.fields}
    for field in expected.fields:
        other = theirs.get(field.number, field)
        lost = other.is_repeated and not field.is_repeated
        if lost or not (other.type == field.type or (other.type, field.type) in _WIDER):
            raise ValueError(
                f"the writer's {other.full_name} is {_told(other)}, and {field.full_name} is {_told(field)}"
            )
        if other is not field and other.message_type is not None and field.message_type is not None:
            require_same(other.message_type, field.message_type)


def _told(field: FieldDescriptor) -> str:
    name: str = descriptor_pb2.FieldDescriptorProto.Type.Name(field.type).removeprefix("TYPE_").lower()
    return f"repeated {name}" if field.is_repeated else name


def message_class(message: Descriptor) -> Any:
    return message_factory.GetMessageClass(message)


def is_map(field: FieldDescriptor) -> bool:
    return bool(field.message_type is not None and field.message_type.GetOptions().map_entry)


def spark_type(message: Descriptor, inside: tuple[str, ...] = ()) -> str:
    """In Spark's DDL. Raises ``ValueError`` for a message that contains itself."""
    if message.full_name in inside:
        raise ValueError(f"the Protobuf schema's {message.full_name} contains itself, which no Spark column can hold")
    within = (*inside, message.full_name)
    return f"struct<{','.join(f'`{field.name}`:{_field_type(field, within)}' for field in message.fields)}>"


def _field_type(field: FieldDescriptor, inside: tuple[str, ...]) -> str:
    if is_map(field):
        key, value = (field.message_type.fields_by_name[name] for name in ("key", "value"))
        return f"map<{_single_type(key, inside)},{_single_type(value, inside)}>"
    one = _single_type(field, inside)
    return f"array<{one}>" if field.is_repeated else one


def _single_type(field: FieldDescriptor, inside: tuple[str, ...]) -> str:
    if field.message_type is None:
        return "binary" if field.type == FieldDescriptor.TYPE_BYTES else _TYPES[field.cpp_type]
    name = field.message_type.full_name
    if name == TIMESTAMP:
        return "timestamp"
    if name == DURATION:
        return "interval day to second"
    if name in WRAPPERS:
        return _single_type(field.message_type.fields_by_name["value"], inside)
    return spark_type(field.message_type, inside)


def _declared(file: Any) -> list[str]:
    """The names of a file's messages in order, which the message indexes count."""
    proto = descriptor_pb2.FileDescriptorProto()
    file.CopyToProto(proto)
    return [message.name for message in proto.message_type]


def _full(file: Any, name: str) -> str:
    return f"{file.package}.{name}" if file.package else name


@cache
def _compiled(text: str, imports: tuple[tuple[str, str], ...]) -> descriptor_pb2.FileDescriptorSet:
    """Parses the file and all its imports, by protoc in a process of its own, whose errors are on its stderr."""
    if find_spec("grpc_tools") is None:
        raise ModuleNotFoundError("No module named 'grpc_tools'", name="grpcio-tools")
    with tempfile.TemporaryDirectory(prefix="barnabas-protoc-") as place:
        compiled = descriptor_pb2.FileDescriptorSet()
        for name, source in (*imports, (_NAME, text)):
            path = Path(place, name).resolve()
            if not path.is_relative_to(Path(place).resolve()):
                raise ValueError(f"the Protobuf schema imports {name}, which is no name of a schema")
            if (file := _as_descriptor(source)) is not None:
                file.name = name
                compiled.file.append(file)
                continue
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(_MAP_ENTRY.sub(_MARK, source))
        given, out = Path(place, "given.descriptors"), Path(place, "descriptors")
        given.write_bytes(compiled.SerializeToString())
        command = [*PYTHON, "-m", "grpc_tools.protoc", f"-I{place}", "--include_imports"]
        told = subprocess.run(
            [*command, f"--descriptor_set_in={given}", f"--descriptor_set_out={out}", _NAME],
            capture_output=True,
            text=True,
            timeout=_COMPILER_S,
        )
        if told.returncode != 0:
            raise ValueError(f"the Protobuf schema cannot be compiled: {told.stderr.strip()[:1000]}")
        found = descriptor_pb2.FileDescriptorSet.FromString(out.read_bytes())
        for file in found.file:
            _mark_entries(file.message_type)
        return found


def _mark_entries(messages: Iterable[Any]) -> None:
    for message in messages:
        if message.options.no_standard_descriptor_accessor:
            message.options.ClearField("no_standard_descriptor_accessor")
            message.options.map_entry = True
        _mark_entries(message.nested_type)


def _as_descriptor(text: str) -> descriptor_pb2.FileDescriptorProto | None:
    """The form that confluent-kafka's serializer registers in place of a text: a descriptor in Base64."""
    if "{" in text or ";" in text:
        return None
    try:
        return descriptor_pb2.FileDescriptorProto.FromString(base64.b64decode(text, validate=True))
    except (ValueError, DecodeError):
        return None
