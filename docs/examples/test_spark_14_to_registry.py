"""Columns as Protobuf and JSON Schema values by a schema registry, into a topic and back."""

import json
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest

from barnabas.spark import Schema, from_registry, to_registry

pytestmark = pytest.mark.spark

PROTOBUF = 'syntax = "proto3"; message Order { int64 id = 1; optional string note = 2; }'
JSON = json.dumps(
    {
        "type": "object",
        "properties": {"id": {"type": "integer", "minimum": 1}, "note": {"type": "string"}},
        "required": ["id"],
    }
)


@pytest.fixture
def registry():
    """Of Confluent's API what a writer and a reader ask: to register, schemas by id, and a subject's newest."""
    schemas, subjects = [], {}

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            parts = self.path.split("/")
            number = int(parts[-1]) if parts[1] == "schemas" else subjects[parts[2]]
            self.answer({"id": number, **schemas[number - 1]})

        def do_POST(self):
            schemas.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            subjects[self.path.split("/")[2]] = len(schemas)
            self.answer({"id": len(schemas)})

        def answer(self, told):
            body = json.dumps(told).encode()
            self.send_response(200)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()


def test_orders_become_values_of_a_registrys_schema_and_columns_again(kafka_cluster, spark, registry):
    from pyspark.sql.functions import struct

    orders = spark.createDataFrame([(1, "gift"), (2, None)], "id BIGINT, note STRING")
    for topic, schema in (("orders", Schema("PROTOBUF", PROTOBUF)), ("carts", Schema("JSON", JSON))):
        kafka_cluster.create_topic(topic, partitions=1)
        value = to_registry(struct("id", "note"), registry, subject=f"{topic}-value", schema=schema)
        (
            orders.select(value.alias("value"))
            .write.format("barnabas")
            .option("kafka.bootstrap.servers", kafka_cluster.bootstrap)
            .option("topic", topic)
            .mode("append")
            .save()
        )
        frame = (
            spark.read.format("barnabas")
            .option("kafka.bootstrap.servers", kafka_cluster.bootstrap)
            .option("subscribe", topic)
            .load()
        )
        order = from_registry("value", registry, subject=f"{topic}-value")
        rows = frame.select(order.alias("order")).select("order.*").collect()
        assert sorted(map(tuple, rows)) == [(1, "gift"), (2, None)]
        assert frame.first().value[:5] == b"\0\0\0\0" + bytes([1 if topic == "orders" else 2])
