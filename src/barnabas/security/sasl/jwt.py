"""Validates JSON Web Tokens: a key of the authority must have signed them, unless unsigned ones are configured."""

from __future__ import annotations

import base64
import binascii
import json
import logging
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from barnabas.model.errors import ConfigError
from barnabas.runtime import Condition
from barnabas.runtime.doors import Clock, Runtime
from barnabas.security.sasl.http import HttpError, HttpRequest, fetch, file_of
from barnabas.security.sasl.oauthbearer import Bearer, TokenRefused

logger = logging.getLogger(__name__)

ALGORITHMS: Final = (
    *("RS256", "RS384", "RS512", "PS256", "PS384", "PS512"),
    *("ES256", "ES384", "ES512", "EdDSA", "Ed25519"),
)
"""Signatures by a key pair only: never ``none``, and never an HMAC, whose key could be a public key by mistake."""
REFRESH_PAUSE_MS: Final = 10_000
"""The least time between two fetches of the keys for tokens with unknown keys (`RefreshingHttpsJwks`)."""
TOKEN_BYTES_MAX: Final = 64 * 1024


@dataclass(frozen=True, slots=True)
class Expectations:
    """What a broker expects of a token's claims."""

    audiences: tuple[str, ...] = ()
    issuer: str = ""
    scope_claim: str = "scope"
    subject_claim: str = "sub"
    clock_skew_ms: int = 30_000

    def bearer(self, claims: Mapping[str, Any], now_ms: int) -> Bearer:
        """Raises `TokenRefused` (``ValidatorAccessTokenValidator``)."""
        expires_ms, issued_ms = _time(claims, "exp"), _time(claims, "iat")
        not_before_ms = _time(claims, "nbf", required=False)
        assert expires_ms is not None
        assert issued_ms is not None
        if now_ms - self.clock_skew_ms >= expires_ms:
            raise TokenRefused(f"the token expired at {expires_ms}")
        if not_before_ms is not None and now_ms + self.clock_skew_ms < not_before_ms:
            raise TokenRefused(f"the token is not valid before {not_before_ms}")
        if expires_ms < issued_ms or (not_before_ms is not None and expires_ms < not_before_ms):
            raise TokenRefused("the token ends before it begins")
        self._meant_for_us(claims)
        _scopes(claims, self.scope_claim)
        subject = _name(claims, self.subject_claim).strip()
        if not subject:
            raise TokenRefused(f"claim {self.subject_claim} names nobody")
        return Bearer(subject, expires_ms)

    def _meant_for_us(self, claims: Mapping[str, Any]) -> None:
        audience = claims.get("aud", [])
        audiences = audience if isinstance(audience, list) else [audience]
        # As in Kafka, a token with an audience is refused if no audience is expected.
        if (audiences or self.audiences) and not any(name in self.audiences for name in audiences):
            raise TokenRefused(f"the token is for {audiences}")
        if self.issuer and claims.get("iss") != self.issuer:
            raise TokenRefused(f"the token is of issuer {claims.get('iss')!r}")


_HALF_CHARACTER: Final = re.compile("[\ud800-\udfff]")
"""JSON can hold half of a UTF-16 pair, which a name cannot have anywhere else."""


class SignedTokens:
    """Tokens that a key of `keys` has signed."""

    def __init__(self, keys: Keys, expected: Expectations, clock: Clock) -> None:
        self._keys = keys
        self._expected = expected
        self._clock = clock

    async def validate(self, token: str) -> Bearer:
        if len(token) > TOKEN_BYTES_MAX:
            raise TokenRefused(f"the token is longer than {TOKEN_BYTES_MAX} bytes")
        header, _ = _parts(token)
        if header.get("alg") not in ALGORITHMS:
            raise TokenRefused(f"the token is signed by {header.get('alg')!r}")
        key_id = header.get("kid")
        claims = None
        for key in await self._keys.named(key_id if isinstance(key_id, str) else None):
            claims = _verified(token, key, str(header["alg"]))
            if claims is not None:
                break
        if claims is None:
            raise TokenRefused(f"no key of the authority, for key id {key_id!r}, has signed the token")
        return self._expected.bearer(claims, self._clock.now_ms())


class UnsecuredTokens:
    """Unsigned tokens, for development (``OAuthBearerUnsecuredValidatorCallbackHandler``)."""

    def __init__(self, options: Mapping[str, str], clock: Clock) -> None:
        """Raises `ConfigError`."""
        prefix = "unsecuredValidator"
        skew = options.get(f"{prefix}AllowableClockSkewMs", "").strip() or "0"
        if not skew.isdecimal():
            raise ConfigError(f"{prefix}AllowableClockSkewMs is {skew!r}: it takes milliseconds.")
        self._skew_ms = int(skew)
        self._principal_claim = options.get(f"{prefix}PrincipalClaimName", "").strip() or "sub"
        self._scope_claim = options.get(f"{prefix}ScopeClaimName", "").strip() or "scope"
        self._required_scope = options.get(f"{prefix}RequiredScope", "").split()
        self._clock = clock

    async def validate(self, token: str) -> Bearer:
        header, claims = _parts(token)
        if header.get("alg") != "none" or token.rpartition(".")[2]:
            raise TokenRefused("the token is signed, and unsecured ones are asked for")
        now_ms = self._clock.now_ms()
        subject = _name(claims, self._principal_claim)
        issued_ms, expires_ms = _time(claims, "iat", required=False), _time(claims, "exp")
        assert expires_ms is not None
        if issued_ms is not None and now_ms < issued_ms - self._skew_ms:
            raise TokenRefused("the token is of the future")
        if now_ms - self._skew_ms >= expires_ms or (issued_ms is not None and expires_ms <= issued_ms):
            raise TokenRefused(f"the token expired at {expires_ms}")
        scopes = _scopes(claims, self._scope_claim)
        missing = [scope for scope in self._required_scope if scope not in scopes]
        if missing:
            required = " ".join(self._required_scope)
            raise TokenRefused(f"scope {missing[0]} is missing", "insufficient_scope", required)
        return Bearer(subject, expires_ms)


class Keys:
    """An authority's public keys (JWKS), from a file or a URL; fetched again when they are old."""

    def __init__(self, runtime: Runtime, request: HttpRequest, refresh_ms: int) -> None:
        self._runtime = runtime
        self._request = request
        self._refresh_ms = refresh_ms
        self._keys: Sequence[Any] = ()
        self._asked_ms: int | None = None
        self._asking = False
        self._answered = Condition()
        path = file_of(request.url)
        if path is not None:
            try:
                self._keys = keys_of(runtime.disk.read(path))
            except (OSError, ValueError) as error:
                raise ConfigError(f"The keys of {request.url} cannot be read: {error}") from None

    async def named(self, key_id: str | None) -> list[Any]:
        """The keys with this id, or all if it is None. For an unknown id the keys are fetched again."""
        if file_of(self._request.url) is None:
            if self._old(self._refresh_ms):
                await self._ask()
            if not self._with(key_id):
                while self._asking:
                    await self._answered
                if self._old(min(REFRESH_PAUSE_MS, self._refresh_ms)):
                    await self._ask()
        return self._with(key_id)

    def _with(self, key_id: str | None) -> list[Any]:
        return [key for key in self._keys if key_id is None or key.kid == key_id]

    def _old(self, age_ms: int) -> bool:
        return self._asked_ms is None or self._runtime.clock.monotonic_ms() - self._asked_ms >= age_ms

    async def _ask(self) -> None:
        """Fetches the keys; without an answer the old ones stay."""
        self._asked_ms = self._runtime.clock.monotonic_ms()
        self._asking = True
        try:
            answer = await fetch(self._runtime, self._request)
            if answer.status != 200:
                raise HttpError(f"status {answer.status}")
            self._keys = keys_of(answer.body)
        except (OSError, ValueError) as error:
            logger.warning("the keys of %s cannot be had: %s", self._request.url, error)
        finally:
            self._asking = False
            self._answered.notify()


def keys_of(text: bytes) -> list[Any]:
    """The public signature keys of a JWKS; others are skipped. Raises ``ValueError``."""
    from joserfc.errors import JoseError
    from joserfc.jwk import import_key

    found = json.loads(text)
    if not isinstance(found, dict) or not isinstance(found.get("keys"), list):
        raise ValueError("they are no JSON Web Key Set")
    keys = []
    for key in found["keys"]:
        if not isinstance(key, dict) or key.get("kty") not in ("RSA", "EC", "OKP") or key.get("use", "sig") != "sig":
            continue
        try:
            keys.append(import_key(key))
        except (JoseError, ValueError, TypeError, KeyError) as error:
            logger.warning("a key of the authority is passed over, it cannot be read: %s", error)
    return keys


def _verified(token: str, key: Any, algorithm: str) -> dict[str, Any] | None:
    """The claims, or None if this key has not signed them."""
    from joserfc import jwt
    from joserfc.errors import JoseError

    if key.get("alg") not in (None, algorithm):
        return None
    try:
        return dict(jwt.decode(token, key, algorithms=[algorithm]).claims)
    except (JoseError, ValueError, TypeError, KeyError):
        return None


def _parts(token: str) -> tuple[dict[str, Any], dict[str, Any]]:
    """Header and claims, not verified."""
    parts = token.split(".")
    if len(parts) != 3:
        raise TokenRefused("the token has not three parts")
    found = []
    for part in parts[:2]:
        try:
            read = json.loads(base64.b64decode(part + "=" * (-len(part) % 4), altchars=b"-_", validate=True))
        except (ValueError, binascii.Error, RecursionError):
            raise TokenRefused("the token cannot be read") from None
        if not isinstance(read, dict):
            raise TokenRefused("the token cannot be read")
        found.append(read)
    return found[0], found[1]


def _name(claims: Mapping[str, Any], name: str) -> str:
    value = claims.get(name)
    if not isinstance(value, str) or not value or _HALF_CHARACTER.search(value):
        raise TokenRefused(f"claim {name} names nobody")
    return value


def _time(claims: Mapping[str, Any], name: str, *, required: bool = True) -> int | None:
    value = claims.get(name)
    if value is None and not required:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value < 1e12:
        raise TokenRefused(f"claim {name} is {value!r}, no time")
    return int(value * 1000)


def _scopes(claims: Mapping[str, Any], name: str) -> list[str]:
    value = claims.get(name, [])
    scopes = value.split() if isinstance(value, str) else value
    if not isinstance(scopes, list) or not all(isinstance(scope, str) and scope.strip() for scope in scopes):
        raise TokenRefused(f"claim {name} is {value!r}")
    if len(set(scopes)) < len(scopes):
        raise TokenRefused(f"claim {name} says the same twice")
    return scopes
