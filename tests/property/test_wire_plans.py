"""What the kernel reads and writes by a table is what the compiled functions read and write; the rest it declines."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from wire_messages import ALL_MESSAGES, ByChance, message_by, message_class, versions_of

from barnabas.broker.request_metrics import count_of_fine, errors_in
from barnabas.wire import codec, frames, plans
from barnabas.wire.coding import BAD_INPUT, BAD_MESSAGE, decoded_if_short
from barnabas.wire.errors import WireError
from barnabas.wire.message import Message
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.produce import ProduceRequest, ProduceResponse
from barnabas.wire.structs import Struct

kernel = pytest.importorskip("barnabas.wire._kernel")

UNBOUNDED = 1 << 62


def by_table(plan: plans.MessagePlan, data: bytes | bytearray, elements: int = UNBOUNDED) -> Any:
    return kernel.decode(plan.table, plan.constants, elements, data, 0)


def in_words(decode: Any, data: bytes) -> Any:
    """None for what is malformed."""
    try:
        return decode(data, 0, len(data))
    except (WireError, *BAD_INPUT):
        return None


def joined(open_buffer: Any, parts: list[Any]) -> Any:
    """The parts as they are, records of whatever type, and the open buffer behind them."""
    return None if open_buffer is None else [*parts, open_buffer]


def written(plan: plans.MessagePlan, message: Message) -> Any:
    """What the kernel makes of it, and that it leaves nothing behind where it declines."""
    head, parts = bytearray(b"head"), [b"before"]
    found = kernel.encode(plan.table, plan.constants, message, head, parts)
    if found is None:
        assert (head, parts) == (b"head", [b"before"])
    return joined(found, parts)


def written_in_words(encode: Any, message: Message) -> Any:
    parts: list[Any] = [b"before"]
    try:
        return joined(encode(message, bytearray(b"head"), parts), parts)
    except (WireError, *BAD_MESSAGE):
        return None


def structs_in(value: Any) -> list[Struct]:
    if isinstance(value, list):
        return [inner for each in value for inner in structs_in(each)]
    if not isinstance(value, Struct):
        return []
    return [value, *(inner for name in value.__slots__ for inner in structs_in(getattr(value, name)))]


def damaged(data: bytes, chance: random.Random) -> bytes:
    changed = bytearray(data)
    at = chance.randrange(len(changed) + 1)
    match chance.randrange(4):
        case 0:
            changed[at : at + 1] = bytes((chance.choice((0, 1, 0x7F, 0x80, 0xFF)),))
        case 1:
            changed[at : at + 4] = chance.choice((b"\x7f\xff\xff\xff", b"\xff\xff\xff\xff", b"\xff\xff\xff\xff\x0f"))
        case 2:
            del changed[at : at + chance.randint(1, 5)]
        case 3:
            changed[at:at] = chance.randbytes(chance.randint(1, 5))
    return bytes(changed)


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_the_kernel_agrees_about_every_version_and_about_damaged_bytes(name: str) -> None:
    cls = message_class(name)
    for version in versions_of(name):
        plan = plans.plan_of(cls, version)
        if plan is None:
            assert any(field.type == "float64" for each in plans.structs_of(cls) for field in each.fields)
            continue
        decode, encode = codec.compile_decoder(cls, version), codec.compile_encoder(cls, version)
        chance = random.Random(f"{name} {version}")
        for seed in range(3):
            message = message_by(ByChance((name, version, seed)), name, version)
            rare = any(getattr(each, "unknown_tagged_fields", None) for each in structs_in(message))
            expected = written_in_words(encode, message)
            assert written(plan, message) == (None if rare else expected)
            data = b"".join(expected)[len(b"beforehead") :]
            assert by_table(plan, data) == (None if rare else (message, len(data)))
            for _ in range(4):
                other = damaged(data, chance)
                found = by_table(plan, bytearray(other))
                if found is not None:
                    assert found == in_words(decode, other)
        assert by_table(plan, data[:-1]) is None or not data


ODD = (
    None,
    -1,
    2**40,
    2**70,
    True,
    1.5,
    "text",
    "\ud800",
    "x" * 40_000,
    b"bytes",
    bytearray(3),
    [],
    (),
    [None],
    object(),
)


@pytest.mark.parametrize("cls", [FetchRequest, FetchResponse, ProduceRequest, ProduceResponse])
def test_what_is_of_another_type_is_refused_in_words(cls: type[Message]) -> None:
    for version in (cls.min_version, cls.max_version):
        plan = plans.plan_of(cls, version)
        assert plan is not None
        encode = codec.compile_encoder(cls, version)
        message = message_by(ByChance((cls.name, "odd")), cls.name, version)
        for struct in structs_in(message):
            for name in struct.__slots__:
                before = getattr(struct, name)
                for odd in ODD:
                    setattr(struct, name, odd)
                    found = written(plan, message)
                    if found is not None:
                        assert found == written_in_words(encode, message), f"{name} is {odd!r}"
                delattr(struct, name)
                assert written(plan, message) is None or written_in_words(encode, message) is not None
                setattr(struct, name, before)


def test_no_more_elements_are_read_than_may_be() -> None:
    plan = plans.plan_of(FetchRequest, 12)
    assert plan is not None
    topics = [FetchRequest.FetchTopic("t", partitions=[FetchRequest.FetchPartition(each) for each in range(10)])]
    data = FetchRequest(topics=topics).encode(12)
    assert by_table(plan, data, 11) is not None
    assert by_table(plan, data, 10) is None


@given(
    st.integers(-1, 0x60) | st.just(0x7FFF),
    st.integers(-1, 20),
    st.sampled_from((b"\xff\xff", b"\xff\xfe", b"\0\0", b"\0\3abc", b"\0\3\xff\x80c", b"\0\4abc", b"\x7f\xff", b"\0")),
    st.binary(max_size=6),
    st.integers(0, 20),
)
def test_a_header_is_read_as_it_is_in_words(key: int, version: int, client_id: bytes, rest: bytes, cut: int) -> None:
    frame = (
        key.to_bytes(2, "big", signed=True) + version.to_bytes(2, "big", signed=True) + b"\0\0\1\0" + client_id + rest
    )
    for data in (frame, frame[:cut]):
        with pytest.MonkeyPatch.context() as without:
            without.setattr(frames, "_kernel", None)
            expected = outcome(data)
        assert outcome(data) == expected


def outcome(data: bytes) -> Any:
    try:
        return frames.decode_request_header(data)
    except WireError as error:
        return str(error)


@pytest.mark.parametrize("name", [name for name in ALL_MESSAGES if name.endswith("Response")])
def test_a_frame_and_its_error_codes_are_as_they_are_in_words(name: str) -> None:
    cls = message_class(name)
    for version in versions_of(name):
        for seed in range(2):
            message = message_by(ByChance((name, version, seed)), name, version)
            with pytest.MonkeyPatch.context() as without:
                without.setattr(frames, "framed", lambda *_: None)
                expected = frames.encode_response(message, version, 7)
            assert frames.encode_response(message, version, 7) == expected
            codes, _ = errors_in(message)
            assert count_of_fine(message) in ((-1,) if set(codes) - {0} else (-1, codes[0]))
    assert count_of_fine(cls()) in (-1, errors_in(cls())[0][0])


def test_records_are_left_where_they_are() -> None:
    records = b"of several batches"
    data = ProduceRequest.PartitionProduceData(0, records)
    request = ProduceRequest(topic_data=[ProduceRequest.TopicProduceData("t", [data])])
    parts: list[Any] = []
    request.encode_into(9, bytearray(), parts)
    assert parts[1] is records
    frame = bytearray(request.encode(9))
    found, _ = ProduceRequest.decode(frame, 9)
    view = found.topic_data[0].partition_data[0].records
    assert isinstance(view, memoryview)
    assert view.obj is frame
    assert view == records


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_structs_are_made_of_all_their_fields(name: str) -> None:
    for struct in structs_in(message_by(ByChance((name, "made")), name, message_class(name).max_version)):
        cls = type(struct)
        fields = [getattr(struct, field) for field in cls.__slots__ if field != "unknown_tagged_fields"]
        made = plans.maker(cls)(*fields)
        assert type(made) is cls
        assert made == cls(*fields)


@pytest.mark.parametrize("name", [name for name in ALL_MESSAGES if name.endswith("Request")])
def test_what_is_read_in_one_go_is_what_is_read_otherwise(name: str) -> None:
    cls = message_class(name)
    for version in versions_of(name):
        data = bytearray(message_by(ByChance((name, version, "short")), name, version).encode(version))
        assert decoded_if_short(cls, data, version, 0) in (None, cls.decode(data, version))


def test_a_request_is_short_by_its_elements_and_not_by_its_bytes() -> None:
    def request(partitions: int, size: int) -> bytearray:
        data = [ProduceRequest.PartitionProduceData(index, bytes(size)) for index in range(partitions)]
        return bytearray(ProduceRequest(topic_data=[ProduceRequest.TopicProduceData("t", data)]).encode(9))

    assert decoded_if_short(ProduceRequest, request(1, 100_000), 9, 0) is not None
    assert decoded_if_short(ProduceRequest, request(254, 1), 9, 0) is not None
    assert decoded_if_short(ProduceRequest, request(256, 1), 9, 0) is None
