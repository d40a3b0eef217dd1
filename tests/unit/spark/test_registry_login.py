"""A login in a schema registry's address: it is sent to the registry, and told to nobody else."""

from __future__ import annotations

import base64
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import pytest

from barnabas.spark.avro import AvroSchemas
from barnabas.spark.registry import Registry, RegistryDown


@contextmanager
def server(status: int, headers: dict[str, str]) -> Iterator[tuple[str, list[str | None]]]:
    """Its port's address, and the logins that requests had."""
    logins: list[str | None] = []

    class Answers(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            logins.append(self.headers["Authorization"])
            self.send_response(status)
            for name, value in {**headers, "Content-Length": "2"}.items():
                self.send_header(name, value)
            self.end_headers()
            self.wfile.write(b"{}")

        def log_message(self, format: str, *arguments: Any) -> None:
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Answers) as listening:
        thread = threading.Thread(target=listening.serve_forever)
        thread.start()
        yield f"127.0.0.1:{listening.server_port}", logins
        listening.shutdown()
        thread.join()


def test_a_login_in_the_address_is_sent_and_not_told() -> None:
    with server(500, {}) as (host, logins):
        registry = Registry(f"http://etl:hunter%2F2@{host}")
        with pytest.raises(RegistryDown, match="answered 500") as failed:
            registry.newest("orders-value")
    assert logins == ["Basic " + base64.b64encode(b"etl:hunter/2").decode()]
    assert "hunter" not in f"{failed.value} {registry}"
    assert "hunter" not in repr(AvroSchemas(f"http://etl:hunter2@{host}", None, "orders-value", None))


@pytest.mark.parametrize(
    "url",
    [
        "https://etl:hunter2/x@registry:8081",
        "https://etl:1/hunter2@registry",
        "https://etl:hun#hunter2@registry",
        "https://etl:hunter2\u2100@registry",
        "https://[etl:hunter2@registry",
        "https://registry:hunter2",
    ],
)
def test_an_address_whose_login_has_no_end_is_refused_untold(url: str) -> None:
    with pytest.raises(ValueError, match="percent-encoded") as refused:
        Registry(url)
    assert "hunter2" not in str(refused.value)
    assert refused.value.__cause__ is None


def test_a_redirection_elsewhere_gets_no_login() -> None:
    with server(200, {}) as (elsewhere, logins):
        with server(302, {"Location": f"http://{elsewhere}/"}) as (host, _), pytest.raises(KeyError):
            Registry(f"http://etl:hunter2@{host}").newest("orders-value")
        assert logins == [None]
