"""Rules about topics that Kafka's tools check without a broker: internal names, patterns, values of configurations."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from barnabas.cli.kafka_tools.errors import RUNTIME, JavaError
from barnabas.cli.kafka_tools.session import CONFIG_EXCEPTION
from barnabas.model.config import Definition, topic_definitions
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC

INTERNAL_TOPICS: Final = (GROUP_METADATA_TOPIC, TRANSACTION_STATE_TOPIC, "__share_group_state")

INVALID_CONFIGURATION: Final = "org.apache.kafka.common.errors.InvalidConfigurationException"
INVALID_TOPIC: Final = "org.apache.kafka.common.errors.InvalidTopicException"

_NAME_LENGTH_MAX: Final = 249
_NUMBERS: Final = {"int": "INT", "long": "LONG", "short": "SHORT", "double": "DOUBLE"}
_RANGE: Final = re.compile(r"^\[(-?[\d.]+),\.\.\.(?:,(-?[\d.]+))?\]")


def filter_pattern(text: str) -> re.Pattern[str]:
    """``TopicFilter.IncludeList``: commas separate alternatives; blanks and outer quotes are ignored."""
    pattern = text.strip().replace(",", "|").replace(" ", "").lstrip("\"'").rstrip("\"'")
    try:
        return re.compile(pattern)
    except re.error:
        raise JavaError(RUNTIME, f"{pattern} is an invalid regex.") from None


def check_topic_name(name: str) -> None:
    """``Topic.validate``. Raises `JavaError`."""
    reason = None
    if not name:
        reason = "the empty string is not allowed"
    elif name in (".", ".."):
        reason = f"'{name}' is not allowed"
    elif len(name) > _NAME_LENGTH_MAX:
        reason = f"the length of '{name}' is longer than the max allowed length {_NAME_LENGTH_MAX}"
    elif not re.fullmatch(r"[a-zA-Z0-9._-]+", name):
        reason = f"'{name}' contains one or more characters other than ASCII alphanumerics, '.', '_' and '-'"
    if reason is not None:
        raise JavaError(INVALID_TOPIC, f"Topic name is invalid: {reason}")


def check_topic_configs(configs: Mapping[str, str]) -> None:
    """``LogConfig.validate``: the names, then the values. Raises `JavaError`."""
    definitions = topic_definitions()
    for name in configs:
        if name not in definitions:
            raise JavaError(INVALID_CONFIGURATION, f"Unknown topic config name: {name}")
    for name, text in configs.items():
        refusal = _refusal(definitions[name], text.strip())
        if refusal is not None:
            shown, reason = refusal
            raise JavaError(CONFIG_EXCEPTION, f"Invalid value {shown} for configuration {name}: {reason}")


def _refusal(definition: Definition, text: str) -> tuple[str, str] | None:
    """Why Kafka's ConfigDef refuses a value: the value as it prints it, and the reason."""
    if definition.type == "boolean":
        good = text.lower() in ("true", "false")
        return None if good else (text, "Expected value to be either true or false")
    if definition.type in _NUMBERS:
        try:
            value = float(text) if definition.type == "double" else int(text)
        except ValueError:
            return text, f"Not a number of type {_NUMBERS[definition.type]}"
        bounds = _RANGE.match(definition.valid or "")
        if bounds is not None:
            low, high = bounds.groups()
            if value < float(low):
                return str(value), f"Value must be at least {low}"
            if high is not None and value > float(high):
                return str(value), f"Value must be no more than {high}"
        return None
    valid = definition.valid or ""
    if valid.startswith("[") and ":" not in valid and not definition.name.endswith("version"):
        allowed = [choice.strip() for choice in valid[1:-1].split(",")]
        for part in [part.strip() for part in text.split(",")] if definition.type == "list" else [text]:
            if part not in allowed:
                return part, f"String must be one of: {', '.join(allowed)}"
    return None
