"""Kafka's ``ssl.*`` settings, and the TLS contexts of servers and clients."""

from __future__ import annotations

import ssl
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Final

from barnabas.model.comma_list import comma_list
from barnabas.model.errors import ConfigError
from barnabas.security.tls.stores import Store

_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = MappingProxyType(
    {
        "TLSv1": ssl.TLSVersion.TLSv1,
        "TLSv1.1": ssl.TLSVersion.TLSv1_1,
        "TLSv1.2": ssl.TLSVersion.TLSv1_2,
        "TLSv1.3": ssl.TLSVersion.TLSv1_3,
    }
)
_WITHOUT: Final = (ssl.OP_NO_TLSv1, ssl.OP_NO_TLSv1_1, ssl.OP_NO_TLSv1_2, ssl.OP_NO_TLSv1_3)
_SUITES_OF_TLS_1_3: Final = frozenset(
    ("TLS_AES_256_GCM_SHA384", "TLS_CHACHA20_POLY1305_SHA256", "TLS_AES_128_GCM_SHA256")
)
_CLIENT_AUTH: Final = {"none": ssl.CERT_NONE, "requested": ssl.CERT_OPTIONAL, "required": ssl.CERT_REQUIRED}
CHANGING_STORES: Final = frozenset(
    (
        "ssl.key.password",
        *(f"ssl.keystore.{setting}" for setting in ("certificate.chain", "key", "location", "password", "type")),
        *(f"ssl.truststore.{setting}" for setting in ("certificates", "location", "password", "type")),
    )
)
"""Settings that a broker's listener may change while it runs (``SslConfigs.RECONFIGURABLE_CONFIGS``)."""
PROTOCOLS: Final = ("TLSv1.2", "TLSv1.3")
"""The protocols that Kafka enables by default."""
_PLUGINS: Final = {
    "ssl.engine.factory.class": ("",),
    "ssl.provider": ("",),
    "ssl.secure.random.implementation": ("",),
    "ssl.keymanager.algorithm": ("", "SunX509", "PKIX", "NewSunX509"),
    "ssl.trustmanager.algorithm": ("", "PKIX", "SunX509"),
}
"""Keys that name parts of a JVM, each with the values that mean the default."""


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """The settings of one side of a connection. `client_auth` (none, requested or required) counts for servers alone.

    `check_revocation` needs a revocation list (CRL) of each authority in the trust store: a certificate whose authority
    has no list there, or an outdated one, is not trusted.
    """

    key_store: Store | None = None
    trust_store: Store | None = None
    protocols: Sequence[str] = PROTOCOLS
    cipher_suites: Sequence[str] = ()
    verify_host_name: bool = True
    client_auth: str = "none"
    check_revocation: bool = False

    def read(self) -> TlsSettings:
        """The same settings with the present content of the stores' files. Raises `ConfigError`."""
        return replace(
            self,
            key_store=None if self.key_store is None else self.key_store.read(),
            trust_store=None if self.trust_store is None else self.trust_store.read(),
        )

    def client_context(self) -> ssl.SSLContext:
        """A client's context. Without a trust store the system's authorities are trusted.

        Raises `ConfigError`.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.check_hostname = self.verify_host_name
        self._restrict(context)
        if self.trust_store is None:
            context.load_default_certs()
        else:
            self._trust(context, self.trust_store)
        if self.key_store is not None:
            self.key_store.load_key_into(context)
        return context

    def server_context(self) -> ssl.SSLContext:
        """A server's context. Raises `ConfigError`.

        A client keeps its TLS 1.2 session, as a ticket that only this context opens. Without tickets the server would
        keep sessions, and OpenSSL 3.6 does so after their connections end: 20,480 of them, for two hours, with 10 KiB
        each if they have a certificate. TLS 1.3 sessions are not resumed (`TlsTransport` tells what follows from that).
        """
        if self.key_store is None:
            raise ConfigError("ssl.keystore.location is not set: a TLS listener needs a private key and certificate.")
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
        context.options |= ssl.OP_NO_RENEGOTIATION | ssl.OP_NO_COMPRESSION
        context.num_tickets = 0
        self._restrict(context)
        self.key_store.load_key_into(context)
        if self.trust_store is not None:
            self._trust(context, self.trust_store)
        elif self.client_auth != "none":
            context.load_default_certs(ssl.Purpose.CLIENT_AUTH)
        context.verify_mode = _CLIENT_AUTH[self.client_auth]
        return context

    @staticmethod
    def _trust(context: ssl.SSLContext, store: Store) -> None:
        # As in Java, every certificate in the store ends a chain, an intermediate authority's too.
        context.verify_flags |= ssl.VERIFY_X509_PARTIAL_CHAIN
        store.load_trust_into(context)

    def _restrict(self, context: ssl.SSLContext) -> None:
        if self.check_revocation:
            context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
        protocols, suites = list(self.protocols), list(self.cipher_suites)
        unknown = [name for name in protocols if name not in _VERSIONS]
        if unknown or not protocols:
            raise ConfigError(f"TLS protocol {', '.join(unknown) or 'none'}: it takes some of {', '.join(_VERSIONS)}.")
        newest = [name for name in suites if name in _SUITES_OF_TLS_1_3]
        older = [openssl_name(name) for name in suites if name not in _SUITES_OF_TLS_1_3]
        if suites:
            # A protocol without a cipher suite is not offered.
            protocols = [name for name in protocols if (newest if name == "TLSv1.3" else older)]
            if not protocols:
                raise ConfigError(
                    f"None of the cipher suites {', '.join(suites)} belongs to {', '.join(self.protocols)}."
                )
            if "TLSv1.3" in protocols:
                self._choose_newest(context, newest)
            if older:
                try:
                    context.set_ciphers(":".join(older))
                except ssl.SSLError:
                    raise ConfigError(f"None of the cipher suites {', '.join(suites)} is known here.") from None
        versions = [_VERSIONS[name] for name in protocols]
        context.minimum_version, context.maximum_version = min(versions), max(versions)
        for (name, version), option in zip(_VERSIONS.items(), _WITHOUT, strict=True):
            if min(versions) < version < max(versions) and name not in protocols:
                context.options |= option

    @staticmethod
    def _choose_newest(context: ssl.SSLContext, names: Sequence[str]) -> None:
        if set(names) == _SUITES_OF_TLS_1_3:
            return
        choose: Callable[[str], None] | None = getattr(context, "set_ciphersuites", None)  # since Python 3.15
        if choose is None:
            missing = ", ".join(sorted(_SUITES_OF_TLS_1_3.difference(names)))
            raise ConfigError(
                f"The cipher suites name {', '.join(names)} of TLS 1.3's and not {missing}: this Python offers all "
                "three or none. Name all three, or leave TLSv1.3 out of the enabled protocols."
            )
        choose(":".join(names))


def tls_settings(values: Mapping[str, str], *, prefix: str = "") -> TlsSettings:
    """The TLS settings of the ``ssl.*`` keys among `values`; empty values count as unset.

    `prefix` stands before the names in errors. Raises `ConfigError` for contradictory settings, and for those that name
    a part of a JVM.
    """

    def text(name: str) -> str:
        return values.get(name) or ""

    for name, harmless in _PLUGINS.items():
        if text(name) not in harmless:
            raise ConfigError(f"{prefix}{name} is {text(name)}: there is no Java here that it could be a part of.")
    client_auth = (text("ssl.client.auth") or "none").lower()
    if client_auth not in _CLIENT_AUTH:
        raise ConfigError(f"{prefix}ssl.client.auth is {client_auth}: it takes {', '.join(_CLIENT_AUTH)}.")
    algorithm = values.get("ssl.endpoint.identification.algorithm", "https").lower()
    if algorithm not in ("", "https"):
        raise ConfigError(f"{prefix}ssl.endpoint.identification.algorithm is {algorithm}: it takes https, or nothing.")
    trust_store = _trust_store(text, prefix)
    check_revocation = text("ssl.crl.enable").lower() == "true"
    if check_revocation and (trust_store is None or trust_store.inline):
        raise ConfigError(
            f"Revocation lists are asked for, and {prefix}ssl.truststore.location, the PEM file with them, is not set."
        )
    return TlsSettings(
        key_store=_key_store(text, prefix),
        trust_store=trust_store,
        protocols=tuple(comma_list(text("ssl.enabled.protocols"))) or PROTOCOLS,
        cipher_suites=tuple(comma_list(text("ssl.cipher.suites"))),
        verify_host_name=bool(algorithm),
        client_auth=client_auth,
        check_revocation=check_revocation,
    )


def _key_store(text: Callable[[str], str], prefix: str) -> Store | None:
    location, key, chain = (text(f"ssl.keystore.{setting}") for setting in ("location", "key", "certificate.chain"))
    if not (key or chain):
        return _file(text, prefix, "keystore") if location else None
    if location:
        raise ConfigError(f"{prefix}ssl.keystore.location and {prefix}ssl.keystore.key are both set: one is enough.")
    for given, missing in ((key, "key"), (chain, "certificate.chain")):
        if not given:
            raise ConfigError(f"{prefix}ssl.keystore.{missing} is not set, but its counterpart is: both are needed.")
    return Store(
        "",
        f"{prefix}ssl.keystore.key",
        text("ssl.keystore.type"),
        key_password=text("ssl.key.password"),
        inline=f"{key}\n{chain}\n",
    )


def _trust_store(text: Callable[[str], str], prefix: str) -> Store | None:
    if text("ssl.ca.location"):  # librdkafka's name
        return Store(text("ssl.ca.location"), f"{prefix}ssl.ca.location", "PEM")
    certificates = text("ssl.truststore.certificates")
    if not certificates:
        return _file(text, prefix, "truststore") if text("ssl.truststore.location") else None
    if text("ssl.truststore.location"):
        raise ConfigError(
            f"{prefix}ssl.truststore.location and {prefix}ssl.truststore.certificates are both set: one is enough."
        )
    return Store("", f"{prefix}ssl.truststore.certificates", text("ssl.truststore.type"), inline=certificates)


def _file(text: Callable[[str], str], prefix: str, kind: str) -> Store:
    name = f"ssl.{kind}"
    return Store(
        text(f"{name}.location"),
        f"{prefix}{name}.location",
        text(f"{name}.type"),
        text(f"{name}.password"),
        text("ssl.key.password") if kind == "keystore" else "",
    )


def openssl_name(cipher_suite: str) -> str:
    """OpenSSL's name of a suite that Java calls ``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384``."""
    if "_WITH_" not in cipher_suite:
        return cipher_suite
    exchange, _, cipher = cipher_suite.removeprefix("TLS_").removeprefix("SSL_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")
