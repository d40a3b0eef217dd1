"""SCRAM-SHA-256 and SCRAM-SHA-512 (RFC 5802, RFC 7677), both sides; also the login by delegation token (KIP-48).

client  n,,n=USER,r=NONCE[,tokenauth=true]
broker  r=NONCE+ITS OWN,s=SALT,i=ITERATIONS
client  c=biws,r=BOTH NONCES,p=PROOF
broker  v=SIGNATURE

The proof covers all tokens, so that nobody between the two can change one. There is no channel binding: the client's
first token begins with ``n``, and its second must repeat that beginning in ``c``.
"""

from __future__ import annotations

import base64
import binascii
import hashlib
import hmac
import re
from collections.abc import Callable, Generator
from typing import Final, NamedTuple, Protocol

from barnabas.runtime.doors import Clock
from barnabas.security.principal import Principal
from barnabas.security.sasl.exchange import Authenticated, InvalidCredentials, SaslRefused
from barnabas.security.sasl.scram_credential import ITERATIONS_MIN, ScramCredential, ScramMechanism

TOKEN_AUTHENTICATED: Final = "tokenauth"
_SASLNAME: Final = r"(?:[\x01-\x2b\x2d-\x3c\x3e-\x7f]|=2C|=3D)+"
_VALUE: Final = r"[\x01-\x2b\x2d-\x7f]+"
_PRINTABLE: Final = r"[\x21-\x2b\x2d-\x7e]+"
_BASE64: Final = r"(?:[a-zA-Z0-9/+]{4})*(?:[a-zA-Z0-9/+]{3}=|[a-zA-Z0-9/+]{2}==)?"
_EXTENSIONS: Final = rf"(?:,[A-Za-z]+={_VALUE})*"
_CLIENT_FIRST: Final = re.compile(
    rf"(?P<gs2>n,(?:a=(?P<authzid>{_SASLNAME}))?,)"
    rf"(?P<bare>(?:m={_VALUE},)?n=(?P<name>{_SASLNAME}),r=(?P<nonce>{_PRINTABLE})(?P<extensions>{_EXTENSIONS}))"
)
_CLIENT_FINAL: Final = re.compile(
    rf"(?P<unproven>c=(?P<binding>{_BASE64}),r=(?P<nonce>{_PRINTABLE}){_EXTENSIONS}),p=(?P<proof>{_BASE64})"
)
_SERVER_FIRST: Final = re.compile(
    rf"(?:m={_VALUE},)?r=(?P<nonce>{_PRINTABLE}),s=(?P<salt>{_BASE64}),i=(?P<iterations>[0-9]{{1,9}}){_EXTENSIONS}"
)
_SERVER_FINAL: Final = re.compile(rf"(?:e=(?P<error>{_VALUE})|v=(?P<signature>{_BASE64})){_EXTENSIONS}")
"""``ScramMessages``."""


class TokenCredential(NamedTuple):
    """The credential that a delegation token's HMAC is checked against, and the token's owner."""

    credential: ScramCredential
    owner: Principal
    expires_at_ms: int


class ScramUsers(Protocol):
    """The credentials that are known now."""

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None: ...

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None: ...


class NoUsers:
    """Knows nobody."""

    def credential(self, mechanism: ScramMechanism, user: str) -> ScramCredential | None:
        return None

    def token_credential(self, mechanism: ScramMechanism, token_id: str) -> TokenCredential | None:
        return None


class Scram:
    """A broker's side; `nonce` makes a fresh one for every exchange."""

    def __init__(self, mechanism: ScramMechanism, users: ScramUsers, clock: Clock, nonce: Callable[[], str]) -> None:
        self.mechanism = mechanism
        self.users = users
        self.clock = clock
        self._nonce = nonce

    @property
    def name(self) -> str:
        return self.mechanism.mechanism_name

    def begin(self) -> ScramServer:
        return ScramServer(self, self._nonce())


class _First(NamedTuple):
    """The state between the first round and the second."""

    gs2_header: str
    bare: str
    server_first: str
    nonce: str
    credential: ScramCredential
    authenticated: Authenticated


class ScramServer:
    """One exchange of two tokens (``ScramSaslServer``)."""

    def __init__(self, scram: Scram, nonce: str) -> None:
        self._scram = scram
        self._nonce = nonce
        self._first: _First | None = None
        self._over = False
        self.authenticated: Authenticated | None = None

    async def evaluate(self, token: bytes) -> bytes:
        if self._over:
            raise SaslRefused("The exchange is over.")
        self._over = True
        text = token.decode("utf-8", "replace")
        if self._first is None:
            self._first = self._begin(text)
            self._over = False
            return self._first.server_first.encode()
        return self._finish(self._first, text).encode()

    def _begin(self, text: str) -> _First:
        said = _CLIENT_FIRST.fullmatch(text)
        if said is None:
            raise self._refused("the client's first message is none")
        name = _unescaped(said["name"])
        credential, authenticated = self._known(name, said["extensions"])
        if said["authzid"] and said["authzid"] != name:
            raise SaslRefused(
                "Authentication failed: Client requested an authorization id that is different from username"
            )
        if credential.iterations < ITERATIONS_MIN:
            raise self._refused(f"{credential.iterations} iterations are less than {ITERATIONS_MIN}")
        nonce = said["nonce"] + self._nonce
        server_first = f"r={nonce},s={base64.b64encode(credential.salt).decode()},i={credential.iterations}"
        return _First(said["gs2"], said["bare"], server_first, nonce, credential, authenticated)

    def _known(self, name: str, extensions: str) -> tuple[ScramCredential, Authenticated]:
        mechanism = self._scram.mechanism
        named = dict(extension.partition("=")[::2] for extension in extensions.split(",") if extension)
        if named.get(TOKEN_AUTHENTICATED, "").lower() != "true":
            credential = self._scram.users.credential(mechanism, name)
            if credential is None:
                raise self._refused(f"there is no credential of user {name!r}")
            return credential, Authenticated(Principal("User", name))
        token = self._scram.users.token_credential(mechanism, name)
        if token is None:
            raise self._refused(f"there is no delegation token {name!r}")
        if token.expires_at_ms <= self._scram.clock.now_ms():
            raise self._refused(f"delegation token {name!r} has expired")
        return token.credential, Authenticated(token.owner, token.expires_at_ms, token_authenticated=True)

    def _finish(self, first: _First, text: str) -> str:
        said = _CLIENT_FINAL.fullmatch(text)
        if said is None:
            raise self._refused("the client's final message is none")
        if said["nonce"] != first.nonce:
            raise self._refused("the nonce is not the one of this exchange")
        if base64.b64decode(said["binding"]) != first.gs2_header.encode():
            raise self._refused("the channel binding is not the one that the exchange began with")
        hash_name = self._scram.mechanism.hash_name
        message = f"{first.bare},{first.server_first},{said['unproven']}".encode()
        signature = hmac.digest(first.credential.stored_key, message, hash_name)
        proof = base64.b64decode(said["proof"])
        if len(proof) != len(signature):
            raise self._refused("the proof has another length than the hash")
        client_key = _xor(signature, proof)
        if not hmac.compare_digest(hashlib.new(hash_name, client_key).digest(), first.credential.stored_key):
            raise self._refused("the proof is wrong")
        self.authenticated = first.authenticated
        return f"v={base64.b64encode(hmac.digest(first.credential.server_key, message, hash_name)).decode()}"

    def _refused(self, reason: str) -> InvalidCredentials:
        return InvalidCredentials(self._scram.name, reason)


class SaltedPassword(NamedTuple):
    """The key that PBKDF2 derives from a password, a salt and a number of iterations."""

    salt: bytes
    iterations: int
    value: bytes


def client_tokens(
    mechanism: ScramMechanism,
    username: str,
    password: str,
    nonce: str,
    *,
    token_authenticated: bool = False,
    kept: list[SaltedPassword] | None = None,
) -> Generator[bytes, bytes, None]:
    """A client's side of the exchange. Raises `SaslRefused`.

    With `token_authenticated` the user is a delegation token's id, and the password its HMAC in base64. Salted keys in
    `kept`, for this password and mechanism, are not computed again (RFC 5802, 5.1). New ones are kept once the broker
    has proved that it knows the password, `KEPT_MAX` of them.
    """
    bare = f"n={username.replace('=', '=3D').replace(',', '=2C')},r={nonce}"
    if token_authenticated:
        bare += f",{TOKEN_AUTHENTICATED}=true"
    server_first = (yield f"n,,{bare}".encode()).decode("utf-8", "replace")
    said = _SERVER_FIRST.fullmatch(server_first)
    if said is None:
        raise SaslRefused(f"the broker answered SCRAM's first message with {server_first!r}")
    if not said["nonce"].startswith(nonce) or said["nonce"] == nonce:
        raise SaslRefused("the broker's nonce does not begin with ours: the exchange may be a replay")
    iterations = int(said["iterations"])
    if iterations < ITERATIONS_MIN:
        raise SaslRefused(f"the broker asks for {iterations} SCRAM iterations, at least {ITERATIONS_MIN} are safe")
    if iterations > ITERATIONS_TRUSTED:
        raise SaslRefused(f"the broker asks for {iterations} SCRAM iterations, which would take too long")
    hash_name = mechanism.hash_name
    known = kept or []
    asked = base64.b64decode(said["salt"]), iterations
    salted = next((salted for salted in known if salted[:2] == asked), None)
    if salted is None:
        salted = SaltedPassword(*asked, mechanism.salted_password(password, *asked))
    client_key = hmac.digest(salted.value, b"Client Key", hash_name)
    unproven = f"c=biws,r={said['nonce']}"
    message = f"{bare},{server_first},{unproven}".encode()
    proof = _xor(client_key, hmac.digest(hashlib.new(hash_name, client_key).digest(), message, hash_name))
    server_final = (yield f"{unproven},p={base64.b64encode(proof).decode()}".encode()).decode("utf-8", "replace")
    proven = _SERVER_FINAL.fullmatch(server_final)
    expected = hmac.digest(hmac.digest(salted.value, b"Server Key", hash_name), message, hash_name)
    if proven is None or not hmac.compare_digest(_decoded(proven["signature"] or ""), expected):
        raise SaslRefused("the broker did not prove that it knows the password")
    if kept is not None:
        # Replaced in one step, for other threads; the last one used comes first, so that the oldest is dropped first.
        kept[:] = [salted, *(other for other in kept if other != salted)][:KEPT_MAX]


KEPT_MAX: Final = 16
"""How many salts a client remembers: a user has one per cluster, a delegation token another at each broker."""


ITERATIONS_TRUSTED: Final = 1_000_000
"""The most iterations that a client computes, in half a second, for a broker that has not proved itself yet."""


def _unescaped(name: str) -> str:
    return name.replace("=2C", ",").replace("=3D", "=")


def _decoded(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except binascii.Error:
        return b""


def _xor(first: bytes, second: bytes) -> bytes:
    return bytes(a ^ b for a, b in zip(first, second, strict=True))
