"""Whoever reads the metrics while `barnabas bench metrics` measures, and what becomes of a run without its reader."""

from __future__ import annotations

import contextlib
import os
import socket
import threading
from collections.abc import Iterator

import pytest

from barnabas.bench import BenchError
from barnabas.bench.metrics import MetricsReader

ANSWER = b"HTTP/1.1 200 \r\ntransfer-encoding: chunked\r\n\r\n2\r\na\n\r\n0\r\n\r\n"


class Endpoint(threading.Thread):
    """Answers so many requests of one connection, and closes it."""

    def __init__(self, answers: int) -> None:
        super().__init__(daemon=True)
        self._listener = socket.create_server(("127.0.0.1", 0))
        self._answers = answers
        self.address = f"127.0.0.1:{self._listener.getsockname()[1]}"
        self.asked: list[bytes] = []
        self.answered = threading.Event()

    def run(self) -> None:
        connection, _ = self._listener.accept()
        with connection, self._listener:
            for _ in range(self._answers):
                self.asked.append(connection.recv(1 << 16))
                connection.sendall(ANSWER)
            self.answered.set()
            if self._answers > 1:
                with contextlib.suppress(ConnectionResetError):
                    connection.recv(1 << 16)  # until whoever reads is gone


@pytest.fixture
def patient() -> Iterator[Endpoint]:
    endpoint = Endpoint(2)
    endpoint.start()
    yield endpoint
    endpoint.join(60)
    assert not endpoint.is_alive()


def test_metrics_are_read_again_and_again(patient: Endpoint) -> None:
    with MetricsReader([patient.address]):
        assert patient.asked, "a reader that is still starting takes CPU from what is measured"
        assert patient.answered.wait(60)
    assert len(patient.asked) == 2
    assert all(request.startswith(b"GET /metrics HTTP/1.1\r\n") for request in patient.asked)


def test_a_reader_that_rests_is_stopped_until_its_rest_is_over(patient: Endpoint) -> None:
    with MetricsReader([patient.address]) as reader:
        with reader.resting():
            _, status = os.waitpid(reader.process.pid, os.WUNTRACED)
            assert os.WIFSTOPPED(status)
        assert patient.answered.wait(60)
    assert len(patient.asked) == 2


def test_a_run_whose_metrics_nobody_read_is_none() -> None:
    endpoint = Endpoint(1)
    endpoint.start()
    with contextlib.ExitStack() as stack:
        reader = stack.enter_context(MetricsReader([endpoint.address]))
        reader.process.wait(60)
        endpoint.join(60)
        with pytest.raises(BenchError, match="an endpoint closed its connection"):
            stack.close()
