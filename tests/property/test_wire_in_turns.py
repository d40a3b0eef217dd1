"""Codecs that give way read and write the same bytes as those that do not, and refuse the same."""

from __future__ import annotations

import gc
import random
from collections.abc import Generator
from inspect import isgeneratorfunction
from types import FunctionType
from typing import Any

import pytest
from wire_messages import ALL_MESSAGES, ByChance, message_by, message_class, versions_of

from barnabas.wire.codec import KEPT_IN_TURNS
from barnabas.wire.errors import WireError
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.metadata import MetadataRequest


def over(generator: Generator[Any, None, Any]) -> tuple[Any, int]:
    """What a generator returns, and how often it yielded."""
    yields = 0
    while True:
        try:
            next(generator)
        except StopIteration as end:
            return end.value, yields
        yields += 1


def outcome(read: Any) -> Any:
    try:
        return read()
    except WireError:
        return WireError


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_both_forms_of_a_codec_agree_about_every_version_and_about_damaged_bytes(name: str) -> None:
    chance = random.Random(name)
    for version in versions_of(name):
        message = message_by(ByChance((name, version)), name, version)
        plain = message.encode(version)
        parts: list[Any] = []
        last, _ = over(message.encode_into_in_turns(version, bytearray(), parts))
        assert b"".join([*parts, last]) == plain
        for _ in range(5):
            damaged = bytearray(plain)
            if damaged:
                damaged[chance.randrange(len(damaged))] ^= 1 << chance.randrange(8)
            for data in (plain, bytes(damaged)):
                cls = message_class(name)
                expected = outcome(lambda data=data, cls=cls, version=version: cls.decode(data, version))
                found = outcome(
                    lambda data=data, cls=cls, version=version: over(cls.decode_in_turns(data, version, 0, 10**6))[0]
                )
                assert found == expected


def test_the_elements_of_all_arrays_together_are_counted_and_numbers_count_a_quarter() -> None:
    topics = [
        FetchRequest.FetchTopic("t", partitions=[FetchRequest.FetchPartition(each) for each in range(10)])
        for _ in range(10)
    ]
    forgotten = [FetchRequest.ForgottenTopic("t", partitions=list(range(40)))]
    data = FetchRequest(topics=topics, forgotten_topics_data=forgotten).encode(12)
    elements = 10 + 100 + 1 + 10
    assert over(FetchRequest.decode_in_turns(data, 12, 0, elements))[0][0].forgotten_topics_data == forgotten
    with pytest.raises(WireError, match="elements"):
        over(FetchRequest.decode_in_turns(data, 12, 0, elements - 1))


@pytest.mark.parametrize("version", [1, 12])
def test_too_many_elements_are_refused_before_the_first_is_decoded(version: int) -> None:
    data = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="x")] * 1000).encode(version)
    decoding = MetadataRequest.decode_in_turns(data, version, 0, 999)
    with pytest.raises(WireError, match="topics has 1000 elements"):
        next(decoding)


def test_a_long_message_gives_way_behind_every_256_elements_or_256_kib() -> None:
    request = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="x")] * 2560)
    assert over(MetadataRequest.decode_in_turns(request.encode(12), 12, 0, 10_000))[1] in (9, 10)
    assert over(request.encode_into_in_turns(12, bytearray(), []))[1] in (9, 10)
    long = MetadataRequest(topics=[MetadataRequest.MetadataRequestTopic(name="x" * 30_000)] * 100)
    assert over(long.encode_into_in_turns(12, bytearray(), []))[1] >= 3_000_000 // (256 * 1024 + 30_000)


def test_tagged_fields_are_elements_too_and_no_struct_has_a_thousand() -> None:
    element = bytes(16) + b"\x02x" + b"\x04" + b"\x64\0" + b"\x65\0" + b"\x66\0" + b"\x67\0"
    data = b"\x03" + element * 2 + b"\x00\x00\x00"
    assert len(over(MetadataRequest.decode_in_turns(data, 12, 0, 2 + 8))[0][0].topics) == 2
    with pytest.raises(WireError, match="tagged"):
        over(MetadataRequest.decode_in_turns(data, 12, 0, 2 + 7))
    many = b"\x02" + bytes(16) + b"\x02x" + b"\xe9\x07" + b"\x64\0" * 1001 + b"\x00\x00\x00"
    for read in (
        lambda: MetadataRequest.decode(many, 12),
        lambda: over(MetadataRequest.decode_in_turns(many, 12, 0, 10_000)),
    ):
        with pytest.raises(WireError, match="tagged"):
            read()


def test_forms_that_give_way_do_not_stay_however_many_are_asked_for() -> None:
    for name in ALL_MESSAGES:
        for version in versions_of(name):
            message = message_by(ByChance((name, version)), name, version)
            over(message.encode_into_in_turns(version, bytearray(), []))
    gc.collect()
    kept = [
        each
        for each in gc.get_objects()
        if isinstance(each, FunctionType)
        and each.__code__.co_filename.endswith(", compiled")
        and isgeneratorfunction(each)
    ]
    assert len(kept) <= 2 * KEPT_IN_TURNS, "one share for those that read, one for those that write"
