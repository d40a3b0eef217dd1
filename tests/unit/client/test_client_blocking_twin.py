"""The client whose calls wait: what an interruption, a cancelled future or an early end leave behind."""

from __future__ import annotations

import os
import signal
import socket
import threading
from collections.abc import Callable
from concurrent.futures import CancelledError
from typing import Any

import pytest

from barnabas.client.blocking import connect
from barnabas.client.blocking_twin import SyncConsumer
from barnabas.testing import KafkaCluster


def in_a_thread(work: Callable[[], Any]) -> tuple[threading.Thread, list[Any]]:
    """Runs `work` beside the test, which goes on where it waits for ever; what it comes to is in the list."""
    outcome: list[Any] = []

    def run() -> None:
        try:
            outcome.append(work())
        except BaseException as error:
            outcome.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, outcome


def test_a_callback_that_is_interrupted_interrupts_the_call_and_nothing_else(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    interruptions = [KeyboardInterrupt()]

    def interrupted_once(_: object) -> None:
        if interruptions:
            raise interruptions.pop()

    with connect(kafka_cluster.bootstrap) as client:
        client.producer().send("t", b"first")
        consumer = client.consumer("t", group="g", auto_offset_reset="earliest", on_assigned=interrupted_once)
        thread, outcome = in_a_thread(lambda: consumer.poll(10_000))
        thread.join(15)
        assert [type(error) for error in outcome] == [KeyboardInterrupt]
        assert [record.value for record in consumer.poll(10_000)] == [b"first"]


def test_a_record_whose_future_was_cancelled_is_not_sent_and_holds_up_no_other(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    with connect(kafka_cluster.bootstrap) as client:
        producer = client.producer()
        loop_goes_on = threading.Event()
        client._loop.loop.call_soon_threadsafe(loop_goes_on.wait)
        given_up = [producer.append("t", value) for value in (b"given up", "given up, and no bytes")]  # type: ignore[arg-type]
        assert all(future.cancel() for future in given_up)
        loop_goes_on.set()
        assert producer.append("t", b"sent").result(timeout=10).offset == 0
        with pytest.raises(CancelledError):
            given_up[0].result()


def interrupted_behind_a_poll(consumer: SyncConsumer, poll: Callable[[], Any]) -> None:
    """Interrupts whoever waits for the loop's poll in the moment in which that has its records."""
    told = threading.Event()
    records_of = consumer._consumer.poll

    async def interrupts(*given: Any, **named: Any) -> Any:
        records = await records_of(*given, **named)
        os.kill(os.getpid(), signal.SIGINT)
        told.wait(10)
        return records

    consumer._consumer.poll = interrupts  # type: ignore[method-assign]
    with pytest.raises(KeyboardInterrupt):
        poll()
    consumer._consumer.poll = records_of  # type: ignore[method-assign]
    told.set()


@pytest.mark.parametrize("way", ["poll", "iterate"])
def test_what_an_interrupted_poll_found_is_given_by_the_next_and_not_committed(
    kafka_cluster: KafkaCluster, way: str
) -> None:
    kafka_cluster.create_topic("t")
    with connect(kafka_cluster.bootstrap) as client:
        client.producer().send("t", b"first")
        consumer = client.consumer("t", group="g", auto_offset_reset="earliest")
        interrupted_behind_a_poll(consumer, lambda: consumer.poll(10_000) if way == "poll" else next(iter(consumer)))
        consumer.close()
        assert client.consumer("t", group="g", auto_offset_reset="earliest").poll(10_000)[0].value == b"first"


def test_an_iteration_ends_when_its_consumer_is_closed(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    with connect(kafka_cluster.bootstrap) as client:
        client.producer().send("t", b"first")
        consumer = client.consumer("t", auto_offset_reset="earliest")
        iteration = iter(consumer)
        assert next(iteration).value == b"first"
        thread, outcome = in_a_thread(lambda: list(iteration))
        consumer.close()
        thread.join(10)
        assert outcome == [[]]
        assert list(consumer) == []


@pytest.mark.filterwarnings("error")
def test_what_is_closed_may_be_closed_again_and_says_so_where_it_is_used(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    with connect(kafka_cluster.bootstrap) as client, client.producer() as producer:
        consumer = client.consumer("t")
        consumer.poll(0)
        client.close()
        consumer.close()
        for use in (lambda: consumer.poll(0), lambda: producer.send("t", b"late"), lambda: client.admin.list_groups()):
            with pytest.raises(RuntimeError, match="The client is closed"):
                use()


def test_records_that_wait_for_metadata_that_does_not_come_fail_together() -> None:
    with socket.create_server(("127.0.0.1", 0)) as nobody:
        nowhere = f"127.0.0.1:{nobody.getsockname()[1]}"
    with connect(nowhere, config={"default.api.timeout.ms": "200"}) as client:
        producer = client.producer()
        all_wait = threading.Event()
        client._loop.loop.call_soon_threadsafe(all_wait.wait)
        futures = [producer.append("t", b"%d" % number) for number in range(500)]
        all_wait.set()
        producer.flush()
        assert "no broker can be reached" in str(futures[0].exception())
        assert {id(future.exception()) for future in futures} == {id(futures[0].exception())}
        with pytest.raises(OSError) as later:
            producer.send("t", b"later")
        assert later.value is not futures[0].exception()
