"""Where an answer differs from Apache Kafka's, and why it may; docs/conformance.md has the numbers."""

from __future__ import annotations

from typing import Any

from answers.asking import CLOSED, SILENCE
from drawn.drawer import Asked

from barnabas.model.errors import ErrorCode
from barnabas.wire.api import ApiKey

UNKNOWN_KEY = "Unknown topic config name"
NOT_FOUND = ErrorCode.GROUP_ID_NOT_FOUND
GROUPS = (ApiKey.LIST_GROUPS, ApiKey.DESCRIBE_GROUPS, ApiKey.OFFSET_DELETE, ApiKey.DELETE_GROUPS)


def reason(asked: Asked, ours: Any, apaches: Any) -> str | None:
    """None where they may not."""
    failed = apaches in (SILENCE, CLOSED) or "'error_code': -1" in repr(apaches)
    if failed and ours not in (SILENCE, CLOSED) and "'error_code': -1" not in repr(ours):
        return "Apache's handler fails (3)"
    if "=[]" in repr(asked.message):
        return "a topic without partitions (2)"
    if asked.key in (ApiKey.LIST_OFFSETS, ApiKey.DESCRIBE_CONFIGS) and asked.version == 0:
        return "version 0 (8, 11)"
    if asked.key is ApiKey.FETCH and asked.version < 3:
        return "a part of a batch (5)"
    if asked.key is ApiKey.PRODUCE and asked.version < 3 and "'cut'" in repr(asked.message):
        return "no whole batch (4)"
    if asked.key is ApiKey.WRITE_TXN_MARKERS and any(
        each in repr(asked.message) for each in ("producer_id=-", "producer_epoch=-")
    ):
        return "a marker of no producer (10)"
    if (
        repr(ours).count(UNKNOWN_KEY) == repr(apaches).count(UNKNOWN_KEY) == 1
        and repr(asked.message).count("name=") > 2
    ):
        return "of several unknown keys Apache names any"
    if asked.key in GROUPS and _without_nobodys_groups(ours) == _without_nobodys_groups(apaches):
        return "a refused join or commit leaves no empty group"
    if asked.key is ApiKey.DESCRIBE_TRANSACTIONS and _without_begins(ours) == _without_begins(apaches):
        return "an empty transaction has no time at which it began"
    return None


def _without_nobodys_groups(answer: Any) -> Any:
    """Nor what becomes of them, which is to be found in one answer only."""
    if not isinstance(answer, dict):
        return answer
    groups = answer.get("groups", answer.get("results", []))
    return [each for each in groups if each.get("protocol_type") or each.get("error_code", 0) not in (0, NOT_FOUND)]


def _without_begins(answer: Any) -> Any:
    if isinstance(answer, dict):
        begun = answer.get("transaction_state") != "Empty"
        return {
            key: _without_begins(value) for key, value in answer.items() if begun or key != "transaction_start_time_ms"
        }
    return [_without_begins(each) for each in answer] if isinstance(answer, list) else answer
