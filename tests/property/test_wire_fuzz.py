"""Bytes from strangers: only `WireError`, never more memory than a multiple of the frame, never a byte beyond it."""

from __future__ import annotations

import random
import tracemalloc
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from wire_messages import ALL_MESSAGES, ALL_VERSIONS, ByChance, message_by, message_class, versions_of

from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.errors import UnsupportedVersionError, WireError
from barnabas.wire.frames import (
    ReadHeader,
    decode_request_header,
    decode_response,
    encode_request,
    encode_response,
    request_class,
    response_class,
)
from barnabas.wire.records import batches, check_crc, records_of
from barnabas.wire.structs import Bytes

REQUEST_VERSIONS = [(key, version) for key, (low, high) in SUPPORTED.items() for version in range(low, high + 1)]
MEMORY_PER_BYTE = 600
"""The least element of an array is a struct of a byte or two, and becomes an object with a dozen slots."""
relaxed = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow, HealthCheck.data_too_large])


def _mutated(data: bytes, chance: random.Random) -> bytes:
    mutated = bytearray(data)
    for _ in range(chance.randint(1, 4)):
        at = chance.randrange(len(mutated) + 1)
        match chance.randrange(5):
            case 0 if at < len(mutated):
                mutated[at] = chance.choice((0, 1, 0x7F, 0x80, 0xFF, chance.randrange(256)))
            case 1:
                mutated[at : at + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\x80\x00\x00\x00"))
            case 2:
                mutated[at:at] = chance.randbytes(chance.randint(1, 5))
            case 3:
                del mutated[at : at + chance.randint(1, 5)]
            case 4:
                mutated[at : at + 5] = b"\xff\xff\xff\xff\x0f"
    return bytes(mutated)


def _read(name: str, version: int, frame: bytes) -> None:
    try:
        _, end = message_class(name).decode(frame, version)
    except WireError:
        return
    assert end <= len(frame)


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_mutated_messages_are_read_or_refused(name: str) -> None:
    for version in versions_of(name):
        chance = random.Random(f"{name} {version}")
        for seed in range(8):
            encoded = message_by(ByChance((name, version, seed)), name, version).encode(version)
            _read(name, version, _mutated(encoded, chance))
            _read(name, version, chance.randbytes(chance.choice((0, 1, 4, 40, 400))))


@relaxed
@given(st.sampled_from(ALL_VERSIONS), st.binary(max_size=200))
def test_any_bytes_are_read_or_refused(which: tuple[str, int], frame: bytes) -> None:
    _read(*which, frame)


@relaxed
@given(st.binary(max_size=60), st.sampled_from([*ApiKey, 99, -1, 32767]), st.integers(-(2**15), 2**15 - 1))
def test_any_frame_has_a_header_or_is_refused(rest: bytes, key: int, version: int) -> None:
    frame = key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + rest
    try:
        header, at = decode_request_header(frame)
    except WireError:
        return
    assert (header.api_key, header.api_version) == (key, version)
    assert at <= len(frame)
    if version in range(request_class(key).min_version, request_class(key).max_version + 1):
        _read(request_class(key).name, version, frame[at:])


def test_a_frame_that_claims_more_than_it_has_takes_no_memory() -> None:
    """The largest counts that can be claimed, at every place of every request, cost what the frame's own bytes do."""
    tracemalloc.start()
    try:
        for key, version in REQUEST_VERSIONS:
            cls = request_class(key)
            encoded = message_by(ByChance((cls.name, version, "large")), cls.name, version).encode(version)
            frames = [encoded[:at] + b"\x7f\xff\xff\xff" + encoded[at + 4 :] for at in range(0, len(encoded), 3)]
            frames += [encoded[:at] + b"\xff\xff\xff\xff\x0f" + encoded[at + 5 :] for at in range(0, len(encoded), 3)]
            _read(cls.name, version, encoded)
            for frame in frames[:60]:
                tracemalloc.reset_peak()
                before = tracemalloc.get_traced_memory()[0]
                _read(cls.name, version, frame)
                taken = tracemalloc.get_traced_memory()[1] - before
                assert taken < 20_000 + MEMORY_PER_BYTE * len(frame), f"{cls.name} v{version}: {taken} for {len(frame)}"
    finally:
        tracemalloc.stop()


@pytest.mark.parametrize(("key", "version"), REQUEST_VERSIONS)
def test_a_request_and_its_response_make_the_way_in_frames(key: ApiKey, version: int) -> None:
    request = message_by(ByChance((key, version)), request_class(key).name, version)
    frame = _body(encode_request(request, version, 77, "sarama"))
    header, at = decode_request_header(frame)
    client_id = None if (key, version) == (ApiKey.CONTROLLED_SHUTDOWN, 0) else "sarama"
    assert header == ReadHeader(key, version, 77, client_id)
    assert request_class(key).decode(frame, version, at) == (request, len(frame))
    response = message_by(ByChance((key, version, "r")), response_class(key).name, version)
    assert decode_response(response_class(key), version, _body(encode_response(response, version, 77))) == (
        77,
        response,
    )


def _body(parts: list[Bytes]) -> bytes:
    whole = b"".join(parts)
    assert int.from_bytes(whole[:4], "big") == len(whole) - 4
    return whole[4:]


@relaxed
@given(st.sampled_from(REQUEST_VERSIONS), st.binary(max_size=80))
def test_any_bytes_are_a_response_or_refused(which: tuple[ApiKey, int], frame: bytes) -> None:
    key, version = which
    try:
        decode_response(response_class(key), version, frame)
    except WireError:
        return


def test_api_versions_of_the_future_can_still_be_answered() -> None:
    frame = bytes.fromhex("0012 0063 00000007 0002 6d65 00") + b"\x05name\x021\x00"
    header, _ = decode_request_header(frame)
    assert (header.api_key, header.api_version, header.correlation_id) == (18, 99, 7)
    with pytest.raises(UnsupportedVersionError):
        decode_request_header(bytes.fromhex("0001 0063 00000007 0002 6d65 00"))
    with pytest.raises(UnsupportedVersionError):
        decode_request_header(bytes.fromhex("0fff 0000 00000007 0002 6d65 00"))


@relaxed
@given(st.binary(max_size=200), st.integers(0, 3), st.randoms(use_true_random=False))
def test_any_bytes_are_record_batches_or_refused(data: bytes, magic: int, chance: Any) -> None:
    framed = chance.randbytes(8) + (len(data) + 5).to_bytes(4, "big") + chance.randbytes(4) + bytes([magic]) + data
    for buffer in (data, framed):
        try:
            for header, start, end in batches(buffer):
                assert 0 <= start < end <= len(buffer)
                assert header.length == end - start
                try:
                    check_crc(buffer, start, end)
                finally:
                    records_of(buffer, start, end, limit=1 << 20)
        except WireError:
            continue
