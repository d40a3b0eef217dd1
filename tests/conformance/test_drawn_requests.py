"""Requests that nobody has thought of, asked of ours and of Apache Kafka 3.9.2; `make drawn` asks more of them."""

from __future__ import annotations

from pathlib import Path

import apache
import pytest
from drawn.clusters import both
from drawn.play import Play

EPISODES = 12
REQUESTS = 40


@pytest.mark.long(1)
@pytest.mark.apache
def test_drawn_requests_are_answered_as_by_apache_kafka(tmp_path: Path) -> None:
    apache.require()
    with both(tmp_path) as (ours, apaches):
        play = Play(ours, apaches, seed=0)
        for number in range(EPISODES):
            play.episode(number, REQUESTS)
    assert not play.found, "\n".join(map(str, play.found))
    assert play.compared.total() > 700
    assert len(play.compared) > 40
