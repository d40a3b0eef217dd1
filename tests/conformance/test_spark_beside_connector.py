"""At the edges ``format("barnabas")`` answers as the official connector does, or otherwise as its case says."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import Any

import pytest
from cluster import running
from connector_cases import CASES, Case, answer, fill

pytestmark = [
    pytest.mark.apache,
    pytest.mark.spark,
    pytest.mark.skipif(not os.environ.get("BARNABAS_CLIENTS"), reason="a hundred reads: make clients"),
]


@pytest.fixture(scope="module")
def bootstrap(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with running(tmp_path_factory.mktemp("edges"), 1) as cluster:
        unfinished = fill(cluster.bootstrap)
        yield cluster.bootstrap
        unfinished.abort_transaction(30)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_batch_at_the_edge(spark: Any, bootstrap: str, case: Case) -> None:
    fits(answer(spark, bootstrap, "kafka", case.options), case.official)
    fits(answer(spark, bootstrap, "barnabas", case.options), case.ours or case.official)
    # An answer that is another one has its reason, other words for the same one need none.
    assert bool(case.why) == (case.official.startswith("error: ") != (case.ours or case.official).startswith("error: "))


def fits(found: str, stated: str) -> None:
    if stated.startswith("error: "):
        assert found.startswith("error: ")
        assert stated.removeprefix("error: ") in found
    else:
        assert found == stated


def test_nulls_tombstones_headers_and_append_times_are_the_same_rows(spark: Any, bootstrap: str) -> None:
    def rows(source: str) -> list[tuple[Any, ...]]:
        reader = spark.read.format(source).option("kafka.bootstrap.servers", bootstrap)
        frame = reader.option("subscribe", "nulls,appended").option("includeHeaders", "true").load()
        return sorted(map(tuple, frame.collect()), key=lambda row: (row[2], row[4]))

    ours = rows("barnabas")
    assert ours == rows("kafka")
    assert [row[6] for row in ours] == [1] + [0] * 10  # LogAppendTime, CreateTime
    assert [(row[0], row[1]) for row in ours[6:]] == [
        (None, None), (None, b"v"), (b"k", None), (b"", b""), (b"\xff", b"\xff"),
    ]  # fmt: skip
