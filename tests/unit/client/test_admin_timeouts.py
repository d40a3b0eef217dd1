"""How long a client lets the brokers make partitions, and what it says where that was not long enough."""

from __future__ import annotations

from barnabas.client.admin import NewTopic, made, making_timeout_ms
from barnabas.model.errors import ErrorCode


def test_many_partitions_may_take_longer_than_one() -> None:
    assert making_timeout_ms([NewTopic("one", 1)]) < 31_000
    # They took 56 s with three replicas on two cores that did nothing else.
    assert making_timeout_ms([NewTopic("many", 10_000)]) > 120_000
    assert making_timeout_ms([NewTopic("placed", assignment=dict.fromkeys(range(10000), (1,)))]) > 120_000


def test_a_topic_that_is_late_is_said_to_be_on_its_way() -> None:
    assert made(ErrorCode.NONE, None, 30_020) is None
    late = made(ErrorCode.REQUEST_TIMED_OUT, None, 30_020)
    assert late is not None
    assert late.code is ErrorCode.REQUEST_TIMED_OUT
    assert "not every partition had a leader within 30 s; the brokers go on creating the topic" in str(late)
    refused = made(ErrorCode.REQUEST_TIMED_OUT, "the broker's own words", 30_020)
    assert refused is not None
    assert "the broker's own words" in str(refused)
