"""Our bytes beside those of independent implementations: Kafka's own classes, and PyPI's ``kio``."""

from __future__ import annotations

import importlib
import io
import json
import re
import subprocess
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import apache
import pytest
from wire_messages import (
    ALL_MESSAGES,
    ALL_VERSIONS,
    ByChance,
    as_kafka_prints,
    message_by,
    message_class,
    versions_of,
)

from barnabas.wire.generate import module_name
from barnabas.wire.message import Message
from barnabas.wire.schema import message_schema

MESSAGES_EACH = 4
IN_KIO = [
    name
    for name in ALL_MESSAGES
    # Share groups were unfinished in 3.9: 4.x gave the same version numbers other fields.
    if message_schema(name).kind in ("request", "response")
    and "Share" not in name
    # It has neither LeaderAndIsr, StopReplica, UpdateMetadata nor ControlledShutdown, which 4.0 removed.
    and find_spec(f"kio.schema.{module_name(message_schema(name))}") is not None
]


def _examples(name: str, version: int) -> list[Message]:
    chosen = [message_by(ByChance((name, version, seed)), name, version) for seed in range(MESSAGES_EACH)]
    return [message_class(name)(), *chosen]


@pytest.fixture(scope="module")
def kafkas_answers() -> dict[tuple[str, int], list[str]]:
    """What Kafka's classes made of our bytes, by message and version: one run of Java for all."""
    apache.require()
    lines = []
    keys = []
    for name, version in ALL_VERSIONS:
        for message in _examples(name, version):
            keys.append((name, version))
            lines.append(f"{name} {version} {message.encode(version).hex()}\n")
    harness = Path(__file__).with_name("WireOracle.java")
    done = subprocess.run(
        apache.program_command(harness),
        input="".join(lines), capture_output=True, text=True, check=True, timeout=240, encoding="utf-8",
    )  # fmt: skip
    answers: dict[tuple[str, int], list[str]] = {}
    for key, answer in zip(keys, done.stdout.split("\n")[:-1], strict=True):
        answers.setdefault(key, []).append(answer)
    return answers


@pytest.mark.apache
@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_kafka_reads_what_was_meant_and_writes_the_same_bytes(
    name: str, kafkas_answers: dict[tuple[str, int], list[str]]
) -> None:
    for version in versions_of(name):
        for message, answer in zip(_examples(name, version), kafkas_answers[name, version], strict=True):
            assert not answer.startswith("!"), f"{name} v{version}: {answer}\n{message}"
            written, _, printed = answer.partition("\t")
            ours = message.encode(version)
            assert bytes.fromhex(written) == ours, f"v{version} {message}"
            assert _without_records(json.loads(printed)) == as_kafka_prints(message, version), f"v{version}"


def _without_records(value: Any) -> Any:
    """The converter prints records as nothing, or as the number of their bytes."""
    if isinstance(value, dict):
        return {
            key: _without_records(each) for key, each in value.items() if key not in ("records", "unalignedRecords")
        }
    if isinstance(value, list):
        return [_without_records(each) for each in value]
    return value


def _as_kio_allows(value: Any) -> Any:
    """The same message with known tags, errors that exist, and times that Python's ``datetime`` can hold."""
    if isinstance(value, list):
        for each in value:
            _as_kio_allows(each)
    for attribute in getattr(type(value), "__slots__", ()):
        held = getattr(value, attribute)
        if attribute == "unknown_tagged_fields":
            value.unknown_tagged_fields = None
        elif attribute.endswith("error_code"):
            setattr(value, attribute, held % 40)
        elif isinstance(held, int) and held != -1 and re.search("_ms$|time", attribute):
            setattr(value, attribute, held % 10**9)
        else:
            _as_kio_allows(held)
    return value


def _kio_entity(name: str, version: int) -> Any:
    schema = message_schema(name)
    leaf = {"request": "request", "response": "response", "header": "header", "data": "data"}[schema.kind]
    try:
        module = importlib.import_module(f"kio.schema.{module_name(schema)}.v{version}.{leaf}")
    except ImportError:
        return None
    return getattr(module, name, None)


@pytest.mark.parametrize("name", IN_KIO)
def test_kio_reads_and_writes_the_same_bytes(name: str) -> None:
    from kio.serial import entity_reader, entity_writer

    found = 0
    for version in versions_of(name):
        entity = _kio_entity(name, version)
        if entity is None:
            continue
        found += 1
        read, write = entity_reader(entity), entity_writer(entity)
        for message in _examples(name, version):
            ours = _as_kio_allows(message).encode(version)
            theirs = io.BytesIO()
            write(theirs, read(ours, 0)[0])
            assert theirs.getvalue() == ours, f"v{version} {message}"
    assert found, f"kio has no {name} in a version of Kafka 3.9"
