"""What `barnabas bench spark` reads by a schema registry: orders in Confluent's wire format, and such a registry.

Ours is `from_registry` over ``format("barnabas")``. Beside it stands, over the official connector, what PySpark has:
confluent-kafka's deserializer in a Python UDF; for Avro also the JVM's ``from_avro`` behind ``substring``, which takes
every value for one of the same schema.
"""

from __future__ import annotations

import io
import json
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import lru_cache, partial
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Final, NamedTuple

SUBJECT: Final = "{}-value"
_DISTINCT: Final = 1000
BYTES: Final = {"AVRO": 82, "JSON": 181, "PROTOBUF": 91}
"""A value's size, about."""

AVRO: Final = json.dumps(
    {
        "type": "record",
        "name": "Order",
        "fields": [
            {"name": "id", "type": "long"},
            {"name": "customer", "type": "string"},
            {"name": "product", "type": "string"},
            {"name": "quantity", "type": "long"},
            {"name": "price", "type": "double"},
            {"name": "note", "type": ["null", "string"], "default": None},
            {"name": "tags", "type": {"type": "array", "items": "string"}},
            {
                "name": "address",
                "type": {
                    "type": "record",
                    "name": "Address",
                    "fields": [{"name": "street", "type": "string"}, {"name": "city", "type": "string"}],
                },
            },
        ],
    }
)
_TEXT: Final = {"type": "string"}
JSON_SCHEMA: Final = json.dumps(
    {
        "$schema": "http://json-schema.org/draft-07/schema#",
        "title": "Order",
        "type": "object",
        "properties": {
            "id": {"type": "integer"},
            "customer": _TEXT,
            "product": _TEXT,
            "quantity": {"type": "integer"},
            "price": {"type": "number"},
            "note": _TEXT,
            "tags": {"type": "array", "items": _TEXT},
            "address": {"type": "object", "properties": {"street": _TEXT, "city": _TEXT}},
        },
        "required": ["id", "customer"],
    }
)
PROTOBUF: Final = """syntax = "proto3";
message Order {
  int64 id = 1; string customer = 2; string product = 3; int64 quantity = 4; double price = 5;
  optional string note = 6; repeated string tags = 7; Address address = 8;
}
message Address { string street = 1; string city = 2; }
"""
SCHEMAS: Final = {"AVRO": (1, AVRO), "JSON": (2, JSON_SCHEMA), "PROTOBUF": (3, PROTOBUF)}
"""By kind, the id and the text."""
DDL: Final = (
    "id BIGINT, customer STRING, product STRING, quantity BIGINT, price DOUBLE, note STRING, tags ARRAY<STRING>, "
    "address STRUCT<street: STRING, city: STRING>"
)


class ColumnWay(NamedTuple):
    """A way beside ours to make a column of `kind`'s values."""

    kind: str
    column: Callable[[str], Any]
    """Makes the column of the frame's `value`, from a registry's URL."""
    called: str
    in_source: bool = False
    """Ours is the source's option ``value.format``, not `from_registry`."""


def orders(kind: str) -> list[bytes]:
    """`_DISTINCT` values; the same each time."""
    drawn = random.Random(30)
    encode = {"AVRO": _as_avro, "JSON": _as_json, "PROTOBUF": _as_protobuf}[kind]()
    schema_id, _ = SCHEMAS[kind]
    prefix = b"\0" + schema_id.to_bytes(4, "big") + (b"\0" if kind == "PROTOBUF" else b"")
    return [prefix + encode(_order(drawn, number)) for number in range(_DISTINCT)]


def _order(drawn: random.Random, number: int) -> dict[str, Any]:
    made = {
        "id": 1_000_000 + number,
        "customer": f"customer {drawn.randrange(10_000)}",
        "product": f"product {drawn.randrange(500)}",
        "quantity": drawn.randrange(1, 20),
        "price": drawn.randrange(100, 100_000) / 100,
        "tags": [f"tag{drawn.randrange(30)}" for _ in range(drawn.randrange(4))],
        "address": {"street": f"{drawn.randrange(1, 300)} Main Street", "city": drawn.choice(["Bern", "Rome", "Oslo"])},
    }
    return {**made, "note": "leave it at the door"} if number % 3 == 0 else made


def _as_avro() -> Callable[[dict[str, Any]], bytes]:
    import fastavro

    schema = fastavro.parse_schema(json.loads(AVRO))

    def encode(order: dict[str, Any]) -> bytes:
        out = io.BytesIO()
        fastavro.schemaless_writer(out, schema, order)
        return out.getvalue()

    return encode


def _as_json() -> Callable[[dict[str, Any]], bytes]:
    return lambda order: json.dumps(order, separators=(",", ":")).encode()


def _as_protobuf() -> Callable[[dict[str, Any]], bytes]:
    made = _message()
    return lambda order: bytes(made(**order).SerializeToString())


@lru_cache
def _message() -> Any:
    from barnabas.spark.protobuf_schema import ProtobufSchema, message_class

    return message_class(ProtobufSchema(PROTOBUF, ()).named(None))


@contextmanager
def registry() -> Iterator[str]:
    """The URL of a server that answers readers as a schema registry does: schemas by id, and a subject's newest."""
    known: dict[str, dict[str, Any]] = {}
    for kind, (number, text) in SCHEMAS.items():
        told = {"schema": text, "schemaType": kind, "id": number, "version": 1, "subject": SUBJECT.format(kind)}
        known[f"/schemas/ids/{number}"] = known[f"/subjects/{told['subject']}/versions/latest"] = told

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            found = known.get(self.path.partition("?")[0])
            body = json.dumps(found or {"error_code": 40403, "message": "not found"}).encode()
            self.send_response(200 if found else 404)
            self.send_header("Content-Type", "application/vnd.schemaregistry.v1+json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}"
        finally:
            server.shutdown()
            thread.join()


def in_source(url: str) -> dict[str, str]:
    """Options of the source that read values as `ours` does."""
    return {"value.format": "avro", "value.schema.registry": url, "value.schema": AVRO}


def ours(kind: str, url: str) -> Any:
    from barnabas.spark import from_registry

    return from_registry("value", url, subject=SUBJECT.format(kind))


def _by_udf(kind: str, url: str) -> Any:
    from pyspark.sql.functions import udf

    def read(value: bytes) -> Any:
        return _deserializer(kind, url)(bytes(value))

    return udf(read, DDL)("value")


def _by_from_avro(url: str) -> Any:
    from pyspark.sql.avro.functions import from_avro
    from pyspark.sql.functions import expr

    return from_avro(expr("substring(value, 6)"), AVRO)


@lru_cache
def _deserializer(kind: str, url: str) -> Callable[[bytes], Any]:
    """A worker's deserializer for all its rows: confluent-kafka's, with a row made of what that returns."""
    from confluent_kafka.schema_registry import SchemaRegistryClient
    from confluent_kafka.schema_registry.avro import AvroDeserializer
    from confluent_kafka.schema_registry.json_schema import JSONDeserializer
    from confluent_kafka.schema_registry.protobuf import ProtobufDeserializer
    from confluent_kafka.serialization import MessageField, SerializationContext

    client, context = SchemaRegistryClient({"url": url}), SerializationContext(kind, MessageField.VALUE)
    if kind == "AVRO":
        avro = AvroDeserializer(client)
        return lambda value: avro(value, context)
    if kind == "JSON":
        plain = JSONDeserializer(JSON_SCHEMA, schema_registry_client=client)
        return lambda value: {"note": None, **plain(value, context)}
    messages = ProtobufDeserializer(_message(), {"use.deprecated.format": False})

    def row(value: bytes) -> Any:
        order = messages(value, context)
        return (
            order.id,
            order.customer,
            order.product,
            order.quantity,
            order.price,
            order.note if order.HasField("note") else None,
            list(order.tags),
            (order.address.street, order.address.city),
        )

    return row


WAYS: Final = {
    "avro-udf": ColumnWay("AVRO", partial(_by_udf, "AVRO"), "confluent-kafka in a UDF"),
    "avro-jvm": ColumnWay("AVRO", _by_from_avro, "from_avro"),
    "avro-source": ColumnWay("AVRO", _by_from_avro, "from_avro", in_source=True),
    "json-udf": ColumnWay("JSON", partial(_by_udf, "JSON"), "confluent-kafka in a UDF"),
    "protobuf-udf": ColumnWay("PROTOBUF", partial(_by_udf, "PROTOBUF"), "confluent-kafka in a UDF"),
}
