"""What a session's patterns have Spark leave out of plans, the event log and the UI."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from barnabas.spark.options import option_names
from barnabas.spark.session import SECRETS, TABLE_SPECS
from barnabas.spark.sink_options import option_names as sink_option_names

SECURED = Path(__file__).parents[3] / "docs" / "spark" / "secured.md"
SECRET_VALUES = {
    "kafka.sasl.jaas.config": 'a.B required username="u" clientId="c";',
    "kafka.sasl.password": "hunter2",
    "kafka.ssl.key.password": "hunter2",
    "kafka.ssl.keystore.password": "hunter2",
    "kafka.ssl.truststore.password": "hunter2",
    "kafka.ssl.keystore.key": "-----BEGIN ENCRYPTED KEY-----",
    "value.schema.registry": "https://etl:hunter2@registry:8081/path",
}


def told(name: str, value: str) -> bool:
    """As Spark decides it: neither the name nor the value has the pattern."""
    return not (re.search(SECRETS, name) or re.search(SECRETS, value))


@pytest.mark.parametrize(("name", "value"), SECRET_VALUES.items())
def test_a_secret_is_left_out(name: str, value: str) -> None:
    assert name in {*option_names(), *sink_option_names()}
    assert not told(name, value)
    assert not told("spark.hadoop.a", "-----BEGIN PRIVATE KEY-----")


def test_other_options_are_told() -> None:
    plain = {
        "kafka.bootstrap.servers": "h:9092",
        "subscribe": "orders",
        "value.schema.registry": "https://registry/a@b",
    }
    assert all(told(name, value) for name, value in plain.items())
    tokens = {name for name in option_names() if "token" in name}
    hidden = {name for name in option_names() if not told(name, "1")}
    assert hidden == {name for name in SECRET_VALUES if name != "value.schema.registry"} | tokens


PARSED = """== Parsed Logical Plan ==
'CreateTable unresolvedtablespec(Some(barnabas), optionlist((subscribe,orders), (kafka.ssl.keystore.key,-----BEGIN
hunter2
-----END), (note,a) none, b)), None, None, None, None, false), false
+- 'UnresolvedIdentifier [k2], false

== Physical Plan ==
CreateTable V2SessionCatalog(spark_catalog), default.k2, TableSpec(Map(),Some(barnabas),HashMap(registry ->
http://u:hunter2@h, subscribe -> orders),None,None,None,None,false,List()), false
"""


@pytest.mark.parametrize("text", [PARSED, PARSED.replace(", false", ", true"), PARSED[: PARSED.rindex("hunter2") + 20]])
def test_a_tables_options_are_left_out_of_plans(text: str) -> None:
    shown = re.sub(TABLE_SPECS.replace(r"\z", r"\Z"), "*", text)
    assert "hunter2" not in shown
    assert "default.k2" in shown
    assert "UnresolvedIdentifier [k2]" in shown


def test_the_document_has_both_patterns() -> None:
    assert {SECRETS, TABLE_SPECS} <= set(re.findall(r"^spark\.\S+ +(.+)$", SECURED.read_text(), re.MULTILINE))
