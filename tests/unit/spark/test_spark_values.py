"""Values decoded by their format: Avro by a writer's and an expected schema, JSON by a schema; what does not fit."""

from __future__ import annotations

import base64
import datetime
import decimal
import json
import pickle
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any

import pyarrow
import pytest

from barnabas.spark import compiled
from barnabas.spark.avro import AvroError, AvroSchema
from barnabas.spark.compiled import COMPILED_RECORDS_MIN, takes_compiled
from barnabas.spark.registry import Registry, RegistryDown
from barnabas.spark.values import ValueFormat, ValueUnfit

ORDER = {
    "type": "record",
    "name": "shop.Order",
    "fields": [
        {"name": "id", "type": "long"},
        {"name": "note", "type": ["null", "string"], "default": None},
        {"name": "price", "type": {"type": "bytes", "logicalType": "decimal", "precision": 9, "scale": 2}},
        {"name": "at", "type": {"type": "long", "logicalType": "timestamp-millis"}},
        {"name": "tags", "type": {"type": "array", "items": "string"}},
        {"name": "counts", "type": {"type": "map", "values": "int"}},
        {"name": "state", "type": {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}},
    ],
}
# By the specification: -3 is 05; "hi" 04 68 69; 12.34 as 1234 in two bytes; a block of two, then none; PAID is 1.
ENCODED = (
    b"\x05" + b"\x02\x04hi" + b"\x04\x04\xd2" + b"\x80\x89\x7a" + b"\x04\x02a\x02b\x00" + b"\x02\x02x\x0e\x00" + b"\x02"
)
DECODED = {
    "id": -3,
    "note": "hi",
    "price": decimal.Decimal("12.34"),
    "at": 1_000_000 * 1000,
    "tags": ["a", "b"],
    "counts": [("x", 7)],
    "state": "PAID",
}


def text(schema: Any) -> str:
    return json.dumps(schema)


def test_every_avro_type_has_its_spark_type() -> None:
    assert AvroSchema(text(ORDER)).spark_type() == (
        "struct<`id`:bigint,`note`:string,`price`:decimal(9,2),`at`:timestamp,`tags`:array<string>,"
        "`counts`:map<string,int>,`state`:string>"
    )


def test_avro_bytes_are_read_as_the_specification_writes_them() -> None:
    schema = AvroSchema(text(ORDER))
    encoded = ENCODED.replace(b"\x80\x89\x7a", b"\x80\x89\x7a")
    assert schema.reader(schema)(encoded, 0) == DECODED


def test_an_expected_schema_takes_what_it_knows_and_its_defaults() -> None:
    written = AvroSchema(text(ORDER))
    fields = [{"name": "id", "type": "double"}, {"name": "new", "type": "string", "default": "none"}]
    expected = AvroSchema(text({"type": "record", "name": "Order", "fields": fields}))
    assert written.reader(expected)(ENCODED, 0) == {"id": -3, "new": "none"}
    with pytest.raises(AvroError, match="no default"):
        written.reader(AvroSchema(text({**ORDER, "fields": [{"name": "more", "type": "int"}]})))
    with pytest.raises(AvroError, match="long where string"):
        written.reader(AvroSchema(text({**ORDER, "fields": [{"name": "id", "type": "string"}]})))


@pytest.mark.parametrize("cut", range(len(ENCODED)))
def test_avro_bytes_that_end_too_early_are_said(cut: int) -> None:
    schema = AvroSchema(text(ORDER))
    with pytest.raises(AvroError):
        schema.reader(schema)(ENCODED[:cut], 0)


def test_a_schema_no_column_can_hold_is_said() -> None:
    with pytest.raises(AvroError, match="several types"):
        AvroSchema('["int", "string"]').spark_type()
    tree = {"type": "record", "name": "Node", "fields": [{"name": "next", "type": ["null", "Node"]}]}
    with pytest.raises(AvroError, match="contains itself"):
        AvroSchema(text(tree)).spark_type()


class FakedRegistry:
    """A schema registry as it answers: subjects' newest versions, and ids."""

    def __init__(self) -> None:
        order = {"schema": text(ORDER)}
        self.answers: dict[str, Any] = {"/subjects/orders-value/versions/latest": order, "/schemas/ids/7": order}
        self.asked: list[tuple[str, str | None]] = []
        """Paths, and who asked."""
        told = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                told.asked.append((self.path, self.headers.get("Authorization")))
                found = told.answers.get(self.path)
                self.send_response(200 if found else 404)
                self.end_headers()
                self.wfile.write(json.dumps(found or {}).encode())

            def log_message(self, format: str, *args: Any) -> None:
                pass

        self._server = HTTPServer(("127.0.0.1", 0), Handler)
        self.host = f"127.0.0.1:{self._server.server_port}"
        self.url = f"http://{self.host}"
        self._thread = threading.Thread(target=self._server.serve_forever, kwargs={"poll_interval": 0.01})
        self._thread.start()

    def close(self) -> None:
        if self._thread.is_alive():
            self._server.shutdown()
            self._thread.join()
            self._server.server_close()


@pytest.fixture
def registry() -> Iterator[FakedRegistry]:
    made = FakedRegistry()
    yield made
    made.close()


TARGET = pyarrow.struct([("id", pyarrow.int64()), ("at", pyarrow.timestamp("us", tz="UTC"))])


def place(row: int) -> str:
    return f"orders-0@{row + 10}"


def test_confluent_values_are_decoded_by_their_ids_schema(registry: FakedRegistry) -> None:
    given = {"value.format": "avro", "value.schema.registry": registry.url, "subscribe": "orders"}
    values = ValueFormat.parse(given)
    assert values.spark_type().startswith("struct<`id`:bigint")
    decoded = values.decode(pyarrow.array([b"\0\0\0\0\x07" + ENCODED, None]), TARGET, place)
    assert decoded.to_pylist() == [{"id": -3, "at": datetime.datetime.fromtimestamp(1000, datetime.UTC)}, None]
    for wrong, said in ((b"\0\0\0\0\x08" + ENCODED, "nothing at /schemas/ids/8"), (b"{}", "Confluent prefix")):
        with pytest.raises(ValueUnfit, match=f"orders-0@10 .*{said}"):
            values.decode(pyarrow.array([wrong]), TARGET, place)


FLAT = {"type": "record", "name": "Flat", "fields": [{"name": "id", "type": "long"}, {"name": "a", "type": "string"}]}
FLAT_TARGET = pyarrow.struct([("id", pyarrow.int64()), ("a", pyarrow.string())])
FLAT_VALUE = b"\0\0\0\0\x01" + b"\x02" + b"\x04hi"


def flat(registry: FakedRegistry, **options: str) -> ValueFormat:
    latest = "/subjects/flat-value/versions/latest"
    registry.answers |= {latest: {"schema": text(FLAT)}, "/schemas/ids/1": {"schema": text(FLAT)}}
    given = {"value.format": "avro", "value.schema.registry": registry.url, "subscribe": "flat", **options}
    return ValueFormat.parse(given)


def test_a_schema_that_is_registered_later_changes_no_query_that_runs(registry: FakedRegistry) -> None:
    values = flat(registry)
    values.check_fields(["id", "a"])
    sent = pickle.dumps(values)
    without = {**FLAT, "fields": FLAT["fields"][:1]}
    registry.answers["/subjects/flat-value/versions/latest"] = {"schema": text(without)}
    registry.asked.clear()
    decoded = pickle.loads(sent).decode(pyarrow.array([FLAT_VALUE]), FLAT_TARGET, place)
    assert decoded.to_pylist() == [{"id": 1, "a": "hi"}]
    assert [path for path, _ in registry.asked] == ["/schemas/ids/1"]
    # A frame that is older than the newest schema is told so, and gets no nulls.
    now = ValueFormat.parse({"value.format": "avro", "value.schema.registry": registry.url, "subscribe": "flat"})
    with pytest.raises(ValueError, match=r"value\.a, and the Avro schema has no such field \(but id\)"):
        now.check_fields(["id", "a"])


def test_a_column_of_some_of_the_fields_is_decoded_at_once(
    registry: FakedRegistry, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = flat(registry)
    monkeypatch.setattr("barnabas.spark.values._one_by_one", lambda *given: pytest.fail("value by value"))
    decoded = values.decode(pyarrow.array([FLAT_VALUE]), pyarrow.struct([("a", pyarrow.string())]), place)
    assert decoded.to_pylist() == [{"a": "hi"}]


def test_a_registry_that_is_down_makes_no_value_null(registry: FakedRegistry) -> None:
    values = flat(registry, **{"value.mode": "PERMISSIVE"})
    values.check_fields(["id"])
    registry.close()
    with pytest.raises(RegistryDown, match="did not answer /schemas/ids/1"):
        values.decode(pyarrow.array([FLAT_VALUE]), FLAT_TARGET, place)


def test_of_faulty_values_the_others_are_read_and_an_unknown_schema_is_asked_for_once(registry: FakedRegistry) -> None:
    values = flat(registry, **{"value.mode": "PERMISSIVE"})
    unknown = b"\0\0\0\0\x09" + FLAT_VALUE[5:]
    decoded = values.decode(pyarrow.array([FLAT_VALUE, unknown, unknown, b"{}", None]), FLAT_TARGET, place)
    assert decoded.to_pylist() == [{"id": 1, "a": "hi"}, None, None, None, None]
    assert [path for path, _ in registry.asked].count("/schemas/ids/9") == 1


def test_values_are_read_by_schemas_that_refer_to_others(registry: FakedRegistry) -> None:
    outer = {"type": "record", "name": "Outer", "fields": [{"name": "flat", "type": "Flat"}]}
    values = flat(registry, subscribe="outer")
    referring = {"schema": text(outer), "references": [{"name": "Flat", "subject": "flat-value", "version": 1}]}
    registry.answers |= {
        "/subjects/outer-value/versions/latest": referring,
        "/schemas/ids/2": referring,
        "/subjects/flat-value/versions/1": {"schema": text(FLAT)},
    }
    assert values.spark_type() == "struct<`flat`:struct<`id`:bigint,`a`:string>>"
    target = pyarrow.struct([("flat", FLAT_TARGET)])
    decoded = values.decode(pyarrow.array([b"\0\0\0\0\x02" + FLAT_VALUE[5:]]), target, place)
    assert decoded.to_pylist() == [{"flat": {"id": 1, "a": "hi"}}]


def test_a_registrys_address_may_have_a_password_which_nobody_is_told(registry: FakedRegistry) -> None:
    url = f"http://etl:hunter%402@{registry.host}"
    values = flat(registry, **{"value.schema.registry": url})
    assert values.spark_type() == "struct<`id`:bigint,`a`:string>"
    basic = base64.b64encode(b"etl:hunter@2").decode()
    assert registry.asked == [("/subjects/flat-value/versions/latest", f"Basic {basic}")]
    given = Registry(url)
    assert (given.url, given.user) == (registry.url, "etl:hunter@2")
    registry.close()
    with pytest.raises(RegistryDown) as down:
        given.by_id(1)
    assert "hunter" not in f"{down.value} {given}"


def test_an_enum_has_no_symbol_of_a_number_below_zero() -> None:
    enum = {"type": "enum", "name": "State", "symbols": ["NEW", "PAID"]}
    schema = AvroSchema(text({"type": "record", "name": "R", "fields": [{"name": "state", "type": enum}]}))
    read = schema.reader(schema)
    assert read(b"\x02", 0) == {"state": "PAID"}
    for number in (b"\x01", b"\x04"):
        with pytest.raises(AvroError, match=r"symbol .* of an enum of 2"):
            read(number, 0)


def test_schemas_come_from_files_too(tmp_path: Path) -> None:
    (tmp_path / "7.avsc").write_text(text(ORDER))
    values = ValueFormat.parse({"value.format": "avro", "value.schema.files": str(tmp_path), "subscribe": "a,b"})
    assert values.decode(pyarrow.array([b"\0\0\0\0\x07" + ENCODED]), TARGET, place)[0]["id"].as_py() == -3


def test_the_schema_file_of_the_greatest_number_is_the_newest(tmp_path: Path) -> None:
    for number, name in ((9, "older"), (10, "newer")):
        record = {"type": "record", "name": "R", "fields": [{"name": name, "type": "long"}]}
        (tmp_path / f"{number}.avsc").write_text(text(record))
    values = ValueFormat.parse({"value.format": "avro", "value.schema.files": str(tmp_path), "subscribe": "t"})
    assert values.spark_type() == "struct<`newer`:bigint>"


JSON = {"value.format": "json", "value.schema": "id LONG, at TIMESTAMP"}


@pytest.mark.parametrize(
    "values",
    [
        [b'{"id": 1, "at": "2026-01-02T03:04:05Z", "other": [1]}', None, b'{"at": null}', b'{\n"id": 4\n}'],
        [b'{"id": 1, "at": "2026-01-02T03:04:05+00:00"}', None, b"{}", b'{"id": 4}', b'{"id": 5} ', b"{}"],
    ],
)
def test_json_is_decoded_by_its_schema(values: list[Any]) -> None:
    decoded = ValueFormat.parse(JSON).decode(pyarrow.array(values), TARGET, place).to_pylist()
    moment = datetime.datetime(2026, 1, 2, 3, 4, 5, tzinfo=datetime.UTC)
    assert decoded[:4] == [{"id": 1, "at": moment}, None, {"id": None, "at": None}, {"id": 4, "at": None}]
    assert len(decoded) == len(values)


@pytest.mark.parametrize("wrong", [b"{", b"[1]", b"", b'{"id": "x"}', b'{"id": 1} {"id": 2}', b"\xff"])
def test_a_value_that_does_not_fit_is_named_or_null(wrong: bytes) -> None:
    values = pyarrow.array([b'{"id": 1}', wrong, b'{"id": 3}'])
    with pytest.raises(ValueUnfit, match="orders-0@11"):
        ValueFormat.parse(JSON).decode(values, TARGET, place)
    permissive = ValueFormat.parse({**JSON, "value.mode": "permissive"})
    assert [each and each["id"] for each in permissive.decode(values, TARGET, place).to_pylist()] == [1, None, 3]


def test_the_first_records_and_machines_without_numba_are_decoded_in_plain_python(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert takes_compiled("auto", COMPILED_RECORDS_MIN)
    assert not takes_compiled("auto", COMPILED_RECORDS_MIN - 1)
    assert takes_compiled("compiled", 1)
    assert not takes_compiled("python", COMPILED_RECORDS_MIN)
    assert takes_compiled("auto", 1, built=True)
    assert not takes_compiled("python", 1, built=True)
    monkeypatch.setitem(sys.modules, "numba", None)
    monkeypatch.setattr(compiled, "_troubles", {})
    assert not takes_compiled("auto", COMPILED_RECORDS_MIN)
    with pytest.raises(ValueError, match="needs numba"):
        takes_compiled("compiled", 1)
    assert takes_compiled("compiled", 1, built=True)


def test_a_numba_that_does_not_go_with_numpy_is_told_once_and_done_without(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """As numba says it where a newer numpy was installed beside it."""
    (tmp_path / "numba.py").write_text('raise ImportError("Numba needs NumPy 2.3 or less. Got NumPy 2.4.")\n')
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.delitem(sys.modules, "numba", raising=False)
    monkeypatch.setattr(compiled, "_troubles", {})
    assert not takes_compiled("auto", COMPILED_RECORDS_MIN)
    assert not takes_compiled("auto", COMPILED_RECORDS_MIN)
    assert [each.getMessage() for each in caplog.records] == [
        "Rows go through plain Python, slowly: numba cannot be used, Numba needs NumPy 2.3 or less. Got NumPy 2.4."
    ]
    with pytest.raises(ValueError, match=r"needs numba.*Got NumPy 2\.4"):
        takes_compiled("compiled", 1)


@pytest.mark.parametrize(
    ("values", "found"),
    [
        ([b'{"id":1}{"id":2}', b"", b'{"id":3}'], [None, None, {"id": 3}]),
        ([b'{"id":1}\n{"id":2}', b" ", None], [None, None, None]),
        ([b'{"id":', b"1}", b' {"id":2} {"id":3}\n'], [None, None, None]),
        ([b"null", b'{"id":1}'], [None, {"id": 1}]),
        ([b' {"id":1}\n', b'{"id":2}\r\n'], [{"id": 1}, {"id": 2}]),
    ],
)
def test_json_values_are_one_object_each_or_do_not_fit(values: list[bytes | None], found: list[Any]) -> None:
    kind = pyarrow.struct([("id", pyarrow.int64())])
    decoded = ValueFormat("json", "id LONG", True, None).decode(pyarrow.array(values, pyarrow.binary()), kind, str)
    assert decoded.to_pylist() == found


@pytest.mark.parametrize("beside", [b'{"x":1.5}', b"no JSON"])
def test_what_a_number_becomes_is_not_up_to_the_values_beside_it(beside: bytes) -> None:
    """Where one value does not fit, all are read one by one."""
    values = pyarrow.array([b'{"x":9007199254740993}', beside], pyarrow.binary())
    kind = pyarrow.struct([("x", pyarrow.float64())])
    decoded = ValueFormat("json", "x DOUBLE", True, None).decode(values, kind, str)
    assert decoded[0].as_py() == {"x": 9007199254740992.0}
