"""Reads the JSON files that operators give to tools, with Kafka's errors (``org.apache.kafka.server.util.json``)."""

from __future__ import annotations

import json
from typing import Any

from barnabas.cli.kafka_tools.errors import JavaError

MAPPING_EXCEPTION = "com.fasterxml.jackson.databind.JsonMappingException"
ADMIN_OPERATION = "org.apache.kafka.server.common.AdminOperationException"
ADMIN_COMMAND_FAILED = "org.apache.kafka.server.common.AdminCommandFailedException"


def read_text(path: str) -> str:
    """``Utils.readFileAsString``. Raises `JavaError`."""
    try:
        with open(path, encoding="utf-8") as file:
            return file.read()
    except (OSError, UnicodeDecodeError):
        raise JavaError("java.io.IOException", f"Unable to read file {path}") from None


def compact(value: Any) -> str:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False)


def parsed(text: str) -> Any:
    """None for text that is not JSON."""
    try:
        return json.loads(text)
    except ValueError:
        return None


def document_of(text: str) -> dict[str, Any]:
    """The object of a file of version 1. Raises `JavaError`."""
    document = parsed(text)
    if document is None:
        raise JavaError(ADMIN_OPERATION, "The input string is not a valid JSON")
    check_version(document)
    return as_object(document)


def check_version(document: Any) -> None:
    """Raises `JavaError` for a version other than 1, which is the default."""
    version = integer(as_object(document).get("version", 1))
    if version != 1:
        raise JavaError(ADMIN_OPERATION, f"Not supported version field value {version}")


def _mapping(message: str) -> JavaError:
    return JavaError(MAPPING_EXCEPTION, message)


def as_object(value: Any) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise _mapping(f"Expected JSON object, received {compact(value)}")
    return value


def as_array(value: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _mapping(f"Expected JSON array, received {compact(value)}")
    return value


def field(value: dict[str, Any], name: str) -> Any:
    if name not in value:
        raise _mapping(f"No such field exists: `{name}`")
    return value[name]


def integer(value: Any, bits: int = 32) -> int:
    name = "Integer" if bits == 32 else "Long"
    if not isinstance(value, int) or isinstance(value, bool) or not -(1 << bits - 1) <= value < 1 << bits - 1:
        raise _mapping(f"Expected `{name}` value, received {compact(value)}")
    return value


def string(value: Any) -> str:
    if not isinstance(value, str):
        raise _mapping(f"Expected `String` value, received {compact(value)}")
    return value


def listed(value: Any, of: Any) -> list[Any]:
    if not isinstance(value, list):
        raise _mapping(f"Expected `JSON array` value, received {compact(value)}")
    return [of(entry) for entry in value]
