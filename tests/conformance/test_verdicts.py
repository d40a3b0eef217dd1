"""The broker's verdict on hundreds of batches, most of them malformed, is Apache Kafka's (`make conformance`)."""

from __future__ import annotations

import json
from pathlib import Path

import apache
import pytest
from verdicts.asking import RECORDED, apaches, differences, ours


def test_the_verdict_on_every_batch_is_apache_kafkas(tmp_path: Path) -> None:
    recorded = json.loads(RECORDED.read_text())
    assert sum(each.get("error") not in (None, "NONE") for each in recorded.values()) > 500
    different = differences(ours(tmp_path), recorded)
    assert not different, "\n".join(different)


@pytest.mark.apache
def test_apache_kafkas_verdicts_are_those_that_were_recorded(tmp_path: Path) -> None:
    apache.require()
    assert apaches(tmp_path) == json.loads(RECORDED.read_text())
