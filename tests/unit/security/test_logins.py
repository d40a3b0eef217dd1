"""How clients get what they log in with, and where brokers get the keys by which they check it."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import dataclasses
import http.server
import json
import pickle
import re
import ssl
import threading
from collections.abc import Iterator
from pathlib import Path
from urllib.parse import parse_qs

import pytest
from certificates import Authority
from joserfc import jws
from joserfc.jwk import RSAKey

from barnabas.client import blocking_http
from barnabas.client.blocking import connect
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError
from barnabas.runtime.doors import Runtime
from barnabas.runtime.real import real_runtime
from barnabas.security.sasl import http as sasl_http
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.security.sasl.http import ALLOWED_URLS, Fetch, HttpError, HttpRequest
from barnabas.security.sasl.login import Doors, Login, SaslLogin, login_of
from barnabas.security.sasl.offered import login_of_broker, offered_mechanisms
from barnabas.security.sasl.scram import NoUsers
from barnabas.spark.access import ClusterAccess

JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
ENDPOINT = "sasl.oauthbearer.token.endpoint.url"


class Server:
    """Answers what `answers` has for a path, in turn; the last one again and again."""

    def __init__(self, tls: ssl.SSLContext | None = None) -> None:
        self.answers: dict[str, list[tuple[int, str, dict[str, str]]]] = {}
        self.asked: list[tuple[str, str, dict[str, str], str]] = []
        server = self

        class Handler(http.server.BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = self.rfile.read(int(self.headers.get("Content-Length", 0))).decode()
                server.asked.append((self.command, self.path, dict(self.headers), body))
                answers = server.answers.get(self.path, [(404, "", {})])
                status, text, headers = answers.pop(0) if len(answers) > 1 else answers[0]
                self.send_response(status)
                for name, value in headers.items():
                    self.send_header(name, value)
                self.end_headers()
                self.wfile.write(text.encode())

            do_POST = do_GET

            def log_message(self, *arguments: object) -> None:
                pass

        self._server = http.server.ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        if tls is not None:
            self._server.socket = tls.wrap_socket(self._server.socket, server_side=True)
        self.url = f"{'http' if tls is None else 'https'}://127.0.0.1:{self._server.server_port}"
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()
        self._thread.join()


@pytest.fixture
def server() -> Iterator[Server]:
    with contextlib.closing(Server()) as made:
        yield made


def begin(login: Login, now_ms: int = 0, fetch: Fetch = blocking_http.fetch) -> bytes:
    """The first token that is sent."""
    doors = Doors("broker", "nonce", now_ms, fetch, lambda path: Path(path).read_bytes())

    async def first() -> bytes:
        return next(await login.begin(doors))

    return asyncio.run(first())


def through_the_loop(request: HttpRequest):
    return sasl_http.fetch(real_runtime(), request)


def bearer(said: bytes) -> str:
    return said.decode().split("auth=Bearer ")[1].split("\x01")[0]


def token(name: str, exp: float) -> str:
    return f"{name}.{base64.urlsafe_b64encode(json.dumps({'exp': exp}).encode()).rstrip(b'=').decode()}.sig"


def endpoint_login(server: Server, **more: str) -> Login:
    url = f"{server.url}/token"
    jaas = f'{JAAS} clientId="me" clientSecret="my=secret" scope="a b" extension_traceId="7";'
    settings = {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas, ENDPOINT: url, ALLOWED_URLS: url}
    return login_of({**settings, **{name.replace("_", "."): value for name, value in more.items()}})


@pytest.mark.parametrize("fetch", [blocking_http.fetch, through_the_loop])
def test_a_token_is_fetched_by_client_credentials_and_used_for_most_of_its_life(server: Server, fetch: Fetch) -> None:
    tokens = [token(name, 1000) for name in ("one", "two")]
    server.answers["/token"] = [(200, json.dumps({"access_token": each}), {}) for each in tokens]
    login = endpoint_login(server)
    assert pickle.loads(pickle.dumps(login)) == login
    assert hash(login) == hash(endpoint_login(server))
    assert "secret" not in repr(login)
    assert begin(login, 0, fetch) == f"n,,\x01auth=Bearer {tokens[0]}\x01traceId=7\x01\x01".encode()
    command, _, headers, body = server.asked[0]
    assert command == "POST"
    assert headers["Authorization"] == "Basic " + base64.b64encode(b"me:my=secret").decode()
    assert headers["Content-Type"] == "application/x-www-form-urlencoded"
    assert parse_qs(body) == {"grant_type": ["client_credentials"], "scope": ["a b"]}
    assert bearer(begin(login, 600_000, fetch)) == tokens[0]
    assert len(server.asked) == 1
    assert bearer(begin(login, 800_000, fetch)) == tokens[1]


@pytest.mark.parametrize("fetch", [blocking_http.fetch, through_the_loop])
def test_an_endpoint_that_gives_no_token_is_told_of_without_the_secret(server: Server, fetch: Fetch) -> None:
    inside = f"{server.url}/inside"
    server.answers["/inside"] = [(200, '{"access_token": "a.b.c"}', {})]
    for answer, complaint in (
        ((401, '{"error": "invalid_client", "error_description": "who?"}', {}), "status 401 invalid_client who?"),
        ((500, "<html>", {}), "status 500"),
        ((302, "", {"Location": inside}), "status 302"),
        ((307, "", {"Location": inside}), "status 307"),
        ((200, "no json", {}), "without an access_token"),
        ((200, '{"access_token": 7}', {}), "without an access_token"),
    ):
        server.answers["/token"] = [answer]
        with pytest.raises(SaslRefused, match=complaint.replace("?", r"\?")) as told:
            begin(endpoint_login(server), 0, fetch)
        assert "secret" not in str(told.value)
    assert not [path for _, path, _, _ in server.asked if path == "/inside"]
    server.answers["/token"] = [(200, "x" * (sasl_http.ANSWER_BYTES_MAX + 1), {})]
    with pytest.raises(HttpError, match="larger"):
        begin(endpoint_login(server), 0, fetch)


def test_a_token_in_a_file_is_read_for_every_connection(tmp_path: Path) -> None:
    path = tmp_path / "token"
    url = f"file:{path}"
    login = login_of(
        {"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{JAAS};", ENDPOINT: url, ALLOWED_URLS: url}
    )
    for each in ("a.b.c", "d.e.f"):
        path.write_text(each + "\n")
        assert bearer(begin(login)) == each


def test_an_unsecured_token_is_made_where_it_is_asked_for() -> None:
    jaas = (
        f'{JAAS} unsecuredLoginStringClaim_sub="me" unsecuredLoginNumberClaim_n="1.5" '
        'unsecuredLoginListClaim_scope="|a|b" unsecuredLoginLifetimeSeconds="60" unsecuredLoginExtension_traceId="7";'
    )
    said = begin(login_of({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": jaas}), 5_000)
    header, claims, signature = bearer(said).split(".")
    assert json.loads(base64.urlsafe_b64decode(header + "==")) == {"alg": "none"}
    assert json.loads(base64.urlsafe_b64decode(claims + "==")) == {
        "sub": "me", "n": 1.5, "scope": ["a", "b"], "iat": 5.0, "exp": 65.0,
    }  # fmt: skip
    assert signature == ""
    assert b"\x01traceId=7\x01" in said


@pytest.mark.parametrize(
    ("settings", "complaint"),
    [
        ({}, "endpoint.url is not set"),
        ({ENDPOINT: "https://a/token"}, "not on the list"),
        ({ENDPOINT: "file:/etc/passwd"}, "not on the list"),
        ({ENDPOINT: "https://a/token", ALLOWED_URLS: "https://a/token"}, "needs clientId and clientSecret"),
        ({ENDPOINT: "a/token", ALLOWED_URLS: "a/token"}, "it takes an address"),
        ({"sasl.jaas.config": f'{JAAS} unsecuredLoginStringClaim_scope="a";'}, "names nobody"),
        ({"sasl.jaas.config": f'{JAAS} unsecuredLoginStringClaim_exp="a";'}, "the login's own"),
        ({"sasl.jaas.config": f'{JAAS} unsecuredLoginStringClaim_sub="a";', ENDPOINT: "https://a"}, "takes one"),
        ({"sasl.login.callback.handler.class": "com.example.Mine"}, "no class of the operator's"),
        ({"sasl.mechanism": "SCRAM-SHA-1"}, "are supported"),
        ({"sasl.mechanism": "GSSAPI"}, "gssapi|kerberos"),
    ],
)
def test_settings_that_say_too_little_are_refused(settings: dict[str, str], complaint: str) -> None:
    with pytest.raises(ConfigError, match=complaint):
        login_of({"sasl.mechanism": "OAUTHBEARER", "sasl.jaas.config": f"{JAAS};", **settings})


INSIDE = (
    "file:/etc/passwd",
    "file:///etc/passwd",
    "http://localhost:8080/token",
    "http://127.0.0.1/token",
    "http://[::1]/token",
    "http://169.254.169.254/latest/meta-data",
    "https://authority.example.com@169.254.169.254/token",
    "https://authority.example.com/token/../../inside",
    "https://authority.example.com/token?to=inside",
    "https://AUTHORITY.example.com/token",
    "https://authority.example.com/token,file:/etc/passwd",
)


@pytest.mark.parametrize("allowed", [{}, {ALLOWED_URLS: ""}, {ALLOWED_URLS: "https://authority.example.com/token"}])
@pytest.mark.parametrize("url", INSIDE)
def test_cve_2025_27817_nobody_is_asked_who_is_not_on_the_list_which_is_empty_by_default(
    url: str, allowed: dict[str, str]
) -> None:
    """Neither by a client, nor by a Spark source, nor by a broker that logs in to others."""
    settings = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f'{JAAS} clientId="me" clientSecret="my";',
        ENDPOINT: url,
        **allowed,
    }
    refused = rf"{re.escape(ENDPOINT)} is .*{re.escape(ALLOWED_URLS)}"
    with pytest.raises(ConfigError, match=refused):
        login_of(settings)
    with pytest.raises(ConfigError, match=refused):
        connect(config={"bootstrap.servers": "localhost:1", **settings})
    with pytest.raises(ValueError, match=rf"Option kafka\.{refused}"):
        ClusterAccess.parse(
            {"kafka.bootstrap.servers": "h:1", **{f"kafka.{name}": each for name, each in settings.items()}}
        )
    values = {
        "sasl.mechanism.inter.broker.protocol": "OAUTHBEARER",
        "listener.name.inside.oauthbearer.sasl.jaas.config": settings["sasl.jaas.config"],
        ENDPOINT: url,
        **allowed,
    }
    with pytest.raises(ConfigError, match=refused):
        login_of_broker(broker_config(values), "INSIDE")


def test_a_delegation_token_is_a_scram_login() -> None:
    jaas = 'a.ScramLoginModule required username="id" password="mac" tokenauth="true";'
    login = login_of({"sasl.mechanism": "SCRAM-SHA-256", "sasl.jaas.config": jaas})
    assert login == SaslLogin("SCRAM-SHA-256", "id", "mac", token_authenticated=True)
    assert begin(login) == b"n,,n=id,r=nonce,tokenauth=true"


def test_a_broker_logs_in_to_others_by_the_same_options() -> None:
    plain = "org.apache.kafka.common.security.plain.PlainLoginModule required"
    values = {
        "sasl.mechanism.inter.broker.protocol": "PLAIN",
        "listener.name.inside.plain.sasl.jaas.config": f'{plain} username="broker" password="pw" user_broker="pw";',
    }
    assert login_of_broker(broker_config(values), "INSIDE") == SaslLogin("PLAIN", "broker", "pw")
    with pytest.raises(ConfigError, match=r"listener\.name\.outside\.plain\.sasl\.jaas\.config is not set"):
        login_of_broker(broker_config(values), "OUTSIDE")
    values["listener.name.inside.plain.sasl.jaas.config"] = f'{plain} user_broker="pw";'
    with pytest.raises(ConfigError, match=r"listener\.name\.inside\.plain\.sasl\.jaas\.config, between brokers"):
        login_of_broker(broker_config(values), "INSIDE")


class MovingClock:
    def __init__(self) -> None:
        self.elapsed_ms = 0

    def now_ms(self) -> int:
        return 1_700_000_000_000 + self.elapsed_ms

    def monotonic_ms(self) -> int:
        return self.elapsed_ms


def test_keys_come_from_an_address_by_its_own_authority_and_change_there(tmp_path: Path) -> None:
    authority, stranger = Authority(tmp_path / "authority"), Authority(tmp_path / "stranger", "stranger")
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(authority.issue("keys").key_store)
    keys = {name: RSAKey.generate_key(2048, {"kid": name}, private=True) for name in ("one", "two")}
    clock = MovingClock()
    runtime: Runtime = dataclasses.replace(real_runtime(), clock=clock)

    def signed(name: str) -> bytes:
        claims = {"sub": "alice", "iat": clock.now_ms() / 1000, "exp": clock.now_ms() / 1000 + 60}
        made = jws.serialize_compact(
            {"alg": "RS256", "kid": name}, json.dumps(claims), keys[name], algorithms=["RS256"]
        )
        return f"n,,\x01auth=Bearer {made}\x01\x01".encode()

    def published(*names: str) -> tuple[int, str, dict[str, str]]:
        return 200, json.dumps({"keys": [keys[name].as_dict(private=False) for name in names]}), {}

    def mechanism(url: str, trust: Path):
        jaas = f'{JAAS} ssl.truststore.location="{trust}" ssl.truststore.type="PEM";'
        values = {
            "sasl.enabled.mechanisms": "OAUTHBEARER",
            "listener.name.o.oauthbearer.sasl.jaas.config": jaas,
            "sasl.oauthbearer.jwks.endpoint.url": url,
            ALLOWED_URLS: url,
        }
        return offered_mechanisms(broker_config(values), "O", NoUsers(), runtime)["OAUTHBEARER"]

    async def taken(by, said: bytes) -> bool:
        exchange = by.begin()
        await exchange.evaluate(said)
        return exchange.authenticated is not None

    async def story(server: Server) -> None:
        url = f"{server.url}/keys"
        server.answers["/keys"] = [published("one")]
        ours = mechanism(url, authority.trust_store)
        assert await asyncio.gather(*(taken(ours, signed("one")) for _ in range(3))) == [True] * 3
        assert len(server.asked) == 1
        server.answers["/keys"] = [published("one", "two")]
        # An unknown key is no reason to ask at once again, whoever sends them.
        assert not await taken(ours, signed("two"))
        assert len(server.asked) == 1
        clock.elapsed_ms += 10_000
        assert await taken(ours, signed("two"))
        # What cannot be had, or points elsewhere, leaves the keys as they are.
        server.answers["/keys"] = [(302, "", {"Location": f"{server.url}/inside"}), (200, "[]", {}), (500, "", {})]
        for _ in range(3):
            clock.elapsed_ms += 3_600_000
            assert await taken(ours, signed("one"))
        assert {path for _, path, _, _ in server.asked} == {"/keys"}
        server.answers["/keys"] = [published("two")]
        clock.elapsed_ms += 3_600_000
        assert not await taken(ours, signed("one"))
        # An address whose certificate another authority signed is not believed.
        assert not await taken(mechanism(url, stranger.trust_store), signed("two"))

    with contextlib.closing(Server(context)) as server:
        asyncio.run(story(server))
