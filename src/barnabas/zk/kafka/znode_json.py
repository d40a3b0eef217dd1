"""The content of Kafka's znodes: JSON, numbers, percent-encoded names; and the errors for any other content."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any, Final
from urllib.parse import quote, unquote


class ZNodeError(ValueError):
    """The bytes in a znode are not Kafka's content; the text names the znode and shows them."""


SHOWN_BYTES_MAX: Final = 200


def shown(data: bytes | None) -> str:
    """The bytes of a znode for a log line, shortened."""
    if data is None or len(data) <= SHOWN_BYTES_MAX:
        return repr(data)
    return f"{data[:SHOWN_BYTES_MAX]!r}.. ({len(data)} bytes)"


def int32(value: Any, least: int = -(1 << 31)) -> int:
    """A number of a znode's JSON, for a field that is an int in Kafka. Raises ``ValueError`` for one out of its range.

    It goes into requests to every broker, which have no room for a larger one.
    """
    number = int(value)
    if not least <= number < 1 << 31:
        raise ValueError(f"{number} is no int from {least} on")
    return number


def followed_epoch(value: Any) -> int:
    """An epoch below the largest int: the next epoch goes into requests to every broker as well."""
    return int32(int32(value, 0) + 1) - 1


def json_bytes(value: Mapping[str, Any]) -> bytes:
    return json.dumps(value, separators=(",", ":"), ensure_ascii=False).encode()


def parsed_json(path: str, data: bytes | None) -> dict[str, Any]:
    """The JSON object in the znode at `path`. Raises `ZNodeError`."""
    try:
        value = json.loads(data or b"")
    except (ValueError, RecursionError) as error:
        raise ZNodeError(f"{path} does not hold JSON ({error}): {shown(data)}") from None
    if not isinstance(value, dict):
        raise ZNodeError(f"{path} does not hold a JSON object: {shown(data)}")
    return value


_BAD_FIELD: Final = (KeyError, TypeError, ValueError, AttributeError, OverflowError)


class Reading:
    """Reads fields of a parsed znode and names it when one is missing or of another type."""

    __slots__ = ("_data", "_path")

    def __init__(self, path: str, data: bytes | None) -> None:
        self._path = path
        self._data = data

    def __enter__(self) -> dict[str, Any]:
        return parsed_json(self._path, self._data)

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, _: object) -> None:
        if isinstance(error, _BAD_FIELD) and not isinstance(error, ZNodeError):
            raise ZNodeError(f"{self._path} holds something else than Kafka writes ({error!r}): {shown(self._data)}")


def sequence_number(name: str, prefix: str) -> int | None:
    """The number that ZooKeeper gave a sequential znode; None if `name` does not begin with `prefix`."""
    digits = name.rpartition("/")[2].removeprefix(prefix)
    return int(digits) if digits != name.rpartition("/")[2] and digits.isascii() and digits.isdigit() else None


def sanitize(name: str) -> str:
    """`name`, percent-encoded for a path or entity name (Kafka's ``Sanitizer``)."""
    return quote(name, safe="").replace("~", "%7E")


def is_entity_name(name: str) -> bool:
    """Whether a znode can have this name once it is sanitized: all but ``.`` and ``..``."""
    return name not in (".", "..")


def desanitize(name: str) -> str:
    return unquote(name)
