"""SCRAM, both sides: against each other, against another implementation (scramp), and against attacks."""

from __future__ import annotations

import asyncio
import base64
import hashlib
import hmac
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scramp import ScramClient
from scramp import ScramMechanism as OtherMechanism

from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import Authenticated, InvalidCredentials, SaslRefused
from barnabas.security.sasl.scram import (
    ITERATIONS_TRUSTED,
    SaltedPassword,
    Scram,
    ScramServer,
    TokenCredential,
    client_tokens,
)
from barnabas.security.sasl.scram_credential import ScramCredential, ScramMechanism

SHA_256, SHA_512 = ScramMechanism.SCRAM_SHA_256, ScramMechanism.SCRAM_SHA_512
SALT = b"salt-of-16-bytes"
NOW_MS = 1_700_000_000_000
CREDENTIALS = {
    (mechanism, user): ScramCredential.of_password(mechanism, password, SALT, 4096)
    for mechanism in ScramMechanism
    for user, password in (("alice", "secret"), ("a=b,c", "p=,w"), ("zoë", "pässword"))
}
TOKENS = {"token-1": NOW_MS + 60_000, "token-0": NOW_MS}


class Users:
    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return CREDENTIALS.get((mechanism, user))

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        if token_id not in TOKENS:
            return None
        credential = ScramCredential.of_password(mechanism, "hmac of " + token_id, SALT, 4096)
        return TokenCredential(credential, Principal("User", "owner"), TOKENS[token_id])


class StandingClock:
    def now_ms(self) -> int:
        return NOW_MS

    def monotonic_ms(self) -> int:
        return 0


def server(mechanism: ScramMechanism = SHA_256, nonce: str = "broker-nonce") -> ScramServer:
    return Scram(mechanism, Users(), StandingClock(), lambda: nonce).begin()


def say(to: ScramServer, text: str | bytes) -> str:
    return asyncio.run(to.evaluate(text if isinstance(text, bytes) else text.encode())).decode()


def login(mechanism: ScramMechanism, user: str, password: str, **options: Any) -> Authenticated | None:
    to = server(mechanism)
    tokens = client_tokens(mechanism, user, password, "client-nonce", **options)
    token = next(tokens)
    for _ in range(3):
        answer = asyncio.run(to.evaluate(token))
        try:
            token = tokens.send(answer)
        except StopIteration:
            break
    return to.authenticated


def final(password: str, first_bare: str, server_first: str, unproven: str) -> str:
    """What a client that says `unproven` proves, rightly."""
    salted = SHA_256.salted_password(password, SALT, 4096)
    key = hmac.digest(salted, b"Client Key", "sha256")
    message = f"{first_bare},{server_first},{unproven}".encode()
    signature = hmac.digest(hashlib.sha256(key).digest(), message, "sha256")
    proof = bytes(a ^ b for a, b in zip(key, signature, strict=True))
    return f"{unproven},p={base64.b64encode(proof).decode()}"


@pytest.mark.parametrize("mechanism", ScramMechanism)
@pytest.mark.parametrize(("user", "password"), [("alice", "secret"), ("a=b,c", "p=,w")])
def test_both_sides_understand_each_other(mechanism: ScramMechanism, user: str, password: str) -> None:
    assert login(mechanism, user, password) == Authenticated(Principal("User", user))
    with pytest.raises(InvalidCredentials, match=f"invalid credentials with SASL mechanism {mechanism.mechanism_name}"):
        login(mechanism, user, password + "x")


def test_a_kept_salt_is_used_only_where_it_is_the_brokers() -> None:
    CREDENTIALS[SHA_256, "carol"] = ScramCredential.of_password(SHA_256, "secret", b"another salt", 4096)
    CREDENTIALS[SHA_256, "dave"] = ScramCredential.of_password(SHA_256, "secret", SALT, 4097)
    kept: list[SaltedPassword] = []
    for user in ("alice", "carol", "dave", "alice"):
        assert login(SHA_256, user, "secret", kept=kept) is not None
    assert [each[:2] for each in kept] == [(SALT, 4096), (SALT, 4097), (b"another salt", 4096)], (
        "the last used is first"
    )
    assert login(SHA_256, "alice", "not computed again", kept=kept) is not None


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_another_implementations_client_is_let_in(mechanism: ScramMechanism) -> None:
    for user, password in (("alice", "secret"), ("a=b,c", "p=,w")):
        client, to = ScramClient([mechanism.mechanism_name], user, password), server(mechanism)
        client.set_server_first(say(to, client.get_client_first()))
        client.set_server_final(say(to, client.get_client_final()))
        assert to.authenticated == Authenticated(Principal("User", user))


@pytest.mark.parametrize("mechanism", ScramMechanism)
def test_our_client_is_let_in_by_another_implementation(mechanism: ScramMechanism) -> None:
    other = OtherMechanism(mechanism.mechanism_name)
    to = other.make_server(lambda user: other.make_auth_info("p=,w", 4096, SALT))
    tokens = client_tokens(mechanism, "a=b,c", "p=,w", "client-nonce")
    to.set_client_first(next(tokens).decode())
    to.set_client_final(tokens.send(to.get_server_first().encode()).decode())
    with pytest.raises(StopIteration):
        tokens.send(to.get_server_final().encode())


def test_a_delegation_token_speaks_for_its_owner_until_it_expires() -> None:
    found = login(SHA_512, "token-1", "hmac of token-1", token_authenticated=True)
    assert found == Authenticated(Principal("User", "owner"), NOW_MS + 60_000, token_authenticated=True)
    for token_id in ("token-0", "token-2", "alice"):
        with pytest.raises(InvalidCredentials):
            login(SHA_512, token_id, "hmac of " + token_id, token_authenticated=True)
    with pytest.raises(InvalidCredentials):
        login(SHA_512, "token-1", "hmac of token-1")  # a token's id is no user's name


BARE = "n=alice,r=client"
SERVER_FIRST = f"r=clientbroker-nonce,s={base64.b64encode(SALT).decode()},i=4096"


def test_this_is_the_exchange_that_the_attacks_below_change() -> None:
    to = server()
    assert say(to, f"n,,{BARE}") == SERVER_FIRST
    assert say(to, final("secret", BARE, SERVER_FIRST, "c=biws,r=clientbroker-nonce")).startswith("v=")
    assert to.authenticated is not None


@pytest.mark.parametrize(
    "nonce",
    ["client", "broker-nonce", "clientbroker-nonc", "clientbroker-nonce2", "xclientbroker-nonce", "clientother-nonce"],
)
def test_a_foreign_reused_or_longer_nonce_is_refused_even_when_proved(nonce: str) -> None:
    """CVE-2024-56128: without this check the proof of an exchange that was overheard serves again."""
    to = server()
    say(to, f"n,,{BARE}")
    with pytest.raises(InvalidCredentials) as refused:
        say(to, final("secret", BARE, SERVER_FIRST, f"c=biws,r={nonce}"))
    assert "nonce" in refused.value.reason
    assert to.authenticated is None


@pytest.mark.parametrize("binding", ["eSws", "bixhPWJvYiw=", "cD10bHMtdW5pcXVlLCw=", "", "biw="])
def test_another_channel_binding_than_the_first_message_had_is_refused_even_when_proved(binding: str) -> None:
    to = server()
    say(to, f"n,,{BARE}")
    with pytest.raises(InvalidCredentials) as refused:
        say(to, final("secret", BARE, SERVER_FIRST, f"c={binding},r=clientbroker-nonce"))
    assert "channel binding" in refused.value.reason


def test_the_proof_of_an_overheard_exchange_is_worth_nothing_in_the_next() -> None:
    first, second = server(nonce="one"), server(nonce="two")
    overheard = say(first, f"n,,{BARE}")
    proof = final("secret", BARE, overheard, "c=biws,r=clientone")
    say(first, proof)
    say(second, f"n,,{BARE}")
    with pytest.raises(InvalidCredentials):
        say(second, proof)


@pytest.mark.parametrize(
    "first",
    [
        b"",
        b"\xff\xfe",
        b"p=tls-unique,,n=alice,r=client",
        b"y,,n=alice,r=client",
        b"n,,n=alice",
        b"n,,n=,r=client",
        b"n,,n=al=ice,r=client",
        b"n,,n=al\0ice,r=client",
        b"n,,n=alice,r=",
        b"n,,n=alice,r=a b",
        b"n,,n=alice,r=client,",
        b"n,a=alice,n=mallory,r=client",
        "n,,n=zoë,r=client".encode(),  # as in Kafka, whose saslname is ASCII
        b"n,,n=nobody,r=client",
    ],
)
def test_a_first_message_that_is_none_is_refused(first: bytes) -> None:
    with pytest.raises(SaslRefused, match="invalid credentials"):
        say(server(), first)


def test_nobody_acts_for_another() -> None:
    assert say(server(), "n,a=alice,n=alice,r=client").startswith("r=client")
    with pytest.raises(SaslRefused, match="different from username"):
        say(server(), "n,a=bob,n=alice,r=client")


@pytest.mark.parametrize(
    "proof", ["", "AAAA", base64.b64encode(bytes(32)).decode(), base64.b64encode(bytes(64)).decode()]
)
def test_a_proof_of_nothing_is_refused_and_the_exchange_is_over(proof: str) -> None:
    to = server()
    say(to, f"n,,{BARE}")
    with pytest.raises(InvalidCredentials):
        say(to, f"c=biws,r=clientbroker-nonce,p={proof}")
    with pytest.raises(SaslRefused, match="over"):
        say(to, final("secret", BARE, SERVER_FIRST, "c=biws,r=clientbroker-nonce"))


def test_a_credential_of_few_iterations_is_not_used() -> None:
    CREDENTIALS[SHA_256, "weak"] = ScramCredential.of_password(SHA_256, "secret", SALT, 4095)
    with pytest.raises(InvalidCredentials) as refused:
        say(server(), "n,,n=weak,r=client")
    assert "4095" in refused.value.reason


@pytest.mark.parametrize(
    ("server_first", "complaint"),
    [
        ("r=client-nonce,s=c2FsdA==,i=4096", "replay"),
        ("r=other-nonce-x,s=c2FsdA==,i=4096", "replay"),
        ("r=client-nonce-x,s=c2FsdA==,i=4095", "4095 SCRAM iterations"),
        (f"r=client-nonce-x,s=c2FsdA==,i={ITERATIONS_TRUSTED + 1}", "too long"),
        ("r=client-nonce-x,s=c2FsdA,i=4096", "answered"),
        ("e=other-error", "answered"),
    ],
)
def test_a_client_trusts_no_broker_that_asks_for_less(server_first: str, complaint: str) -> None:
    tokens = client_tokens(SHA_256, "alice", "secret", "client-nonce")
    next(tokens)
    with pytest.raises(SaslRefused, match=complaint):
        tokens.send(server_first.encode())


def test_a_client_demands_a_proof_of_the_broker() -> None:
    for answer in (b"v=AAAA", b"", b"e=invalid-proof", b"\xff"):
        tokens = client_tokens(SHA_256, "alice", "secret", "client-nonce")
        next(tokens)
        tokens.send(b"r=client-nonce-x,s=c2FsdA==,i=4096")
        with pytest.raises(SaslRefused, match="did not prove"):
            tokens.send(answer)


@settings(max_examples=300, deadline=None)
@given(st.binary(max_size=200), st.binary(max_size=200))
def test_no_bytes_bring_anything_but_a_refusal(first: bytes, second: bytes) -> None:
    for tokens in ([first, second], [f"n,,{BARE}".encode(), first]):
        to = server()
        for token in tokens:
            try:
                asyncio.run(to.evaluate(token))
            except SaslRefused:
                break
        assert to.authenticated is None
