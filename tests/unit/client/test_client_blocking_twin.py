"""The client whose calls wait: what an interruption, a cancelled future or an early end leave behind."""

from __future__ import annotations

import threading
from typing import Any

from barnabas.client.blocking import connect
from barnabas.testing import KafkaCluster


def in_a_thread(work: Any) -> tuple[threading.Thread, list[BaseException]]:
    """Runs `work` beside the test, which goes on where it waits for ever; what it raises comes into the list."""
    raised: list[BaseException] = []

    def run() -> None:
        try:
            work()
        except BaseException as error:
            raised.append(error)

    thread = threading.Thread(target=run, daemon=True)
    thread.start()
    return thread, raised


def test_a_callback_that_is_interrupted_interrupts_the_call_and_nothing_else(kafka_cluster: KafkaCluster) -> None:
    kafka_cluster.create_topic("t")
    interruptions = [KeyboardInterrupt()]

    def interrupted_once(_: object) -> None:
        if interruptions:
            raise interruptions.pop()

    with connect(kafka_cluster.bootstrap) as client:
        client.producer().send("t", b"first")
        consumer = client.consumer("t", group="g", auto_offset_reset="earliest", on_assigned=interrupted_once)
        thread, raised = in_a_thread(lambda: consumer.poll(10_000))
        thread.join(15)
        assert [type(error) for error in raised] == [KeyboardInterrupt]
        assert [record.value for record in consumer.poll(10_000)] == [b"first"]
