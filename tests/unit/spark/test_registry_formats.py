"""Values of Avro, JSON Schema and Protobuf: columns become bytes that others read, and are read from theirs."""

from __future__ import annotations

import base64
import datetime
import decimal
import io
import json
import re
from typing import Any

import fastavro
import pyarrow
import pytest
from google.protobuf import descriptor_pb2

from barnabas.spark import avro_columns
from barnabas.spark.decoded import Decoded, by_name
from barnabas.spark.protobuf_schema import ProtobufSchema, message_class
from barnabas.spark.registry import Schema
from barnabas.spark.registry_columns import decode, format_of

MOMENT = datetime.datetime(2024, 5, 6, 7, 8, 9, 123456, tzinfo=datetime.UTC)
MILLIS = MOMENT.replace(microsecond=123000)

CUSTOMER = {"type": "record", "name": "Customer", "fields": [{"name": "name", "type": "string"}]}
ORDER = {
    "type": "record",
    "name": "com.example.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-micros"}},
        {"name": "seen", "type": ["null", {"type": "long", "logicalType": "timestamp-millis"}]},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "prices", "type": {"type": "map", "values": "double"}},
        {"name": "kind", "type": {"type": "enum", "name": "Kind", "symbols": ["NEW", "OLD"]}},
        {"name": "customer", "type": ["null", CUSTOMER]},
    ],
}
ORDERS = [
    {
        "id": 1,
        "note": None,
        "at": MOMENT,
        "seen": MILLIS,
        "tags": ["a", "b"],
        "prices": {"x": 1.5},
        "kind": "OLD",
        "customer": {"name": "Ada"},
    },
    {"id": -2, "note": "ß", "at": MOMENT, "seen": None, "tags": [], "prices": {}, "kind": "NEW", "customer": None},
]

PROTO = """
syntax = "proto3";
package com.example;
import "google/protobuf/timestamp.proto";
import "google/protobuf/duration.proto";
import "google/protobuf/wrappers.proto";
import "customer.proto";
message Other { string name = 1; }
message Order {
  enum Kind { NEW = 0; OLD = 1; }
  message Line { int32 number = 1; uint64 cents = 2; }
  int64 id = 1;
  optional string note = 2;
  google.protobuf.Timestamp at = 3;
  google.protobuf.Duration took = 4;
  google.protobuf.Int32Value count = 5;
  repeated string tags = 6;
  map<string, double> prices = 7;
  map<int32, Line> lines = 8;
  Kind kind = 9;
  Customer customer = 10;
  repeated Line more = 11;
  bytes raw = 12;
  uint32 small = 13;
  oneof way { string road = 14; int32 rail = 15; }
}
"""
CUSTOMER_PROTO = 'syntax = "proto3"; package com.example; message Customer { string name = 1; bool good = 2; }'
MESSAGES = [
    {
        "id": 1,
        "note": None,
        "at": MOMENT,
        "took": datetime.timedelta(seconds=-1, microseconds=5),
        "count": 0,
        "tags": ["a", "b"],
        "prices": {"x": 1.5},
        "lines": {7: {"number": 1, "cents": decimal.Decimal(2**64 - 1)}},
        "kind": "OLD",
        "customer": {"name": "Ada", "good": True},
        "more": [{"number": 2, "cents": decimal.Decimal(3)}],
        "raw": b"\x00\xff",
        "small": 2**32 - 1,
        "road": None,
        "rail": 0,
    },
    {
        "id": 0,
        "note": "",
        "at": None,
        "took": None,
        "count": None,
        "tags": [],
        "prices": {},
        "lines": {},
        "kind": "NEW",
        "customer": None,
        "more": [],
        "raw": b"",
        "small": 0,
        "road": "A1",
        "rail": None,
    },
]

PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "type": "object",
    "properties": {
        "id": {"type": "integer", "minimum": 1},
        "note": {"type": ["null", "string"]},
        "score": {"oneOf": [{"type": "null"}, {"type": "number"}]},
        "tags": {"type": "array", "items": {"type": "string"}},
        "home": {"$ref": "#/definitions/place"},
        "work": {"$ref": "place.json"},
        "kind": {"enum": ["NEW", "OLD"]},
    },
    "required": ["id"],
    "definitions": {"place": {"type": "object", "properties": {"street": {"type": "string"}}}},
}
PLACE = {"type": "object", "properties": {"town": {"type": "string"}}, "required": ["town"]}
PEOPLE = [
    {
        "id": 1,
        "note": "ß",
        "score": 1.5,
        "tags": ["a"],
        "home": {"street": "s"},
        "work": {"town": "t"},
        "kind": "NEW",
    },
    {"id": 2, "note": None, "score": None, "tags": None, "home": None, "work": None, "kind": None},
]


def avro(schema: dict[str, Any]) -> Schema:
    return Schema("AVRO", json.dumps(schema))


PROTOBUF = Schema("PROTOBUF", PROTO, imports=(("customer.proto", CUSTOMER_PROTO),))
JSON = Schema("JSON", json.dumps(PERSON), imports=(("place.json", json.dumps(PLACE)),))


ARROW = {
    "bigint": pyarrow.int64(),
    "int": pyarrow.int32(),
    "double": pyarrow.float64(),
    "float": pyarrow.float32(),
    "boolean": pyarrow.bool_(),
    "string": pyarrow.string(),
    "binary": pyarrow.binary(),
    "timestamp": pyarrow.timestamp("us", tz="UTC"),
    "interval day to second": pyarrow.duration("us"),
    "decimal(20,0)": pyarrow.decimal128(20, 0),
}


def arrow_type(ddl: str) -> Any:
    """Of a type in Spark's DDL, without a Spark."""
    word, _, rest = ddl.partition("<")
    if not rest:
        return ARROW[ddl]
    parts, depth = [""], 0
    for letter in rest[:-1]:
        depth += (letter in "<(") - (letter in ">)")
        if letter == "," and not depth:
            parts.append("")
        else:
            parts[-1] += letter
    if word == "struct":
        fields = (part.split(":", 1) for part in parts)
        return pyarrow.struct([field_of(name.strip("`"), kind) for name, kind in fields])
    inner = [arrow_type(part) for part in parts]
    return pyarrow.list_(*inner) if word == "array" else pyarrow.map_(*inner)


def field_of(name: str, ddl: str) -> Any:
    return pyarrow.field(name, arrow_type(ddl.removesuffix(" NOT NULL")), nullable=not ddl.endswith(" NOT NULL"))


def target_of(schema: Schema, message: str | None = None) -> Any:
    return arrow_type(format_of(schema, message).spark_type())


def encoded(schema: Schema, rows: list[Any], message: str | None = None) -> list[bytes]:
    array = pyarrow.array(rows, arrow_type(format_of(schema, message).spark_type().replace(" NOT NULL", "")))
    return list(format_of(schema, message).encode(array, array.type).to_pylist())


def decoded(
    payloads: list[bytes], expected: Schema, written: Schema | None = None, message: str | None = None
) -> Decoded:
    target = target_of(expected, message)

    def reader(schema_id: int) -> Any:
        return format_of(expected, message).payloads(written or expected, target)

    found = decode(pyarrow.array([b"\0\0\0\0\1" + each for each in payloads], pyarrow.binary()), reader, target)
    assert found.array.type == target
    return found


@pytest.fixture(params=["compiled", "one by one"])
def way(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    if request.param == "one by one":
        monkeypatch.setattr(avro_columns, "_has_pyruhvro", lambda: False)
    format_of.cache_clear()
    return str(request.param)


def by_fastavro(schema: Any, rows: list[Any]) -> list[bytes]:
    parsed = fastavro.parse_schema(schema)
    written = []
    for row in rows:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, parsed, row)
        written.append(out.getvalue())
    return written


def test_avro_is_written_as_fastavro_writes_it(way: str) -> None:
    wanted = by_fastavro(ORDER, ORDERS)
    assert encoded(avro(ORDER), ORDERS) == wanted
    assert decoded(wanted, avro(ORDER)).array.to_pylist(maps_as_pydicts="strict") == ORDERS


def test_times_in_milliseconds_are_that_in_arrays_too(way: str) -> None:
    times = {"type": "array", "items": {"type": "long", "logicalType": "timestamp-millis"}}
    schema = {"type": "record", "name": "Seen", "fields": [{"name": "at", "type": times}]}
    rows = [{"at": [MILLIS, MILLIS]}, {"at": []}]
    assert encoded(avro(schema), rows) == by_fastavro(schema, rows)


@pytest.mark.parametrize("at", ["id", "tags", "customer"])
def test_a_null_where_avro_takes_none_is_no_zero(way: str, at: str) -> None:
    wrong = {"id": None, "tags": ["a", None], "customer": {"name": None}}[at]
    with pytest.raises(ValueError, match=f"{at}.* is null, and its schema takes no null"):
        encoded(avro(ORDER), [ORDERS[1], {**ORDERS[0], at: wrong}])


def test_what_avro_has_in_each_value_is_never_null_in_the_column() -> None:
    address = {"type": "record", "name": "Address", "fields": [{"name": "city", "type": "string"}]}
    fields = [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "only", "type": ["string"]},
        {"name": "tags", "type": {"type": "array", "items": ["null", "string"]}},
        {"name": "home", "type": ["null", address]},
        {"name": "more", "type": {"type": "array", "items": "Address"}},
        {"name": "nothing", "type": "null"},
    ]
    assert format_of(avro({"type": "record", "name": "R", "fields": fields})).spark_type() == (
        "struct<`id`:bigint NOT NULL,`note`:string,`only`:string NOT NULL,`tags`:array<string> NOT NULL,"
        "`home`:struct<`city`:string NOT NULL>,`more`:array<struct<`city`:string NOT NULL>> NOT NULL,`nothing`:void>"
    )


def test_a_default_of_null_where_avro_takes_none_is_null_in_the_column() -> None:
    inner = [{"name": "city", "type": "string"}, {"name": "zip", "type": "int", "default": None}]
    address = {"type": "record", "name": "Address", "fields": inner}
    fields = [
        {"name": "id", "type": "int"},
        {"name": "note", "type": "string", "default": None},
        {"name": "home", "type": address, "default": {"city": "Rome", "zip": 1}},
        {"name": "work", "type": ["Address", "null"], "default": {"city": None}},
        {"name": "tags", "type": {"type": "array", "items": "string"}, "default": [None]},
        {"name": "by", "type": {"type": "map", "values": "Address"}, "default": {"a": {"city": None}}},
        {"name": "all", "type": {"type": "array", "items": "Address"}, "default": []},
    ]
    later = avro({"type": "record", "name": "R", "fields": fields})
    assert format_of(later).spark_type() == (
        "struct<`id`:int NOT NULL,`note`:string,`home`:struct<`city`:string NOT NULL,`zip`:int> NOT NULL,"
        "`work`:struct<`city`:string,`zip`:int>,`tags`:array<string>,`by`:map<string,struct<`city`:string,`zip`:int>>,"
        "`all`:array<struct<`city`:string NOT NULL,`zip`:int>> NOT NULL>"
    )
    first = avro({"type": "record", "name": "R", "fields": fields[:1]})
    found = decoded([b"\x02"], later, first)
    assert found.faults == {}
    assert found.array.to_pylist()[0]["note"] is None
    assert found.array.to_pylist()[0]["work"] == {"city": None, "zip": None}


def test_a_record_of_another_name_is_a_fault_and_an_alias_is_none() -> None:
    note = {"name": "note", "type": ["null", "string"], "default": None}
    mine = {"type": "record", "name": "com.example.Order", "fields": [note]}
    theirs = {**mine, "name": "com.example.Refund"}
    [payload] = encoded(avro(theirs), [{"note": "x"}])
    assert decoded([payload], avro(mine), avro(theirs)).faults == {
        0: "its schema is of com.example.Refund, not of com.example.Order"
    }
    assert decoded([payload], avro({**mine, "aliases": ["Refund"]}), avro(theirs)).faults == {}


def test_protobuf_goes_there_and_back_with_what_is_absent() -> None:
    payloads = encoded(PROTOBUF, MESSAGES, "com.example.Order")
    found = decoded(payloads, PROTOBUF, message="com.example.Order")
    assert found.faults == {}
    assert found.array.to_pylist(maps_as_pydicts="strict") == MESSAGES


def test_protobuf_is_what_protobufs_own_classes_write_and_read() -> None:
    message = ProtobufSchema(PROTO, PROTOBUF.imports).named("com.example.Order")
    own = message_class(message)(id=7, note="n", kind=5, road="A1")
    own.at.FromDatetime(MOMENT)
    own.lines[3].cents = 4
    [row] = decoded([b"\2\2" + own.SerializeToString()], PROTOBUF, message="com.example.Order").array.to_pylist()
    assert (row["id"], row["note"], row["at"], row["kind"]) == (7, "n", MOMENT, "5")
    assert row["lines"] == [(3, {"number": 0, "cents": 4})]
    [payload] = encoded(PROTOBUF, [row | {"lines": {3: {"number": 0, "cents": 4}}}], "com.example.Order")
    assert payload[:2] == b"\2\2"
    assert message_class(message).FromString(payload[2:]) == own


def test_message_indexes_lead_inwards() -> None:
    schema = ProtobufSchema(PROTO, PROTOBUF.imports)
    assert schema.indexes_of(schema.named("com.example.Order.Line")) == [1, 0]
    assert schema.at([1, 0]).full_name == "com.example.Order.Line"
    assert schema.named(None).full_name == "com.example.Other"
    [payload] = encoded(PROTOBUF, [{"number": 5, "cents": None}], "com.example.Order.Line")
    assert payload == b"\4\2\0" + b"\x08\5"  # two indexes, zigzag: 1 and 0
    [payload] = encoded(PROTOBUF, [{"name": "x"}])
    assert payload == b"\0" + b"\x0a\1x"  # the first message: one byte


def test_protobuf_of_later_and_earlier_schemas_is_read_by_number() -> None:
    first = Schema("PROTOBUF", 'syntax = "proto3"; message A { int32 id = 1; string old = 2; }')
    later = Schema("PROTOBUF", 'syntax = "proto3"; message A { int32 number = 1; optional string new = 3; }')
    [payload] = encoded(first, [{"id": 4, "old": "x"}])
    assert decoded([payload], later, first).array.to_pylist() == [{"number": 4, "new": None}]
    [payload] = encoded(later, [{"number": 4, "new": "y"}])
    assert decoded([payload], first, later).array.to_pylist() == [{"id": 4, "old": ""}]


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("int32 x", "sint32 x"),
        ("int64 x", "int32 x"),
        ("int32 x", "uint32 x"),
        ("int32 x", "string x"),
        ("double x", "fixed64 x"),
        ("float x", "double x"),
        ("repeated int32 x", "int32 x"),
        ("map<string, int64> x", "map<string, int32> x"),
        ("In x", "Out x"),
    ],
)
def test_a_protobuf_field_of_another_type_is_a_fault_and_no_other_value(written: str, expected: str) -> None:
    mine, theirs = (
        Schema("PROTOBUF", f'syntax = "proto3"; message A {{ {field} = 1; }} {rest}')
        for field, rest in (
            (expected, "message Out { int32 y = 1; }"),
            (written, "message In { string y = 1; }"),
        )
    )
    found = decoded([b"\0"], mine, theirs)
    assert re.search(r"the writer's .* is .*, and .* is ", found.faults[0]), found.faults


@pytest.mark.parametrize(
    ("written", "expected", "value"),
    [
        ("int32 x", "int64 x", 7),
        ("bool x", "int32 x", 1),
        ("string x", "bytes x", b"a"),
        ("int32 x", "repeated int32 x", [7]),
        ("E x", "int32 x", 1),
        ("int32 x", "E x", "ONE"),
    ],
)
def test_a_protobuf_field_of_a_wider_type_has_the_same_values(written: str, expected: str, value: Any) -> None:
    enum = "enum E { NONE = 0; ONE = 1; }"
    mine, theirs = (
        Schema("PROTOBUF", f'syntax = "proto3"; {enum} message A {{ {field} = 1; }}') for field in (expected, written)
    )
    own = message_class(ProtobufSchema(theirs.text).named("A"))()
    own.x = {"string": "a", "bool": True, "E": 1}.get(written.split()[0], 1 if expected == "E x" else 7)
    assert decoded([b"\0" + own.SerializeToString()], mine, theirs).array.to_pylist() == [{"x": value}]


def test_a_row_with_two_of_a_oneof_is_an_error_and_none_of_them_is_lost() -> None:
    with pytest.raises(ValueError, match=r"it has road and rail, of which com\.example\.Order takes one"):
        encoded(PROTOBUF, [{**MESSAGES[1], "road": "A1", "rail": 1}], "com.example.Order")


@pytest.mark.parametrize(
    ("payload", "told"),
    [
        (b"\2\2\x08", "no com.example.Order"),
        (b"\0\x0a\1x", "it is a message com.example.Other, not com.example.Order"),
        (b"\2\x10", r"message indexes \[8\] are of no message"),
        (b"\x80", "ends inside its message indexes"),
        (b"", "ends inside its message indexes"),
        (b"\xff\xff\xff\x7f", "message indexes"),
        (b"\2\2\x1a\x0a\x08\xff\xff\xff\xff\xff\xff\xff\xff\x7f", "too large"),  # a time in 292 billion years
    ],
)
def test_what_is_wrong_with_a_protobuf_value_is_told_beside_the_others(payload: bytes, told: str) -> None:
    good = encoded(PROTOBUF, MESSAGES, "com.example.Order")
    found = decoded([good[0], payload, good[1]], PROTOBUF, message="com.example.Order")
    assert list(found.faults) == [1]
    assert found.array.to_pylist(maps_as_pydicts="strict") == [MESSAGES[0], None, MESSAGES[1]]
    assert re.search(told, found.faults[1]), found.faults[1]


def test_a_row_that_is_no_message_is_an_error_with_its_reason() -> None:
    with pytest.raises(ValueError, match=r"Order.*has no value LATE"):
        encoded(PROTOBUF, [{**MESSAGES[1], "kind": "LATE"}], "com.example.Order")


def test_a_descriptor_stands_for_a_protobuf_schemas_text() -> None:
    def in_base64(schema: ProtobufSchema) -> str:
        proto = descriptor_pb2.FileDescriptorProto()
        schema.named(None).file.CopyToProto(proto)
        return base64.b64encode(proto.SerializeToString()).decode()

    customer, order = in_base64(ProtobufSchema(CUSTOMER_PROTO)), in_base64(ProtobufSchema(PROTO, PROTOBUF.imports))
    payloads = encoded(PROTOBUF, MESSAGES, "com.example.Order")
    for text, imported in ((order, customer), (order, CUSTOMER_PROTO), (PROTO, customer)):
        schema = Schema("PROTOBUF", text, imports=(("customer.proto", imported),))
        found = decoded(payloads, schema, PROTOBUF, "com.example.Order")
        assert found.array.to_pylist(maps_as_pydicts="strict") == MESSAGES


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ('syntax = "proto3"; message A { B b = 1; }', '"B" is not defined'),
        ('syntax = "proto3"; import "gone.proto"; message A {}', "gone.proto"),
        ('syntax = "proto3"; message A { A a = 1; }', "A contains itself"),
        ('syntax = "proto3";', "declares no message"),
    ],
)
def test_a_protobuf_schema_that_is_of_no_use_says_why(text: str, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        format_of(Schema("PROTOBUF", text)).spark_type()


def test_an_import_cannot_be_written_outside_its_directory() -> None:
    schema = Schema("PROTOBUF", 'syntax = "proto3"; message A {}', imports=(("../../x.proto", ""),))
    with pytest.raises(ValueError, match="no name of a schema"):
        format_of(schema)


def test_json_goes_there_and_back() -> None:
    payloads = encoded(JSON, PEOPLE)
    assert [json.loads(each) for each in payloads] == [PEOPLE[0], {"id": 2}]
    found = decoded(payloads, JSON)
    assert (found.array.to_pylist(), found.faults) == (PEOPLE, {})


def test_json_is_validated_by_its_writers_schema() -> None:
    values = [{"id": 1}, {"id": 0}, {"id": 1.0}, {}, {"id": 1, "kind": "LATE"}, {"id": 3, "work": {}}, [], {"id": "1"}]
    found = decoded([*(json.dumps(each).encode() for each in values), b"{", b"\xff"], JSON)
    assert [row and row["id"] for row in found.array.to_pylist()] == [1, None, 1, *7 * [None]]
    assert sorted(found.faults) == [1, 3, 4, 5, 6, 7, 8, 9]
    assert found.faults[1] == "0 is less than the minimum of 1, at id"
    assert found.faults[5] == '"town" is a required property, at work'
    assert found.faults[8].startswith("it is no JSON: ")


def test_json_of_an_earlier_schema_lacks_what_the_expected_one_has() -> None:
    later = {"type": "object", "properties": {"id": {"type": "number"}, "new": {"type": "string"}}}
    earlier = Schema("JSON", json.dumps({"type": "object", "properties": {"id": {"type": "integer"}}}))
    found = decoded([b'{"id":1,"old":2}'], Schema("JSON", json.dumps(later)), earlier)
    assert found.array.to_pylist() == [{"id": 1.0, "new": None}]


def test_a_row_that_its_json_schema_refuses_is_an_error_with_its_reason() -> None:
    with pytest.raises(ValueError, match="does not fit its JSON Schema: 0 is less than the minimum of 1, at id"):
        encoded(JSON, [{**PEOPLE[0], "id": 0}])


def test_a_required_property_that_may_be_null_is_written_as_null() -> None:
    schema = {"type": "object", "properties": {"a": {"type": ["null", "string"]}}, "required": ["a"]}
    assert encoded(Schema("JSON", json.dumps(schema)), [{"a": None}]) == [b'{"a":null}']


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"type": "object"}, "an object without properties"),
        ({"type": "object", "properties": {"a": {"type": ["string", "integer"]}}}, "values of integer or string"),
        ({"type": "object", "properties": {"a": {"$ref": "#"}}}, "# contains itself"),
        ({"type": "object", "properties": {"a": {"$ref": "gone.json"}}}, "gone.json"),
        ({"type": "object", "properties": {"a": True}}, "takes any value"),
        ({"type": "nonsense"}, "cannot be used"),
    ],
)
def test_a_json_schema_that_no_column_can_hold_says_why(schema: Any, told: str) -> None:
    with pytest.raises(ValueError, match=told):
        format_of(Schema("JSON", json.dumps(schema))).spark_type()


def test_a_json_schema_of_parts_has_the_fields_of_all() -> None:
    base = {"type": "object", "properties": {"id": {"type": "integer"}}}
    schema = {
        "allOf": [{"$ref": "#/definitions/base"}, {"required": ["id"]}],
        "properties": {"sizes": {"type": "object", "additionalProperties": {"type": "number"}}},
        "definitions": {"base": base},
    }
    whole = Schema("JSON", json.dumps(schema))
    assert format_of(whole).spark_type() == "struct<`id`:bigint,`sizes`:map<string,double>>"
    assert decoded([b'{"id":1,"sizes":{"a":2}}'], whole).array.to_pylist() == [{"id": 1, "sizes": [("a", 2.0)]}]


WITH_MAP = """
syntax = "proto3";
message Outer {{
  {} counts = 1;
  {}
  message Inner {{ int32 a = 1; }}
}}
"""
BY_MAP = WITH_MAP.format("map<string, int32>", "")
BY_ENTRIES = WITH_MAP.format(
    "repeated CountsEntry", "message CountsEntry { option map_entry = true; string key = 1; int32 value = 2; }"
)


@pytest.mark.parametrize(("text", "index"), [(BY_MAP, 0), (BY_ENTRIES, 1), (None, 1)], ids=["map", "entries", "base64"])
def test_the_entries_of_a_map_count_as_messages_where_the_schema_declares_them(text: str | None, index: int) -> None:
    """As to Confluent's deserializer for Java: its serializer writes them as messages, a text by hand and one that is
    normalized have a map, and a descriptor, which other serializers register, has them always."""
    if text is None:
        compiled = descriptor_pb2.FileDescriptorProto()
        ProtobufSchema(BY_MAP).named("Outer").file.CopyToProto(compiled)
        text = base64.b64encode(compiled.SerializeToString()).decode()
    schema = Schema("PROTOBUF", text)
    assert format_of(schema).spark_type() == "struct<`counts`:map<string,int>>"
    assert encoded(schema, [{"counts": [("x", 1)]}]) == [b"\0\x0a\x05\x0a\x01x\x10\x01"]
    (value,) = encoded(schema, [{"a": 5}], "Outer.Inner")
    assert value == bytes([4, 0, 2 * index]) + b"\x08\x05"
    assert decoded([value], schema, message="Outer.Inner").array.to_pylist() == [{"a": 5}]


def test_a_field_that_rows_lack_has_its_default() -> None:
    place = {
        "type": "record",
        "name": "Place",
        "fields": [{"name": "town", "type": "string"}, {"name": "zip", "type": "int", "default": 7}],
    }
    fields = [
        {"name": "id", "type": "long"},
        {"name": "home", "type": ["null", place], "default": None},
        {"name": "homes", "type": {"type": "array", "items": "Place"}, "default": [{"town": "x", "zip": 1}]},
        {"name": "score", "type": "double", "default": 1.5},
        {"name": "note", "type": ["string", "null"], "default": "none"},
        {"name": "raw", "type": "bytes", "default": "\u00ff"},
    ]
    for some in (fields, fields[:-1]):  # with bytes they are written one by one
        schema = avro({"type": "record", "name": "R", "fields": some})
        target = arrow_type(format_of(schema).spark_type().replace(" NOT NULL", ""))
        lacks = pyarrow.array([{"id": 1, "home": {"town": "a"}}, {"id": 2, "home": None}])
        written = format_of(schema).encode(lacks, target)
        whole = {"homes": [{"town": "x", "zip": 1}], "score": 1.5, "note": "none"}
        whole |= {"raw": b"\xff"} if some is fields else {}
        rows = [{"id": 1, "home": {"town": "a", "zip": 7}, **whole}, {"id": 2, "home": None, **whole}]
        assert written.to_pylist() == encoded(schema, rows)
        with pytest.raises(ValueError, match="score is null"):
            format_of(schema).encode(pyarrow.array([{**rows[0], "score": None}], target), target)


def test_fields_are_matched_by_name_and_not_by_place() -> None:
    target = pyarrow.struct({"id": pyarrow.int64(), "inner": pyarrow.list_(pyarrow.struct({"a": pyarrow.string()}))})
    narrow = pyarrow.array(
        [{"inner": [{"a": "x"}], "id": 1}, None, {"inner": None, "id": 2}],
        pyarrow.struct({"inner": pyarrow.list_(pyarrow.struct({"a": pyarrow.string()})), "id": pyarrow.int32()}),
    )
    assert by_name(narrow, target).to_pylist() == [{"id": 1, "inner": [{"a": "x"}]}, None, {"id": 2, "inner": None}]
    with pytest.raises(ValueError, match="The schema has no field other; it has id, inner"):
        by_name(pyarrow.array([{"other": 1}]), target)
    with pytest.raises(ValueError, match="no int64 of the schema"):
        by_name(pyarrow.array([{"id": "x"}]), target)


def test_another_kind_of_schema_is_named() -> None:
    with pytest.raises(ValueError, match="of kind THRIFT: there are AVRO, JSON, PROTOBUF"):
        format_of(Schema("THRIFT", ""))
    with pytest.raises(ValueError, match="message=A is for Protobuf, and the schema is JSON"):
        format_of(JSON, "A")


TEXT, WHOLE, NUMBER = {"type": "string"}, {"type": "integer"}, {"type": "number"}
NEWER = "https://json-schema.org/draft/2020-12/schema"


def of(**properties: Any) -> dict[str, Any]:
    return {"type": "object", "properties": properties}


@pytest.mark.parametrize(
    ("schema", "ddl"),
    [
        (of(a={"oneOf": [{"type": "null", "title": "Not included"}, TEXT]}), "a:string"),
        (of(a={"anyOf": [TEXT, {"enum": [None]}]}, b={"oneOf": [{"const": None}, WHOLE]}), "a:string,b:bigint"),
        (of(a={"anyOf": [WHOLE, NUMBER]}), "a:double"),
        ({**of(a=TEXT), "oneOf": [{"required": ["a"]}, {"not": {"required": ["a"]}}]}, "a:string"),
        ({**of(a=TEXT), "anyOf": [of(b=WHOLE)]}, "b:bigint,a:string"),
        ({**of(a=TEXT), "allOf": [of(a=TEXT, b=WHOLE), {"type": "object", "required": ["b"]}]}, "a:string,b:bigint"),
        ({"allOf": [of(a=of(x=WHOLE)), of(a=of(y=TEXT))]}, "a:struct<x:bigint,y:string>"),
        ({"allOf": [of(a=NUMBER), of(a=WHOLE)]}, "a:bigint"),
        ({"$schema": NEWER, "$ref": "#/$defs/B", **of(c=WHOLE), "$defs": {"B": of(b=TEXT)}}, "b:string,c:bigint"),
        ({"$ref": "#/definitions/B", **of(c=WHOLE), "definitions": {"B": of(b=TEXT)}}, "b:string"),
        ({**of(p={"$ref": "#/definitions/a%20b/allOf/0"}), "definitions": {"a b": {"allOf": [TEXT]}}}, "p:string"),
    ],
)
def test_what_parts_of_a_json_schema_say_of_a_type_counts_together(schema: dict[str, Any], ddl: str) -> None:
    assert format_of(Schema("JSON", json.dumps(schema))).spark_type().replace("`", "") == f"struct<{ddl}>"


@pytest.mark.parametrize(
    ("schema", "told"),
    [
        ({"allOf": [of(a=TEXT), of(a=WHOLE)]}, "values that are to be string and bigint"),
        ({**of(a=TEXT), "oneOf": [of(b=TEXT), of(c=WHOLE)]}, "oneOf has several types"),
        ({"$schema": NEWER, **of(a={"type": "array", "prefixItems": [TEXT], "items": WHOLE})}, "one type of items"),
        (of(a={"type": "object"}), "an object without properties"),
    ],
)
def test_a_json_schema_whose_values_no_column_can_hold_says_why(schema: dict[str, Any], told: str) -> None:
    with pytest.raises(ValueError, match=told):
        format_of(Schema("JSON", json.dumps(schema))).spark_type()


def test_a_number_is_not_cut_off_where_a_whole_one_is_expected() -> None:
    whole, number = (Schema("JSON", json.dumps(of(a=kind))) for kind in (WHOLE, NUMBER))
    found = decoded([b'{"a":1.5}', b'{"a":2.0}'], whole, number)
    assert found.array.to_pylist() == [None, {"a": 2}]
    assert found.faults == {0: "it has 1.5 where a whole number is expected"}


def test_nulls_are_left_out_of_objects_but_for_required_ones_and_of_no_map() -> None:
    maybe = {"type": ["string", "null"]}
    schema = {
        **of(
            a=maybe,
            b=TEXT,
            m={"type": "object", "additionalProperties": maybe},
            o={**of(c=maybe, d=TEXT), "required": ["c"]},
        ),
        "required": ["a"],
    }
    row = {"a": None, "b": None, "m": {"x": None, "y": "z"}, "o": {"c": None, "d": None}}
    [payload] = encoded(Schema("JSON", json.dumps(schema)), [row])
    assert json.loads(payload) == {"m": {"x": None, "y": "z"}, "o": {"c": None}, "a": None}
