"""Columns of a schema registry's values beside confluent-kafka's serializers, both at a real registry: each reads what
the other writes, in Avro, JSON Schema and Protobuf."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from schema_registry import running_registry

from barnabas.bench.apache import ApacheUnavailable
from barnabas.spark import Reference, Registry, Schema, from_registry, to_registry
from barnabas.spark.registry import RegistryDown

pytest.importorskip("confluent_kafka.schema_registry.protobuf")
from confluent_kafka.schema_registry import Schema as TheirSchema
from confluent_kafka.schema_registry import (
    SchemaReference,
    SchemaRegistryClient,
    record_subject_name_strategy,
    topic_record_subject_name_strategy,
)
from confluent_kafka.schema_registry.avro import AvroDeserializer, AvroSerializer
from confluent_kafka.schema_registry.json_schema import JSONDeserializer, JSONSerializer
from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer, ProtobufSerializer
from confluent_kafka.serialization import MessageField, SerializationContext

pytestmark = [pytest.mark.long(1), pytest.mark.spark]

CUSTOMER = {
    "type": "record",
    "name": "Customer",
    "namespace": "com.example",
    "fields": [{"name": "name", "type": "string"}],
}
ORDER = {
    "type": "record",
    "name": "Order",
    "namespace": "com.example",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "customer", "type": "com.example.Customer"},
    ],
}
LATER = {**ORDER, "fields": [*ORDER["fields"], {"name": "price", "type": "double", "default": 9.5}]}
PERSON = {
    "$schema": "http://json-schema.org/draft-07/schema#",
    "title": "Person",
    "type": "object",
    "properties": {"id": {"type": "integer", "minimum": 1}, "home": {"$ref": "place.json"}},
    "required": ["id"],
}
PLACE = {"type": "object", "properties": {"town": {"type": "string"}}}
PROTO = """syntax = "proto3";
package com.example;
import "money.proto";
message Refund { string why = 1; }
message Sale { int64 id = 1; optional string note = 2; com.example.Money paid = 3; map<string, int32> counts = 4; }
"""
MONEY = 'syntax = "proto3"; package com.example; message Money { int64 units = 1; }'
ORDERS = [{"id": 1, "note": None, "customer": {"name": "Ada"}}, {"id": 2, "note": "ß", "customer": {"name": "Bo"}}]
PEOPLE = [{"id": 1, "home": {"town": "Rome"}}, {"id": 2}]
SALES = [{"id": 1, "note": "", "paid": {"units": 5}, "counts": {"a": 1}}, {"id": 2}]
DDL = {
    "AVRO": "id BIGINT, note STRING, customer STRUCT<name: STRING>",
    "JSON": "home STRUCT<town: STRING>, id INT",  # another order, another width
    "PROTOBUF": "id BIGINT, note STRING, paid STRUCT<units: BIGINT>, counts MAP<STRING, INT>",
}


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    try:
        with running_registry(tmp_path_factory.mktemp("registry")) as (url, _):
            client = SchemaRegistryClient({"url": url})
            client.register_schema("customer", TheirSchema(json.dumps(CUSTOMER), "AVRO"))
            client.register_schema("place", TheirSchema(json.dumps(PLACE), "JSON"))
            client.register_schema("money.proto", TheirSchema(MONEY, "PROTOBUF"))
            yield url
    except ApacheUnavailable as error:
        if os.environ.get("CI") == "true":
            pytest.fail(str(error))
        pytest.skip(str(error))


@pytest.fixture(scope="module")
def messages(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """The Protobuf schema as a module of protoc's."""
    place = tmp_path_factory.mktemp("messages")
    Path(place, "money.proto").write_text(MONEY)
    Path(place, "sales.proto").write_text(PROTO)
    command = [sys.executable, "-m", "grpc_tools.protoc", f"-I{place}", f"--python_out={place}"]
    subprocess.run([*command, "money.proto", "sales.proto"], check=True)
    sys.path.insert(0, str(place))
    import sales_pb2

    yield sales_pb2
    sys.path.remove(str(place))


SCHEMAS = {
    "AVRO": Schema("AVRO", json.dumps(ORDER), (Reference("com.example.Customer", "customer", 1),)),
    "JSON": Schema("JSON", json.dumps(PERSON), (Reference("place.json", "place", 1),)),
    "PROTOBUF": Schema("PROTOBUF", PROTO, (Reference("money.proto", "money.proto", 1),)),
}
ROWS: dict[str, list[Any]] = {"AVRO": ORDERS, "JSON": PEOPLE, "PROTOBUF": SALES}
MESSAGES = {"PROTOBUF": "com.example.Sale"}


def theirs(kind: str) -> TheirSchema:
    ours = SCHEMAS[kind]
    return TheirSchema(ours.text, kind, [SchemaReference(*each) for each in ours.references])


def context(topic: str) -> SerializationContext:
    return SerializationContext(topic, MessageField.VALUE)


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
def test_what_to_registry_writes_confluents_deserializers_read(
    spark: Any, server: str, messages: Any, kind: str
) -> None:
    from pyspark.sql.functions import struct

    frame = spark.createDataFrame([*ROWS[kind]], DDL[kind]).select(struct("*").alias("row"))
    column = to_registry("row", server, subject=f"out-{kind}", schema=SCHEMAS[kind], message=MESSAGES.get(kind))
    values = [bytes(row.value) for row in frame.select(column.alias("value")).collect()]
    client = SchemaRegistryClient({"url": server})
    reader = {
        "AVRO": lambda: AvroDeserializer(client),
        "JSON": lambda: JSONDeserializer(theirs("JSON"), schema_registry_client=client),
        # Without the registry: it asks for a descriptor in place of the text, which this registry does not make.
        "PROTOBUF": lambda: ProtobufDeserializer(messages.Sale, {"use.deprecated.format": False}),
    }[kind]()
    found = [reader(value, context("out")) for value in values]
    if kind == "PROTOBUF":
        paid = messages.money__pb2.Money(units=5)
        assert found == [messages.Sale(**{**SALES[0], "paid": paid}), messages.Sale(**SALES[1])]
    else:
        assert found == ROWS[kind]
    # A tombstone stays one, and the subject's newest is what was registered.
    again = to_registry("row", Registry(server), subject=f"out-{kind}", message=MESSAGES.get(kind))
    assert frame.selectExpr("IF(row.id = 1, null, row) AS row").select(again.alias("v")).collect()[0].v is None


@pytest.mark.parametrize("kind", ["AVRO", "JSON", "PROTOBUF"])
@pytest.mark.parametrize("names", ["topic", "record", "topic and record"])
def test_what_confluents_serializers_write_from_registry_reads(
    spark: Any, server: str, messages: Any, kind: str, names: str
) -> None:
    record = {"AVRO": "com.example.Order", "JSON": "Person", "PROTOBUF": "com.example.Sale"}[kind]
    topic = f"in-{kind}"
    subject = {"topic": f"{topic}-value", "record": record, "topic and record": f"{topic}-{record}"}[names]
    how: dict[str, Any] = {}
    if names != "topic":
        strategies = {"record": record_subject_name_strategy, "topic and record": topic_record_subject_name_strategy}
        how["subject.name.strategy"] = strategies[names]
    client = SchemaRegistryClient({"url": server})
    values: list[Any] = ROWS[kind]
    if kind == "AVRO":
        writer: Any = AvroSerializer(client, theirs(kind), conf=how)
    elif kind == "JSON":
        writer = JSONSerializer(theirs(kind), client, conf=how)
    else:
        writer = ProtobufSerializer(messages.Sale, client, {"use.deprecated.format": False, **how})
        values = [messages.Sale(id=1, note="", counts={"a": 1}), messages.Sale(id=2)]
        values[0].paid.units = 5
    written = [writer(value, context(topic)) for value in values]
    frame = spark.createDataFrame([(each,) for each in [*written, None, b"\0\0\0\0\1", b"no"]], "value BINARY")
    column = from_registry("value", server, subject=subject, message=MESSAGES.get(kind), mode="REPORT")
    rows = [row.asDict(recursive=True)["v"] for row in frame.select(column.alias("v")).collect()]
    wanted = {
        "AVRO": ORDERS,
        "JSON": [PEOPLE[0], {"id": 2, "home": None}],
        "PROTOBUF": [SALES[0], {"id": 2, "note": None, "paid": None, "counts": {}}],
    }[kind]
    assert [row["value"] for row in rows] == [*wanted, None, None, None]
    assert [row["error"] is None for row in rows] == [True, True, True, False, False]


def test_an_earlier_schemas_values_become_rows_of_the_newest(spark: Any, server: str) -> None:
    client = SchemaRegistryClient({"url": server})
    first = AvroSerializer(client, theirs("AVRO"))(ORDERS[1], context("evolved"))
    later = TheirSchema(json.dumps(LATER), "AVRO", theirs("AVRO").references)
    second = AvroSerializer(client, later)({**ORDERS[0], "price": 2.5}, context("evolved"))
    frame = spark.createDataFrame([(first,), (second,)], "value BINARY")
    found = frame.select(from_registry("value", server, subject="evolved-value").alias("v")).select("v.id", "v.price")
    assert [tuple(row) for row in found.collect()] == [(2, 9.5), (1, 2.5)]


def test_a_schema_that_its_subject_cannot_take_is_refused_with_the_registrys_reason(server: str) -> None:
    registry = Registry(server)
    registry.register("strict", Schema("AVRO", json.dumps(CUSTOMER)))
    client = SchemaRegistryClient({"url": server})
    client.set_compatibility("strict", "BACKWARD")
    other = {**CUSTOMER, "fields": [{"name": "age", "type": "int"}]}
    with pytest.raises(ValueError, match="the schema registry refuses what /subjects/strict/versions was asked: "):
        registry.register("strict", Schema("AVRO", json.dumps(other)))


def test_what_was_asked_once_outlives_the_registry(tmp_path: Path, server: str, spark: Any) -> None:
    from pyspark.sql.functions import struct

    with running_registry(tmp_path) as (url, process):
        client = SchemaRegistryClient({"url": url})
        client.register_schema("place", TheirSchema(json.dumps(PLACE), "JSON"))
        kept = Registry(url, cache=str(tmp_path / "kept"))
        frame = spark.createDataFrame(PEOPLE, DDL["JSON"]).select(struct("*").alias("row"))

        def there_and_back() -> list[Any]:
            written = to_registry("row", kept, subject="people", schema=SCHEMAS["JSON"])
            read = from_registry("value", kept, subject="people")
            found = frame.select(written.alias("value")).select(read.alias("v")).select("v.*")
            return [row.asDict(recursive=True) for row in found.collect()]

        before = there_and_back()
        assert before == [PEOPLE[0], {"id": 2, "home": None}]
        process.kill()
        process.wait()
        assert there_and_back() == before
        with pytest.raises(RegistryDown, match="did not answer /subjects/others/versions/latest"):
            from_registry("value", kept, subject="others")
