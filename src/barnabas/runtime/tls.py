"""TLS contexts of clients, from Kafka's words for them. Stores are PEM files, as KIP-651 has them."""

from __future__ import annotations

import os
import ssl
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Final

from barnabas.model.errors import ConfigError

_VERSIONS: Final[Mapping[str, ssl.TLSVersion]] = MappingProxyType(
    {
        "TLSv1": ssl.TLSVersion.TLSv1,
        "TLSv1.1": ssl.TLSVersion.TLSv1_1,
        "TLSv1.2": ssl.TLSVersion.TLSv1_2,
        "TLSv1.3": ssl.TLSVersion.TLSv1_3,
    }
)
_TYPES: Final = {".pem": "PEM", ".jks": "JKS", ".p12": "PKCS12", ".pfx": "PKCS12", ".bcfks": "BCFKS"}


@dataclass(frozen=True, slots=True)
class Store:
    """A key store (private key and certificates in one file) or a trust store (certificates), and its password.

    `type` is what the configuration says it is; where that says nothing, the name's end tells. `key` is the name of the
    configuration that names the file, for errors.
    """

    location: str
    key: str
    type: str = ""
    password: str = field(default="", repr=False)

    def checked(self) -> str:
        """The file's path. Raises `ConfigError` for what is not PEM or cannot be read."""
        kind = (self.type or _TYPES.get(os.path.splitext(self.location)[1].lower(), "PEM")).upper()
        if kind != "PEM":
            raise ConfigError(
                f"{self.key}={self.location} is a {kind} store, and only PEM is read. Convert it: "
                f"`keytool -importkeystore -srckeystore {self.location} -destkeystore s.p12 -deststoretype PKCS12`, "
                f"then `openssl pkcs12 -in s.p12 -out s.pem -nodes`."
            )
        if not os.access(self.location, os.R_OK):
            raise ConfigError(f"{self.key}={self.location} is no file that can be read.")
        return self.location


def client_context(
    *,
    key_store: Store | None = None,
    trust_store: Store | None = None,
    protocols: Sequence[str] = ("TLSv1.2", "TLSv1.3"),
    cipher_suites: Sequence[str] = (),
    verify_host_name: bool = True,
    check_revocation: bool = False,
) -> ssl.SSLContext:
    """What a client needs to connect under TLS; raises `ConfigError`.

    Without a trust store the system's authorities are trusted. `cipher_suites` are Java's names or OpenSSL's, for TLS
    1.2 and below. `check_revocation` needs the lists (CRL) in the trust store.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = verify_host_name
    unknown = [name for name in protocols if name not in _VERSIONS]
    if unknown or not protocols:
        raise ConfigError(f"TLS protocol {', '.join(unknown) or 'none'}: it takes some of {', '.join(_VERSIONS)}.")
    versions = [_VERSIONS[name] for name in protocols]
    context.minimum_version, context.maximum_version = min(versions), max(versions)
    if cipher_suites:
        try:
            context.set_ciphers(":".join(map(openssl_name, cipher_suites)))
        except ssl.SSLError:
            raise ConfigError(f"None of the cipher suites {', '.join(cipher_suites)} is known here.") from None
    if trust_store is None:
        context.load_default_certs()
    else:
        _load_trust(context, trust_store)
    if check_revocation:
        context.verify_flags |= ssl.VERIFY_CRL_CHECK_LEAF
    if key_store is not None:
        _load_key(context, key_store)
    return context


def server_context(*, key_store: Store, trust_store: Store | None = None, client_auth: str = "none") -> ssl.SSLContext:
    """What a server needs to accept TLS; raises `ConfigError`. `client_auth` is none, want or need."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    _load_key(context, key_store)
    if trust_store is not None:
        _load_trust(context, trust_store)
    modes = {"none": ssl.CERT_NONE, "want": ssl.CERT_OPTIONAL, "need": ssl.CERT_REQUIRED}
    context.verify_mode = modes[client_auth]
    return context


def _load_trust(context: ssl.SSLContext, trust_store: Store) -> None:
    try:
        context.load_verify_locations(trust_store.checked())
    except ssl.SSLError as error:
        raise ConfigError(f"{trust_store.key}={trust_store.location} holds no PEM certificates: {error}.") from None


def _load_key(context: ssl.SSLContext, key_store: Store) -> None:
    try:
        context.load_cert_chain(key_store.checked(), password=key_store.password or _no_password)
    except (ssl.SSLError, ValueError) as error:
        raise ConfigError(
            f"{key_store.key}={key_store.location} holds no private key with its certificate that the password "
            f"opens: {error}."
        ) from None


def _no_password() -> str:
    """Instead of OpenSSL's own question at the terminal."""
    raise ValueError("the private key is encrypted and no password is configured")


def openssl_name(cipher_suite: str) -> str:
    """OpenSSL's name of a suite that Java calls ``TLS_ECDHE_RSA_WITH_AES_256_GCM_SHA384``."""
    if "_WITH_" not in cipher_suite:
        return cipher_suite
    exchange, _, cipher = cipher_suite.removeprefix("TLS_").removeprefix("SSL_").partition("_WITH_")
    cipher = cipher.replace("AES_", "AES").replace("_CBC", "").replace("CHACHA20_POLY1305_SHA256", "CHACHA20_POLY1305")
    return (cipher if exchange == "RSA" else f"{exchange}_{cipher}").replace("_", "-")
