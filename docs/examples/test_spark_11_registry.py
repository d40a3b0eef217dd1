"""Values by a schema registry's schemas, as columns: two versions of a schema, and what is wrong with the rest."""

import json
import struct
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import pytest
from confluent_kafka import Producer

from barnabas.spark import Registry, from_registry

pytestmark = pytest.mark.spark

FIRST = {"type": "record", "name": "Order", "fields": [{"name": "id", "type": "int"}]}
SECOND = {**FIRST, "fields": [*FIRST["fields"], {"name": "price", "type": "double", "default": 9.5}]}
SCHEMAS = {1: FIRST, 2: SECOND}


@pytest.fixture
def registry():
    """Of Confluent's API what a reader asks: schemas by id, and a subject's newest."""

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self):
            known = {f"/schemas/ids/{id}": each for id, each in SCHEMAS.items()}
            schema = {**known, "/subjects/orders-value/versions/latest": SECOND}.get(self.path)
            body = json.dumps({"schema": json.dumps(schema)} if schema else {"error_code": 40403}).encode()
            self.send_response(200 if schema else 404)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_):
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield server
        server.shutdown()
        thread.join()


def test_orders_of_two_versions_become_columns(kafka_cluster, spark, registry, tmp_path):
    kafka_cluster.create_topic("orders", partitions=1)
    producer = Producer({"bootstrap.servers": kafka_cluster.bootstrap})
    for value in (
        b"\0" + struct.pack(">i", 1) + b"\x02",  # id 1, by the first schema
        b"\0" + struct.pack(">i", 2) + b"\x04" + struct.pack("<d", 2.5),  # id 2, by the second
        b"\0" + struct.pack(">i", 7) + b"\x06",  # of a schema that nobody knows
        b"plain text",
    ):
        producer.produce("orders", value)
    assert producer.flush(10) == 0

    url = f"http://127.0.0.1:{registry.server_port}"
    frame = (
        spark.read.format("barnabas")
        .option("kafka.bootstrap.servers", kafka_cluster.bootstrap)
        .option("subscribe", "orders")
        .load()
    )
    order = from_registry("value", Registry(url, cache=str(tmp_path)), subject="orders-value", mode="REPORT")
    rows = frame.select(order.alias("order")).select("order.value.*", "order.error").collect()
    assert [(row.id, row.price) for row in rows] == [(1, 9.5), (2, 2.5), (None, None), (None, None)]
    assert [row.error for row in rows][:2] == [None, None]
    assert "schema registry has nothing at /schemas/ids/7" in rows[2].error
    assert "does not begin with the Confluent prefix" in rows[3].error

    # What was asked once is kept: the registry may be gone.
    registry.shutdown()
    registry.server_close()
    kept = from_registry("value", Registry(url, cache=str(tmp_path)), subject="orders-value")
    assert frame.where("offset < 2").select(kept.alias("order")).select("order.id").count() == 2
