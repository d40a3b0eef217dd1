"""OAUTHBEARER on the broker's side: which tokens are taken, and which attacks are not."""

from __future__ import annotations

import asyncio
import base64
import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from joserfc import jws
from joserfc.jwk import ECKey, OctKey, RSAKey

from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError
from barnabas.runtime.doors import Runtime
from barnabas.runtime.real import real_runtime
from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import Authenticated, SaslRefused
from barnabas.security.sasl.http import ALLOWED_URLS
from barnabas.security.sasl.oauthbearer import client_tokens
from barnabas.security.sasl.offered import offered_mechanisms
from barnabas.security.sasl.scram import NoUsers

NOW_S = 1_700_000_000
KEY = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, private=True)
CURVE = ECKey.generate_key("P-256", {"kid": "two"}, private=True)
FOREIGN = RSAKey.generate_key(2048, {"kid": "one"}, private=True)
CLAIMS: dict[str, Any] = {"sub": "alice", "iat": NOW_S - 10, "exp": NOW_S + 600, "scope": "read write"}
JAAS = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required"
UNSECURED = (
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
)
PREFIX = "listener.name.oauth.oauthbearer."


class StandingClock:
    def now_ms(self) -> int:
        return NOW_S * 1000

    def monotonic_ms(self) -> int:
        return 0


def runtime() -> Runtime:
    return dataclasses.replace(real_runtime(), clock=StandingClock())


@pytest.fixture(scope="module")
def jwks(tmp_path_factory: pytest.TempPathFactory) -> Path:
    path = tmp_path_factory.mktemp("keys") / "jwks.json"
    odd = [{"kty": "oct", "k": "c2VjcmV0", "kid": "shared"}, {"kty": "RSA", "kid": "broken", "n": "!"}, "none"]
    path.write_text(json.dumps({"keys": [KEY.as_dict(private=False), CURVE.as_dict(private=False), *odd]}))
    return path


def config(jwks: Path, **more: str) -> dict[str, str]:
    url = f"file:{jwks}"
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}sasl.jaas.config": f"{JAAS};",
        "sasl.oauthbearer.jwks.endpoint.url": url,
        ALLOWED_URLS: f"https://elsewhere/keys,{url}",
        **{name.replace("_", "."): value for name, value in more.items()},
    }


async def shown(values: dict[str, str], first: bytes) -> tuple[Authenticated | None, bytes]:
    server = offered_mechanisms(broker_config(values), "OAUTH", NoUsers(), runtime())["OAUTHBEARER"].begin()
    answer = await server.evaluate(first)
    return server.authenticated, answer


def login(values: dict[str, str], token: str, **extensions: str) -> Authenticated | None:
    async def converse() -> Authenticated | None:
        server = offered_mechanisms(broker_config(values), "OAUTH", NoUsers(), runtime())["OAUTHBEARER"].begin()
        tokens = client_tokens(token, extensions)
        said = next(tokens)
        while True:
            try:
                said = tokens.send(await server.evaluate(said))
            except StopIteration:
                return server.authenticated

    return asyncio.run(converse())


def signed(key: Any = KEY, header: dict[str, Any] | None = None, **claims: Any) -> str:
    said = {**CLAIMS, **claims}
    header = {"alg": "RS256", "kid": "one", **(header or {})}
    payload = json.dumps({name: value for name, value in said.items() if value is not None})
    return jws.serialize_compact(header, payload, key, algorithms=[header["alg"]])


def encoded(part: object) -> str:
    return base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode()


ALICE = Authenticated(Principal("User", "alice"), (NOW_S + 600) * 1000)


def test_a_token_that_the_authority_signed_is_taken_until_it_expires(jwks: Path) -> None:
    assert login(config(jwks), signed()) == ALICE
    assert login(config(jwks), signed(), traceId="7") == ALICE
    assert login(config(jwks), signed(CURVE, {"alg": "ES256", "kid": "two"})) == ALICE
    assert (
        login(config(jwks), jws.serialize_compact({"alg": "PS256"}, json.dumps(CLAIMS), KEY, algorithms=["PS256"]))
        == ALICE
    )
    assert login(config(jwks), signed(exp=NOW_S - 29, iat=NOW_S - 60)) is not None  # the clocks' difference
    assert login(config(jwks, sasl_oauthbearer_sub_claim_name="email"), signed(email="a@x")) == Authenticated(
        Principal("User", "a@x"), ALICE.expires_at_ms
    )


def test_whom_a_token_is_for_and_who_made_it_counts(jwks: Path) -> None:
    wants = config(jwks, sasl_oauthbearer_expected_audience="kafka,other", sasl_oauthbearer_expected_issuer="https://i")
    assert login(wants, signed(aud=["x", "kafka"], iss="https://i")) == ALICE
    assert login(wants, signed(aud="other", iss="https://i")) == ALICE
    for claims in (
        {"iss": "https://i"},
        {"aud": "kafka"},
        {"aud": "x", "iss": "https://i"},
        {"aud": "kafka", "iss": "j"},
    ):
        with pytest.raises(SaslRefused, match="invalid_token"):
            login(wants, signed(**claims))
    with pytest.raises(SaslRefused, match="invalid_token"):  # as in Kafka, where nobody is expected
        login(config(jwks), signed(aud="kafka"))


def attacks() -> dict[str, str]:
    header, payload, signature = signed().split(".")
    public = json.dumps(KEY.as_dict(private=False)).encode()
    shared = OctKey.import_key(base64.urlsafe_b64encode(b"secret").decode())
    return {
        "foreign key": signed(FOREIGN),
        "foreign key without id": jws.serialize_compact(
            {"alg": "RS256"}, json.dumps(CLAIMS), FOREIGN, algorithms=["RS256"]
        ),
        "unknown key id": signed(header={"kid": "three"}),
        "another key's id": signed(header={"kid": "two"}),
        "changed claims": f"{header}.{encoded({**CLAIMS, 'sub': 'admin'})}.{signature}",
        "changed header": f"{encoded({'alg': 'RS256', 'kid': 'one', 'x': 1})}.{payload}.{signature}",
        "cut signature": f"{header}.{payload}.{signature[:-4]}",
        "no signature": f"{header}.{payload}.",
        "alg none": f"{encoded({'alg': 'none'})}.{payload}.",
        "alg None": f"{encoded({'alg': 'None', 'kid': 'one'})}.{payload}.{signature}",
        "alg of a list": f"{encoded({'alg': ['RS256'], 'kid': 'one'})}.{payload}.{signature}",
        "public key as a secret": jws.serialize_compact(
            {"alg": "HS256", "kid": "one"}, json.dumps(CLAIMS), OctKey.import_key(public), algorithms=["HS256"]
        ),
        "shared secret": jws.serialize_compact(
            {"alg": "HS256", "kid": "shared"}, json.dumps(CLAIMS), shared, algorithms=["HS256"]
        ),
        "key brought along": jws.serialize_compact(
            {"alg": "RS256", "jwk": FOREIGN.as_dict(private=False)}, json.dumps(CLAIMS), FOREIGN, algorithms=["RS256"]
        ),
        "key from the client's address": signed(FOREIGN, {"kid": "one", "jku": "https://evil/keys"}),
        "expired": signed(exp=NOW_S - 31, iat=NOW_S - 60),
        "no end": signed(exp=None),
        "no beginning": signed(iat=None),
        "not yet": signed(nbf=NOW_S + 31),
        "ends before it begins": signed(iat=NOW_S + 700),
        "end is text": signed(exp="later"),
        "end is true": signed(exp=True),
        "end is endless": signed(exp=1e300),
        "nobody": signed(sub=None),
        "blank": signed(sub=" "),
        "a list of names": signed(sub=["alice"]),
        "half a character": signed(sub="alice\ud800"),
        "scope of numbers": signed(scope=[1]),
        "two parts": f"{header}.{payload}",
        "four parts": f"{signed()}.x",
        "deep": f"{header}.{base64.urlsafe_b64encode(b'[' * 40000).decode().rstrip('=')}.{signature}",
        "long": signed(filler="x" * 70_000),
    }


ATTACKS = attacks()


@pytest.mark.parametrize("attack", ATTACKS)
def test_a_token_that_proves_nothing_is_refused(attack: str, jwks: Path) -> None:
    with pytest.raises(SaslRefused, match='"status":"invalid_token"'):
        login(config(jwks), ATTACKS[attack])


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\x01",
        b"n,,\x01\x01",
        b"n,,\x01auth=Basic dTpw\x01\x01",
        b"n,,\x01auth=Bearer\x01\x01",
        b"n,,\x01auth=Bearer a b\x01\x01",
        b"y,,\x01auth=Bearer abc\x01\x01",
        b"n,,auth=Bearer abc",
        b"n,,\x01auth=Bearer \xff\x01\x01",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes, jwks: Path) -> None:
    with pytest.raises(SaslRefused, match="invalid credentials with SASL mechanism OAUTHBEARER"):
        asyncio.run(shown(config(jwks), first))


def test_nobody_acts_for_another_and_a_refused_client_gets_no_second_try(jwks: Path) -> None:
    token = signed()
    found, _ = asyncio.run(shown(config(jwks), f"n,a=alice,\x01auth=bearer {token}\x01\x01".encode()))
    assert found == ALICE
    with pytest.raises(SaslRefused, match="different from the token's principal name"):
        asyncio.run(shown(config(jwks), f"n,a=bob,\x01auth=Bearer {token}\x01\x01".encode()))

    async def second_try() -> None:
        values = broker_config(config(jwks))
        server = offered_mechanisms(values, "OAUTH", NoUsers(), runtime())["OAUTHBEARER"].begin()
        assert await server.evaluate(b"n,,\x01auth=Bearer a.b.c\x01\x01") == b'{"status":"invalid_token"}'
        await server.evaluate(f"n,,\x01auth=Bearer {token}\x01\x01".encode())

    with pytest.raises(SaslRefused, match="invalid_token"):
        asyncio.run(second_try())


def unsecured(options: str = "") -> dict[str, str]:
    return {
        "sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{PREFIX}sasl.jaas.config": f"{JAAS} {options};",
        f"{PREFIX}sasl.server.callback.handler.class": UNSECURED,
    }


def test_tokens_that_nobody_signed_are_taken_only_where_that_is_asked_for(jwks: Path) -> None:
    token = f"{encoded({'alg': 'none'})}.{encoded(CLAIMS)}."
    assert login(unsecured(), token) == ALICE
    assert login(unsecured('unsecuredValidatorRequiredScope="read"'), token) == ALICE
    without_issue = {name: value for name, value in CLAIMS.items() if name != "iat"}
    assert login(unsecured(), f"{encoded({'alg': 'none'})}.{encoded(without_issue)}.") == ALICE
    with pytest.raises(SaslRefused, match='"status":"insufficient_scope", "scope":"read admin"'):
        login(unsecured('unsecuredValidatorRequiredScope="read admin"'), token)
    with pytest.raises(SaslRefused, match="invalid_token"):
        login(unsecured(), f"{encoded({'alg': 'none'})}.{encoded({**CLAIMS, 'exp': NOW_S})}.")
    with pytest.raises(SaslRefused, match="invalid_token"):
        login(unsecured(), signed())
    nothing = {name: value for name, value in unsecured().items() if "callback" not in name}
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url is not set"):
        login(nothing, token)
    with pytest.raises(ConfigError, match="it takes one"):
        login({**config(jwks), **unsecured()}, token)


@pytest.mark.parametrize(
    "url",
    [
        "file:/etc/shadow",
        "https://169.254.169.254/latest/meta-data",
        "https://elsewhere/keys/../../inside",
        "https://elsewhere/keys?x",
        "https://elsewhere@inside/keys",
        "http://elsewhere/keys",
        "ftp://elsewhere/keys",
        "gopher://inside",
        "https://",
        "file:",
        "keys.json",
        "https://elsewhere/keys\r\nHost: inside",
    ],
)
def test_an_address_that_is_not_on_the_list_is_refused_at_start(url: str, jwks: Path) -> None:
    """CVE-2025-27817: whoever may set an address could have files read, and the inside asked."""
    values = {**config(jwks), "sasl.oauthbearer.jwks.endpoint.url": url}
    with pytest.raises(ConfigError, match=r"sasl\.oauthbearer\.jwks\.endpoint\.url is"):
        login(values, signed())


def test_keys_that_cannot_be_read_are_refused_at_start(jwks: Path, tmp_path: Path) -> None:
    for text in ("", "[]", '{"keys": 1}'):
        path = tmp_path / "keys"
        path.write_text(text)
        with pytest.raises(ConfigError, match="cannot be read"):
            login(config(path), signed())


@settings(max_examples=200, deadline=None)
@given(st.binary(max_size=300), st.text(max_size=60))
def test_no_bytes_bring_anything_but_a_refusal(first: bytes, token: str) -> None:
    for said in (first, b"n,," + first, f"n,,\x01auth=Bearer {token}.{token}.{token}\x01\x01".encode()):
        try:
            found, _ = asyncio.run(shown(unsecured(), said))
        except SaslRefused:
            continue
        assert found is None
