"""Certificates, passwords and tokens of a test's cluster with users, in a keyring.

The keyring is the one that ``barnabas up --secure`` makes. A test's brokers have one more listener for clients that use
TLS, with or without a certificate. They accept every installed mechanism.
"""

from __future__ import annotations

import difflib
import importlib.util
import json
import re
import secrets
import ssl
import time
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

from barnabas.model.comma_list import comma_list
from barnabas.runtime.secret_directory import SecretDirectory
from barnabas.security.keyring import BROKER, BROKERS, CERTIFICATES, CLIENTS, HOSTS, MECHANISM, Keyring, jaas_config
from barnabas.security.sasl import gssapi, oauthbearer, plain
from barnabas.security.sasl.http import ALLOWED_URLS
from barnabas.security.sasl.login import CALLBACK_HANDLERS, SaslLogin
from barnabas.security.sasl.scram_credential import MECHANISMS as SCRAM
from barnabas.security.tls.settings import tls_settings

LISTENERS: Final = (CLIENTS, BROKERS, CERTIFICATES)
CLIENTS_STORE: Final = "clients.pem"
"""The file of the brokers' certificate for clients, once it differs from the one for brokers."""
TLS: Final = "TLS"
MTLS: Final = "mTLS"
TOKEN_LIFE_S: Final = 3600.0
EXPIRED_S_MAX: Final = 3600
"""How long ago a certificate may have expired: its validity begins an hour before its creation."""
_NAME: Final = re.compile(r"[a-zA-Z0-9._-]+")
_JWKS: Final = "jwks.json"
_TOKEN_KEY: Final = "token-key.json"
_KEY_ID: Final = "test"
_OFFERED: Final = "sasl.enabled.mechanisms"


def passwords_of(users: Iterable[str] | Mapping[str, str]) -> dict[str, str]:
    """Passwords by user, empty if the test gives none. Raises ``ValueError`` for invalid names."""
    if isinstance(users, str):
        raise ValueError(f"users are names in a list, such as [{users!r}], or passwords by name")
    passwords = dict(users) if isinstance(users, Mapping) else dict.fromkeys(users, "")
    for user in passwords:
        if not isinstance(user, str) or not _NAME.fullmatch(user):
            raise ValueError(f"{user!r} is not a valid user name: it must consist of letters, digits, '.', '_' and '-'")
        if user == BROKER:
            raise ValueError(f"{BROKER!r} is the brokers' own user: choose another name")
    return passwords


class ClusterKeys:
    """Makes certificates. Raises `ConfigError` if the package cryptography is missing."""

    def __init__(self, directory: Path, passwords: Mapping[str, str], config: Mapping[str, str]) -> None:
        directory.parent.mkdir(parents=True, exist_ok=True)
        self.ring = Keyring(SecretDirectory(str(directory)))
        self.ring.make("a test's cluster", {}, _now_ms())
        self.users = dict.fromkeys(passwords)
        for user, password in passwords.items():
            if password or not Path(self.ring.profile(user)).exists():
                self.ring.set_password(user, password or new_password())
        self._with_tokens = importlib.util.find_spec("joserfc") is not None
        if self._with_tokens and not Path(self.ring.file(_JWKS)).exists():
            self._make_token_key()
        self.offered = comma_list(config.get(_OFFERED, "")) or [
            *SCRAM,
            plain.MECHANISM,
            *([oauthbearer.MECHANISM] if self._with_tokens else []),
        ]
        self._kerberos_service = config.get("sasl.kerberos.service.name", "kafka")

    def _make_token_key(self) -> None:
        from joserfc.jwk import ECKey

        key = ECKey.generate_key("P-256", {"kid": _KEY_ID, "use": "sig"}, private=True)
        for file, private in ((_TOKEN_KEY, True), (_JWKS, False)):
            told: Any = key.as_dict(private=private)
            self.ring.directory.write(file, json.dumps(told if private else {"keys": [told]}).encode())

    # Brokers

    @cached_property
    def brokers_tls(self) -> ssl.SSLContext:
        """TLS with the brokers' certificate, whose holder has all rights."""
        return tls_settings(self.ring.stores()).client_context()

    @cached_property
    def unverified_tls(self) -> ssl.SSLContext:
        """TLS without verification, for the cluster's own requests to listeners whose certificate may have expired in
        the test."""
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname, context.verify_mode = False, ssl.CERT_NONE
        return context

    def broker_properties(self, addresses: Mapping[str, str]) -> dict[str, str]:
        """`addresses` are host:port by listener."""
        modules = {mechanism: jaas_config(mechanism) for mechanism in (*SCRAM, oauthbearer.MECHANISM)}
        passwords = {f"{plain.USER_PREFIX}{user}": self.ring.login(user).password for user in self.users}
        modules[plain.MECHANISM] = jaas_config(plain.MECHANISM, passwords)
        ours = {mechanism: modules[mechanism] for mechanism in self.offered if mechanism in modules}
        values = self.ring.broker_properties(addresses, ours, (BROKER,))
        values[_OFFERED] = ",".join(self.offered)
        if oauthbearer.MECHANISM in ours:
            keys = f"file:{self.ring.file(_JWKS)}"
            values |= dict.fromkeys(("sasl.oauthbearer.jwks.endpoint.url", ALLOWED_URLS), keys)
            values["sasl.oauthbearer.clock.skew.seconds"] = "0"  # brokers and clients share a clock
        return values

    def files_of_brokers(self) -> dict[str, bytes]:
        """The files that brokers read through their own disk, by path."""
        return {self.ring.file(_JWKS): self.ring.directory.read(_JWKS)} if self._with_tokens else {}

    def certify_brokers(self, valid_for: float | None) -> str:
        """Makes a new certificate of the brokers for clients; returns its store's path."""
        self.ring.certify(CLIENTS_STORE, BROKER, _now_ms(), HOSTS, until_ms=_until_ms(valid_for))
        return self.ring.file(CLIENTS_STORE)

    # Clients

    def certify(self, user: str, valid_for: float | None) -> str:
        """Makes a new certificate for a user; returns its store's path."""
        self.ring.certify(_store_of(user), user, _now_ms(), until_ms=_until_ms(valid_for))
        return self.ring.file(_store_of(user))

    def _certificate(self, user: str) -> str:
        if not Path(self.ring.file(_store_of(user))).exists():
            self.certify(user, None)
        return _store_of(user)

    def login(self, user: str, mechanism: str = MECHANISM) -> SaslLogin:
        return replace(self.ring.login(user), mechanism=mechanism)

    def token(self, user: str, valid_for: float = TOKEN_LIFE_S) -> str:
        """A token for OAUTHBEARER that is valid for this many seconds."""
        from joserfc import jwt
        from joserfc.jwk import ECKey

        key = ECKey.import_key(json.loads(self.ring.directory.read(_TOKEN_KEY)))
        now_s = int(time.time())
        # The time of issue must lie before the expiry, even if that has passed.
        claims = {"sub": user, "iat": now_s + min(0, int(valid_for)) - 1, "exp": now_s + int(valid_for)}
        return str(jwt.encode({"alg": "ES256", "kid": _KEY_ID}, claims, key))

    def check(self, mechanism: str) -> str:
        """Raises ``ValueError`` for a mechanism that the brokers do not offer."""
        known = (*self.offered, MTLS, TLS)
        if mechanism not in known:
            near = difflib.get_close_matches(mechanism, known, n=1)
            hint = f"did you mean {near[0]}?" if near else f"{', '.join(known)} are"
            raise ValueError(f"{mechanism!r} is not a mechanism that these brokers offer: {hint}")
        return mechanism

    def kafkas(self, user: str, mechanism: str) -> dict[str, str]:
        """A client's properties by Kafka's names."""
        if mechanism in (TLS, MTLS):
            return self.ring.tls_settings(self._certificate(user) if mechanism == MTLS else "")
        if mechanism == oauthbearer.MECHANISM:
            url = f"file:{self.ring.directory.write(f'user-{user}.token', self.token(user).encode())}"
            return {
                **self.ring.sasl_settings(mechanism, jaas_config(mechanism)),
                "sasl.login.callback.handler.class": CALLBACK_HANDLERS[0],
                **dict.fromkeys(("sasl.oauthbearer.token.endpoint.url", ALLOWED_URLS), url),
            }
        if mechanism == gssapi.MECHANISM:
            module = "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true;"
            service = {"sasl.kerberos.service.name": self._kerberos_service}
            return {**self.ring.sasl_settings(mechanism, module), **service}
        return self.ring.client_settings(self.login(user, mechanism))

    def librdkafkas(self, user: str, mechanism: str) -> dict[str, Any]:
        """A client's properties by librdkafka's names; confluent-kafka's ``oauth_cb`` provides the token."""
        if mechanism in (TLS, MTLS):
            return {**self.ring.librdkafka_tls_settings(self._certificate(user) if mechanism == MTLS else "")}
        if mechanism not in (oauthbearer.MECHANISM, gssapi.MECHANISM):
            return {**self.ring.librdkafka_settings(self.login(user, mechanism))}
        secured = {
            **self.ring.librdkafka_tls_settings(),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
        }
        if mechanism == gssapi.MECHANISM:
            return {**secured, "sasl.kerberos.service.name": self._kerberos_service}

        def fresh(_: str) -> tuple[str, float]:
            return self.token(user), time.time() + TOKEN_LIFE_S

        return {**secured, "oauth_cb": fresh}


def _store_of(user: str) -> str:
    return f"user-{user}.pem"


def new_password() -> str:
    return secrets.token_urlsafe(24)


def _now_ms() -> int:
    return time.time_ns() // 1_000_000


def _until_ms(valid_for: float | None) -> int | None:
    """Raises ``ValueError`` for a certificate that would end before it begins."""
    if valid_for is None:
        return None
    if valid_for <= -EXPIRED_S_MAX:
        raise ValueError(
            f"valid_for={valid_for:g}: a certificate may have expired at most an hour ago; the unit is seconds"
        )
    return _now_ms() + round(valid_for * 1000)
