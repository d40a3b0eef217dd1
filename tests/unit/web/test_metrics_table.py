"""The table of metrics beside Kafka's own list (its MBeans, from two 3.9.1 brokers at work)."""

from __future__ import annotations

import re
from pathlib import Path

import metrics_reference
import pytest
from metrics_not_exported import NOT_EXPORTED, reason

from barnabas.web.exposition import exposed_name
from barnabas.web.metrics import METRICS, name_of
from barnabas.web.partition_metrics import PARTITION_METRICS, PARTITION_TOTALS, TOPIC_METRICS

KAFKAS = Path(__file__).with_name("kafka_mbeans.txt").read_text().split("\n")[:-1]
TABLE = (*METRICS, *TOPIC_METRICS, *PARTITION_TOTALS)
OURS = [
    each.mbean.partition(": ")[0]
    for each in (*METRICS, *TOPIC_METRICS, *PARTITION_TOTALS, *PARTITION_METRICS)
    if each.mbean
]


def exported(mbean: str) -> bool:
    """Under a name of ours; where a label of Kafka's is left out, that has its reason."""
    return reason(mbean) is None and any(mbean == each or mbean.startswith(f"{each},") for each in OURS)


@pytest.mark.parametrize("mbean", KAFKAS)
def test_each_of_kafkas_metrics_is_here_or_has_a_reason(mbean: str) -> None:
    assert exported(mbean) or reason(mbean), f"{mbean}: neither in METRICS nor in NOT_EXPORTED"


def test_whatever_is_here_under_kafkas_name_is_kafkas() -> None:
    assert not [each for each in OURS if not any(mbean == each or mbean.startswith(f"{each},") for mbean in KAFKAS)]


def test_each_reason_is_needed() -> None:
    said = [reason(mbean) for mbean in KAFKAS if not exported(mbean)]
    assert set(NOT_EXPORTED.values()) == set(said)


def test_names_are_those_of_the_jmx_exporter_and_each_is_there_once() -> None:
    assert (
        name_of("kafka.server:type=BrokerTopicMetrics,name=BytesInPerSec") == "kafka_server_brokertopicmetrics_bytesin"
    )
    names = [exposed_name(each) for each in TABLE] + [each.name for each in PARTITION_METRICS]
    assert len(names) == len(set(names))
    assert all(re.fullmatch(r"[a-z][a-z0-9_]*", name) for name in names)


def test_the_page_is_made_from_the_table() -> None:
    assert metrics_reference.PAGE.read_text() == metrics_reference.page(), "make docs"
