from __future__ import annotations

import sys
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

import apache


@pytest.fixture(autouse=True)
def _apache_kafka_is_there(request: pytest.FixtureRequest) -> None:
    """A test marked ``apache`` runs only where Apache Kafka 3.9.1 can be had."""
    if request.node.get_closest_marker("apache") is not None:
        apache.require()
