"""Which names a topic may have (Kafka's ``org.apache.kafka.common.internals.Topic``). Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from barnabas.model.errors import ErrorCode, KafkaError

MAX_NAME_LENGTH: Final = 249

_LEGAL: Final = re.compile(r"[a-zA-Z0-9._-]+\Z")


def validate_topic_name(name: str) -> None:
    """Raises INVALID_TOPIC_EXCEPTION, which tells the allowed names."""
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > MAX_NAME_LENGTH:
        reason = f"the length of '{name}' is longer than the max allowed length {MAX_NAME_LENGTH}"
    elif _LEGAL.match(name) is None:
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    else:
        return
    raise KafkaError(ErrorCode.INVALID_TOPIC_EXCEPTION, f"Topic name is invalid: {reason}")


def colliding_topics(name: str, existing: Iterable[str]) -> list[str]:
    """Topics whose metrics would have the same name: metrics do not distinguish '.' and '_'."""
    if "." not in name and "_" not in name:
        return []
    unified = name.replace(".", "_")
    return sorted(other for other in existing if other.replace(".", "_") == unified)
