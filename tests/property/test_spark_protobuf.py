"""Protobuf's values by compiled kernels beside Protobuf's own reader: the same column, or left to that reader."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

pytest.importorskip("numba")
pytest.importorskip("grpc_tools")

import pyarrow

from barnabas.spark.protobuf_columns import ProtobufPayloads
from barnabas.spark.protobuf_compiled import NotHere
from barnabas.spark.protobuf_schema import ProtobufSchema

TEXT = """syntax = "proto3";
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
enum State { NEW = 0; DONE = 1; BELOW = -1; }
message Inner { int32 n = 1; string text = 2; repeated sint64 many = 3; }
message Nothing {}
message Every {
  int32 a = 1; int64 b = 2; uint32 c = 3; uint64 d = 4; sint32 e = 5; sint64 f = 6; bool g = 7; State h = 8;
  fixed32 i = 9; fixed64 j = 10; sfixed32 k = 11; sfixed64 l = 12; float m = 13; double n = 14; string o = 15;
  bytes p = 16; optional int32 q = 17; optional string r = 18; Inner s = 19; Nothing t = 20;
  repeated int32 u = 21; repeated string v = 22; repeated Inner w = 23; repeated double x = 24; repeated State y = 25;
  repeated bool z = 26; map<string, int32> aa = 27; map<int64, Inner> ab = 28;
  oneof one { string ac = 29; int64 ad = 30; Inner ae = 31; }
  google.protobuf.Timestamp af = 32; google.protobuf.Duration ag = 33; google.protobuf.Int64Value ah = 34;
  google.protobuf.StringValue ai = 35; repeated google.protobuf.Timestamp aj = 36; repeated fixed32 ak = 37;
}
"""
SCHEMA = ProtobufSchema(TEXT)
EVERY = SCHEMA.named("Every")
_I32, _I64, _S, _F64 = pyarrow.int32(), pyarrow.int64(), pyarrow.string(), pyarrow.float64()
_INNER = pyarrow.struct([("n", _I32), ("text", _S), ("many", pyarrow.list_(_I64))])
_TIME = pyarrow.timestamp("us", "UTC")
TYPES = {
    **dict.fromkeys("aekq", _I32),
    **dict.fromkeys(["b", "c", "f", "i", "l", "ad", "ah"], _I64),
    **dict.fromkeys("dj", pyarrow.decimal128(20, 0)),
    **dict.fromkeys(["h", "o", "r", "ac", "ai"], _S),
    "g": pyarrow.bool_(),
    "m": pyarrow.float32(),
    "n": _F64,
    "p": pyarrow.binary(),
    "s": _INNER,
    "t": pyarrow.struct([]),
    "u": pyarrow.list_(_I32),
    "v": pyarrow.list_(_S),
    "w": pyarrow.list_(_INNER),
    "x": pyarrow.list_(_F64),
    "y": pyarrow.list_(_S),
    "z": pyarrow.list_(pyarrow.bool_()),
    "aa": pyarrow.map_(_S, _I32),
    "ab": pyarrow.map_(_I64, _INNER),
    "ae": _INNER,
    "af": _TIME,
    "ag": pyarrow.duration("us"),
    "aj": pyarrow.list_(_TIME),
    "ak": pyarrow.list_(_I64),
}
TARGET = pyarrow.struct([(field.name, TYPES[field.name]) for field in EVERY.fields])
INDEX = b"\x02\x04"  # one message index, 2


def framed(payloads: list[bytes]) -> Any:
    return pyarrow.array([b"\0\0\0\0\1" + payload for payload in payloads], pyarrow.binary())


def varint(number: int) -> bytes:
    out = bytearray()
    number &= (1 << 64) - 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes([*out, number])


NUMBERS = st.one_of(st.integers(0, 300), st.integers(-(1 << 63), (1 << 64) - 1))
FIXED = st.one_of(st.binary(min_size=8, max_size=8), st.just(b"\0" * 8))


def a_field(inside: st.SearchStrategy[bytes]) -> st.SearchStrategy[bytes]:
    """A number of a field, some beyond them, and a value of any wire type, for it or for another."""
    number = st.integers(1, 39)
    return st.one_of(
        st.builds(lambda n, v: varint(n << 3) + varint(v), number, NUMBERS),
        st.builds(lambda n, v: varint(n << 3 | 1) + v, number, FIXED),
        st.builds(lambda n, v: varint(n << 3 | 5) + v[:4], number, FIXED),
        st.builds(lambda n, v: varint(n << 3 | 2) + varint(len(v)) + v, number, inside),
    )


PLAIN = st.one_of(
    st.text(max_size=6).map(str.encode),
    st.binary(max_size=8),
    st.lists(NUMBERS, max_size=4).map(lambda numbers: b"".join(map(varint, numbers))),
    st.lists(FIXED, max_size=3).map(b"".join),
)
INSIDE = st.one_of(PLAIN, st.lists(a_field(PLAIN), max_size=3).map(b"".join))
VALUES = st.lists(a_field(INSIDE), max_size=12).map(b"".join)


def told(array: Any) -> list[str]:
    """Maps by their keys: Protobuf keeps no order; NaN is like NaN."""

    def plain(value: Any, kind: Any) -> Any:
        if value is None:
            return None
        if pyarrow.types.is_map(kind):
            return sorted((repr(key), repr(plain(item, kind.item_type))) for key, item in value)
        if pyarrow.types.is_struct(kind):
            return [plain(value[field.name], field.type) for field in kind]
        return value

    return [repr(plain(value, array.type)) for value in array.to_pylist()]


@example([b"\xfa\x01\x010\xf0\x01\x00"])  # a oneof's broken message, and another member behind it
@example([b"\x92\x01\x01\xff\x92\x01\x00"])  # a broken text, and a sound one of the same field
@given(st.lists(VALUES, min_size=1, max_size=4))
@settings(max_examples=500, deadline=None)
def test_kernels_and_protobuf_find_the_same(values: list[bytes]) -> None:
    reader = ProtobufPayloads(SCHEMA, EVERY, TARGET)
    payloads = [INDEX + value for value in values]
    try:
        found = reader.by_kernels(payloads)
    except (NotHere, ValueError, pyarrow.ArrowException, OverflowError):
        return
    found.validate(full=True)
    wanted = reader.decode(framed(payloads))
    assert wanted.faults == {}
    assert told(found) == told(wanted.array)


def test_what_protobuf_writes_kernels_read() -> None:
    from google.protobuf.message_factory import GetMessageClass

    made = GetMessageClass(EVERY)
    message = made(a=-1, b=-(1 << 63), c=(1 << 32) - 1, d=(1 << 64) - 1, e=-7, f=-(1 << 62), g=True, h=-1, i=5)
    message.MergeFrom(made(m=1.5, n=-2.5, o="ß", p=b"\xff", q=0, u=[1, -2], v=["", "x"], x=[0.5], y=[0, 7], z=[True]))
    message.s.many.extend([1, -1])
    message.t.SetInParent()
    message.w.add(n=3)
    message.w.add(text="w")
    message.aa["k"] = 4
    message.ab[-3].n = 5
    message.ad = 9
    message.af.FromMicroseconds(-1)
    message.ag.FromMicroseconds(1_500_000)
    message.ah.value = 0
    message.aj.add().FromMicroseconds(86_400_000_000)
    message.ak.extend([7, 8])
    reader = ProtobufPayloads(SCHEMA, EVERY, TARGET)
    payloads = [INDEX + message.SerializeToString(), INDEX, INDEX + made(ac="").SerializeToString()]
    found = reader.by_kernels(payloads)
    assert told(found) == told(reader.decode(framed(payloads)).array)
    assert found[0]["ab"].as_py() == [(-3, {"n": 5, "text": "", "many": []})]
    assert found[2]["ac"].as_py() == ""


@pytest.mark.parametrize(
    "value",
    [
        b"\x7a\x01\xff",  # no UTF-8
        b"\x0b\x0c",  # a group
        b"\x08",  # ends early
        b"\x9a\x01\x02\x08\x01" * 2,  # a message in two parts
        b"\xda\x01\x03\x0a\x01a" * 2,  # a key twice
        b"\xe2\x01\x02\x08\x01",  # an entry without its message
        b"\xda\x01\x03\x0a\x01a\xda\x01\x04\x0a\x00\x18\x01",  # one with an unknown field
        b"\xca\x01\x01\x8f",  # packed numbers that end early
    ],
)
def test_what_is_rare_or_broken_is_left_to_protobuf(value: bytes) -> None:
    with pytest.raises(NotHere):
        ProtobufPayloads(SCHEMA, EVERY, TARGET).by_kernels([INDEX, INDEX + value])
