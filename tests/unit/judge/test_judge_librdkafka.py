"""What is written down of what librdkafka tells."""

from __future__ import annotations

import threading

import pytest
from confluent_kafka import KafkaError, KafkaException, Message

from barnabas.judge.history import NONE, Client, Context, Recording, Status
from barnabas.judge.journal import Journal
from barnabas.judge.librdkafka import RecordUnderWay, said, within
from barnabas.model.ids import TopicPartition


def test_a_record_that_is_acknowledged_by_the_answer_to_a_later_batch_is_at_no_known_offset() -> None:
    """It was written down at offset 0, and so a cluster without a fault had two values at one offset."""
    rows = Recording()
    for message in (Message("t", 0), Message("t", 0, offset=7)):
        RecordUnderWay(Journal(0, rows), TopicPartition("t", 0), NONE, value=1)(None, message)
    history = rows.history(Context((Client("writer"),), {}))
    assert (history.status.tolist(), history.offset.tolist()) == ([Status.OK] * 2, [NONE, 7])


def test_a_call_that_never_returns_is_given_up_and_one_that_does_tells_its_error() -> None:
    ends = threading.Event()
    with pytest.raises(KafkaException) as late:
        within(0.05, ends.wait)
    assert said(late.value).code() == KafkaError._TIMED_OUT
    ends.set()
    within(60, ends.wait)

    def fails() -> None:
        raise KafkaException(KafkaError(KafkaError._FENCED))

    with pytest.raises(KafkaException) as fenced:
        within(60, fails)
    assert said(fenced.value).code() == KafkaError._FENCED
