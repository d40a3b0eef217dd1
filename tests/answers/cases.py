"""What is asked: of each API in each version a request that makes sense, and what can be wrong with it."""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

from answers.asking import Asked, frame_of
from answers.requests import delete_records, describe_producers, metadata
from answers.tables import REFUSED, SENSIBLE
from answers.together import together_of
from answers.variants import WORDS, Variant, variants
from answers.world import World

from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.message import Message
from barnabas.wire.messages.describe_log_dirs import DescribeLogDirsRequest

VALID = "as it is"
ABSENT = "of what is not there"
ELSEWHERE = "to the other broker"
TOO_NEW = "in version 99"
BROKEN: dict[str, Callable[[bytes], bytes]] = {
    "a byte short": lambda frame: frame[:-1],
    "7 bytes too long": lambda frame: frame + bytes(7),
    "half of it": lambda frame: frame[: len(frame) // 2],
    "a client id longer than the request": lambda frame: frame[:8] + struct.pack(">h", len(frame)) + frame[10:],
    TOO_NEW: lambda frame: frame[:2] + struct.pack(">h", 99) + frame[4:],
}
"""What is no request, whatever fields the API has: key, version, correlation id and client id come first in each."""

RECORDED = Path(__file__).with_name("recorded.json")
"""What Apache Kafka 3.9.2 answers, of every API's newest version; written by ``make conformance``."""


class Case(NamedTuple):
    key: ApiKey
    version: int
    name: str
    variant: Variant | None = None

    def __str__(self) -> str:
        return f"{self.key.name} {self.version} {self.name}"


def cases(key: ApiKey, version: int) -> Iterator[Case]:
    """The valid one is the first."""
    yield Case(key, version, VALID)
    if key in REFUSED:
        yield Case(key, version, ABSENT)
    for name in (ELSEWHERE, *BROKEN):
        yield Case(key, version, name)
    for variant in variants(_request_name(key), version):
        if (key, variant.name) != (ApiKey.CREATE_TOPICS, "topics.name='absent'"):  # it would be there from then on
            yield Case(key, version, variant.name, variant)
    for each in together_of(key, version):
        yield Case(key, version, each.name)


def every_version() -> list[tuple[ApiKey, int]]:
    return [(key, version) for key in SENSIBLE for version in range(SUPPORTED[key][0], SUPPORTED[key][1] + 1)]


def newest_versions() -> list[tuple[ApiKey, int]]:
    return [(key, SUPPORTED[key][1]) for key in SENSIBLE]


def digest(answer: Any) -> str:
    """A masked answer, in few enough characters to be kept."""
    told = answer if isinstance(answer, str) else json.dumps(answer, sort_keys=True)
    return told if len(told) < 300 else "sha256 " + hashlib.sha256(told.encode()).hexdigest()


def _request_name(key: ApiKey) -> str:
    from barnabas.wire.frames import request_class

    return request_class(key).name


def _request(world: World, case: Case) -> Message:
    for each in together_of(case.key, case.version):
        if each.name == case.name:
            return each.request(world, case.version)
    if case.name == ABSENT:
        made: Message = REFUSED[case.key](world, case.version)[0]
        return made
    match case.key:
        case ApiKey.METADATA:
            made = metadata(case.version, world.data)
        case ApiKey.DELETE_RECORDS:
            made = delete_records(world.scratch)
        case ApiKey.DESCRIBE_PRODUCERS:  # of a topic whose producers do not go on by themselves
            made = describe_producers(world.topic())
        case ApiKey.DESCRIBE_LOG_DIRS:
            asked = DescribeLogDirsRequest.DescribableLogDirTopic(topic=world.data, partitions=[0])
            made = DescribeLogDirsRequest(topics=[asked])
        case _:
            made = SENSIBLE[case.key](world, case.version)[0]
    return made


def tell(asked: Asked, case: Case) -> Any:
    """The masked answer to the case; None where the request has no such field to change."""
    world = asked.world
    message = _request(world, case)
    if case.variant is not None:
        try:
            message = case.variant.of(message)
        except LookupError:
            return None
    if case.key is ApiKey.JOIN_GROUP and message.group_id in WORDS[1:]:  # type: ignore[attr-defined]
        message.group_id = world.name(message.group_id)  # type: ignore[attr-defined]  # a group of its own
    frame = BROKEN.get(case.name, bytes)(frame_of(message, case.version))
    port = world.other_port if case.name == ELSEWHERE else world.port
    # What ApiVersions says to a version that it does not have, it says in version 0 (KIP-511).
    return asked.ask(port, frame, message, 0 if case.name == TOO_NEW else case.version)
