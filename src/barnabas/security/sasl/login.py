"""A client's login: made of Kafka's settings, it produces the tokens of its mechanism.

A login is a value without sockets: it can be compared and sent to another process. When a connection begins, the login
gets the doors that it needs (`Doors`).
"""

from __future__ import annotations

import base64
import json
from collections.abc import Awaitable, Callable, Generator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, NamedTuple, Protocol, TypeAlias
from urllib.parse import quote_plus

from barnabas.model.comma_list import comma_list
from barnabas.model.errors import ConfigError
from barnabas.security.sasl import gssapi, oauthbearer, plain, scram
from barnabas.security.sasl.exchange import SaslRefused
from barnabas.security.sasl.http import ALLOWED_URLS, TIMEOUT_MS, Fetch, HttpRequest, allowed_url, file_of, tls_options
from barnabas.security.sasl.jaas import LoginModule, login_module
from barnabas.security.sasl.scram_credential import MECHANISMS as SCRAM

MECHANISMS: Final = (plain.MECHANISM, *SCRAM, oauthbearer.MECHANISM, gssapi.MECHANISM)
SETTINGS: Final = (
    "sasl.mechanism",
    "sasl.mechanisms",
    "sasl.jaas.config",
    "sasl.username",
    "sasl.password",
    "sasl.kerberos.service.name",
    "sasl.login.callback.handler.class",
    "sasl.login.connect.timeout.ms",
    "sasl.login.read.timeout.ms",
    "sasl.login.refresh.buffer.seconds",
    "sasl.login.refresh.window.factor",
    "sasl.oauthbearer.scope.claim.name",
    "sasl.oauthbearer.sub.claim.name",
    "sasl.oauthbearer.token.endpoint.url",
    ALLOWED_URLS,
)
"""Kafka's settings for a login, and librdkafka's names for some of them."""
CALLBACK_HANDLERS: Final = (
    "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.secured.OAuthBearerLoginCallbackHandler",
    "org.apache.kafka.common.security.oauthbearer.internals.unsecured.OAuthBearerUnsecuredLoginCallbackHandler",
)
"""The Kafka classes whose work this module does itself."""
Tokens: TypeAlias = Generator[bytes, bytes, None]
"""Yields each token to send, and is sent the broker's answer to it; raises `SaslRefused`."""


async def _at_once(call: Callable[[], Tokens]) -> Tokens:
    return call()


class Doors(NamedTuple):
    """The doors that a login may use for one connection."""

    host: str
    """The broker's name."""
    nonce: str
    """A new nonce for every connection."""
    now_ms: int
    """The wall clock."""
    fetch: Fetch
    read: Callable[[str], bytes]
    """Reads a file."""
    beside: Callable[[Callable[[], Tokens]], Awaitable[Tokens]] = _at_once
    """Calls a slow function without blocking the event loop."""


class Login(Protocol):
    @property
    def mechanism(self) -> str: ...

    def begin(self, doors: Doors) -> Awaitable[Tokens]:
        """Raises `SaslRefused` without credentials, ``OSError`` if they cannot be fetched."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class SaslLogin:
    """PLAIN or SCRAM. With `token_authenticated` the user is a delegation token's id, the password its HMAC.

    The key that SCRAM derives from the password is kept with it, so that only the first connection computes it.
    """

    mechanism: str
    username: str
    password: str
    token_authenticated: bool = False
    _kept: list[scram.SaltedPassword] = field(default_factory=list, init=False, compare=False)

    def __repr__(self) -> str:
        return f"SaslLogin({self.mechanism!r}, {self.username!r})"

    def tokens(self, nonce: str) -> Tokens:
        if self.mechanism == plain.MECHANISM:
            return plain.client_tokens(self.username, self.password)
        return scram.client_tokens(
            SCRAM[self.mechanism],
            self.username,
            self.password,
            nonce,
            token_authenticated=self.token_authenticated,
            kept=self._kept,
        )

    async def begin(self, doors: Doors) -> Tokens:
        return self.tokens(doors.nonce)


@dataclass(frozen=True, slots=True)
class GssapiLogin:
    """GSSAPI, by the tickets of a key tab or of a credential cache."""

    mechanism = gssapi.MECHANISM

    service: str
    """The brokers' service name."""
    tickets: gssapi.Tickets

    def __str__(self) -> str:
        return self.mechanism

    @classmethod
    def of(cls, options: Mapping[str, str], settings: Mapping[str, str]) -> GssapiLogin:
        """Raises `ConfigError`."""
        tickets = gssapi.Tickets.of(options)
        service = settings.get("sasl.kerberos.service.name") or options.get("serviceName", "")
        if not service:
            raise ConfigError("sasl.kerberos.service.name is not set: it is the brokers' service, such as kafka.")
        return cls(service, tickets)

    async def begin(self, doors: Doors) -> Tokens:
        server = f"{self.service}@{doors.host}"
        return await doors.beside(lambda: gssapi.client_tokens(server, self.tickets))


class _Held(NamedTuple):
    token: str
    fetched_ms: int
    expires_ms: int | None


@dataclass(frozen=True, slots=True)
class OAuthBearerLogin:
    """OAUTHBEARER with a token from an endpoint or a file, or with an unsigned one."""

    mechanism = oauthbearer.MECHANISM

    url: str = ""
    """The source of the token: an endpoint (client credentials, RFC 6749, 4.4), or a file."""
    client_id: str = ""
    client_secret: str = field(default="", repr=False)
    scope: str = ""
    unsecured: tuple[tuple[str, str], ...] = ()
    """The ``unsecuredLogin`` options: an unsigned token (``OAuthBearerUnsecuredLoginCallbackHandler``)."""
    extensions: tuple[tuple[str, str], ...] = ()
    tls: tuple[tuple[str, str], ...] = field(default=(), repr=False)
    connect_timeout_ms: int = TIMEOUT_MS
    read_timeout_ms: int = TIMEOUT_MS
    refresh_factor: float = 0.8
    """A new token is fetched after this share of the old one's lifetime."""
    refresh_buffer_ms: int = 300_000
    _held: list[_Held] = field(default_factory=list, compare=False, repr=False)

    async def begin(self, doors: Doors) -> Tokens:
        return oauthbearer.client_tokens(await self._token(doors), dict(self.extensions))

    async def _token(self, doors: Doors) -> str:
        if self.unsecured:
            return unsecured_token(dict(self.unsecured), doors.now_ms)
        path = file_of(self.url)
        if path is not None:
            return doors.read(path).decode().strip()
        for held in self._held:
            if self._fresh(held, doors.now_ms):
                return held.token
        held = _Held(await self._fetched(doors), doors.now_ms, None)
        self._held[:] = [held._replace(expires_ms=_expires_ms(held.token))]
        return held.token

    def _fresh(self, held: _Held, now_ms: int) -> bool:
        if held.expires_ms is None:
            return False
        life_ms = held.expires_ms - held.fetched_ms
        until_ms = held.fetched_ms + life_ms * self.refresh_factor
        if life_ms > self.refresh_buffer_ms:
            until_ms = min(until_ms, held.expires_ms - self.refresh_buffer_ms)
        return held.fetched_ms <= now_ms < until_ms

    async def _fetched(self, doors: Doors) -> str:
        """Fetches a token as ``HttpAccessTokenRetriever`` does."""
        secret = base64.b64encode(f"{self.client_id}:{self.client_secret}".encode()).decode()
        body = "grant_type=client_credentials" + (f"&scope={quote_plus(self.scope)}" if self.scope else "")
        request = HttpRequest(
            self.url,
            "POST",
            (
                ("Accept", "application/json"),
                ("Authorization", f"Basic {secret}"),
                ("Cache-Control", "no-cache"),
                ("Content-Type", "application/x-www-form-urlencoded"),
            ),
            body.encode(),
            self.tls,
            self.connect_timeout_ms,
            self.read_timeout_ms,
        )
        answer = await doors.fetch(request)
        try:
            told: Any = json.loads(answer.body)
        except ValueError:
            told = None
        told = told if isinstance(told, dict) else {}
        if answer.status not in (200, 201):
            reason = " ".join(str(told[name]) for name in ("error", "error_description") if name in told)
            raise SaslRefused(f"{self.url} gave no token: status {answer.status} {reason}".rstrip())
        token = told.get("access_token")
        if not isinstance(token, str) or not token.strip():
            raise SaslRefused(f"{self.url} answered without an access_token")
        return token.strip()


def login_of(settings: Mapping[str, str]) -> Login:
    """The login of settings with Kafka's names. Raises `ConfigError`, whose text has no secret."""
    mechanism = settings.get("sasl.mechanism") or settings.get("sasl.mechanisms") or gssapi.MECHANISM
    if mechanism not in MECHANISMS:
        raise ConfigError(f"sasl.mechanism is {mechanism!r}: {', '.join(MECHANISMS)} are supported.")
    handler = settings.get("sasl.login.callback.handler.class", "")
    if handler and (mechanism != oauthbearer.MECHANISM or handler not in CALLBACK_HANDLERS):
        raise ConfigError(f"sasl.login.callback.handler.class is {handler}: no class of the operator's is run here.")
    if "sasl.username" in settings and (mechanism == plain.MECHANISM or mechanism in SCRAM):
        return SaslLogin(mechanism, settings["sasl.username"], settings.get("sasl.password", ""))
    try:
        module = login_module(settings.get("sasl.jaas.config", ""))
    except ValueError as error:
        raise ConfigError(f"sasl.jaas.config cannot be read for {mechanism}: {error}.") from None
    return login_of_module(mechanism, module, settings)


def login_of_module(mechanism: str, module: LoginModule, settings: Mapping[str, str]) -> Login:
    """As `login_of`, from JAAS options that are parsed already. Raises `ConfigError`."""
    options = module.options
    if mechanism == gssapi.MECHANISM:
        return GssapiLogin.of(options, settings)
    if mechanism == oauthbearer.MECHANISM:
        return _oauthbearer_login(options, settings)
    if "username" not in options or "password" not in options:
        raise ConfigError(
            'sasl.jaas.config takes a text such as ...ScramLoginModule required username="u" password="p"; '
            "with both of them in quotes."
        )
    by_token = mechanism in SCRAM and options.get(scram.TOKEN_AUTHENTICATED, "").lower() == "true"
    return SaslLogin(mechanism, options["username"], options["password"], by_token)


def _oauthbearer_login(options: Mapping[str, str], settings: Mapping[str, str]) -> OAuthBearerLogin:
    url = settings.get("sasl.oauthbearer.token.endpoint.url", "")
    unsecured = tuple(sorted((name, value) for name, value in options.items() if name.startswith("unsecuredLogin")))
    if unsecured and url:
        raise ConfigError("sasl.oauthbearer.token.endpoint.url is set, and unsecuredLogin options too: it takes one.")
    if not unsecured and not url:
        raise ConfigError(
            "sasl.oauthbearer.token.endpoint.url is not set: name the address that gives tokens or file:/path/to/one. "
            'A token that nobody signs is made where sasl.jaas.config asks for it: unsecuredLoginStringClaim_sub="me".'
        )
    extensions = {name[len("extension_") :]: value for name, value in options.items() if name.startswith("extension_")}
    if unsecured:
        prefix = "unsecuredLoginExtension_"
        extensions |= {name[len(prefix) :]: value for name, value in unsecured if name.startswith(prefix)}
        login = OAuthBearerLogin(unsecured=unsecured, extensions=tuple(sorted(extensions.items())))
        unsecured_token(options, 0)
        return login
    allowed = comma_list(settings.get(ALLOWED_URLS, ""))
    url = allowed_url("sasl.oauthbearer.token.endpoint.url", url, allowed)
    if file_of(url) is None and not (options.get("clientId") and options.get("clientSecret")):
        raise ConfigError("sasl.jaas.config needs clientId and clientSecret for a token endpoint.")
    return OAuthBearerLogin(
        url,
        options.get("clientId", "").strip(),
        options.get("clientSecret", "").strip(),
        options.get("scope", "").strip(),
        extensions=tuple(sorted(extensions.items())),
        tls=tls_options(options),
        connect_timeout_ms=_number(settings, "sasl.login.connect.timeout.ms", TIMEOUT_MS),
        read_timeout_ms=_number(settings, "sasl.login.read.timeout.ms", TIMEOUT_MS),
        refresh_factor=_factor(settings),
        refresh_buffer_ms=1000 * _number(settings, "sasl.login.refresh.buffer.seconds", 300),
    )


def unsecured_token(options: Mapping[str, str], now_ms: int) -> str:
    """An unsigned token of the ``unsecuredLogin...`` options. Raises `ConfigError`."""
    prefix = "unsecuredLogin"
    claims: dict[str, object] = {}
    try:
        for name, value in options.items():
            kind, _, claim = name.removeprefix(prefix).partition("_")
            if not name.startswith(prefix) or not claim:
                continue
            if claim in ("iat", "exp"):
                raise ConfigError(f"{name}: the claim {claim} is the login's own.")
            if kind == "StringClaim":
                claims[claim] = value
            elif kind == "NumberClaim":
                claims[claim] = float(value)
            elif kind == "ListClaim":
                claims[claim] = value[1:].split(value[0]) if len(value) > 1 else []
        lifetime = int(options.get(f"{prefix}LifetimeSeconds") or 3600)
    except ValueError as error:
        raise ConfigError(f"the unsecuredLogin options of sasl.jaas.config: {error}") from None
    principal = options.get(f"{prefix}PrincipalClaimName") or "sub"
    if not claims.get(principal):
        raise ConfigError(f"sasl.jaas.config names nobody: {prefix}StringClaim_{principal} is missing.")
    claims = {"iat": now_ms / 1000, "exp": now_ms / 1000 + lifetime, **claims}
    parts = (json.dumps(part, separators=(",", ":")).encode() for part in ({"alg": "none"}, claims))
    return ".".join(base64.urlsafe_b64encode(part).rstrip(b"=").decode() for part in parts) + "."


def _expires_ms(token: str) -> int | None:
    """The expiry that a token claims: the broker checks it, the client only plans its next fetch by it."""
    try:
        claims = json.loads(base64.urlsafe_b64decode(token.split(".")[1] + "=="))
        return int(claims["exp"] * 1000)
    except (IndexError, KeyError, TypeError, ValueError, OverflowError):
        return None


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    text = settings.get(name, "").strip()
    if text and not text.isdecimal():
        raise ConfigError(f"{name} is {text!r}, not a whole number")
    return int(text) if text else default


def _factor(settings: Mapping[str, str]) -> float:
    name = "sasl.login.refresh.window.factor"
    try:
        factor = float(settings.get(name) or 0.8)
    except ValueError:
        factor = 0.0
    if not 0.5 <= factor <= 1.0:
        raise ConfigError(f"{name} is {settings[name]!r}: it takes 0.5 to 1.0")
    return factor
