"""The clusters that tests share: who may build on them, whose mark says how they are made, and that they are mended."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

SHARED = """
import pytest


@pytest.fixture(scope="module")
def topic(kafka_module_cluster):
    return kafka_module_cluster.create_topic("t")


@pytest.mark.kafka(brokers=2)
def test_first(topic, kafka_session_cluster):
    assert len(kafka_session_cluster.brokers) == 2
    topic.partition(0).leader.kill()


def test_asks_at_run_time(request):
    shared = request.getfixturevalue("kafka_module_cluster")
    assert [broker.state for broker in shared.brokers] == ["running"] * 2
    shared.broker(1).kill()


def test_fails(kafka_module_cluster, kafka_session_cluster):
    assert [broker.state for broker in kafka_module_cluster.brokers] == ["running"] * 2
    assert False, "on purpose"
"""


MARKED = """
import pytest

pytestmark = pytest.mark.kafka(brokers=1, seed=1)


@pytest.mark.kafka(seed=2)
def test_its_own(kafka_cluster):
    assert (len(kafka_cluster.brokers), kafka_cluster.seed) == (1, 2)


def test_the_modules(kafka_module_cluster):
    assert (len(kafka_module_cluster.brokers), kafka_module_cluster.seed) == (1, 1)
"""


def test_a_tests_mark_adds_to_its_modules(tmp_path: Path) -> None:
    (tmp_path / "test_marked.py").write_text(MARKED)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "."]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert "2 passed" in run.stdout, run.stdout


def test_fixtures_of_a_module_build_on_its_cluster_which_the_first_tests_mark_makes(tmp_path: Path) -> None:
    (tmp_path / "test_shared.py").write_text(SHARED)
    command = [sys.executable, "-m", "pytest", "-q", "--kafka-traces=traces", "-p", "no:cacheprovider", "."]
    run = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, timeout=200, check=False)
    assert "1 failed, 2 passed" in run.stdout, run.stdout
    assert len(list((tmp_path / "traces").glob("*.txt"))) == 2  # each of its clusters has a story of its own
