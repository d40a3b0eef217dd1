"""Key stores and trust stores: PEM (KIP-651), PKCS12 and JKS, as ``DefaultSslEngineFactory`` takes them.

PEM is read by OpenSSL, PKCS12 by the package ``cryptography``, of the extra ``barnabas[tls]``. Java tells JKS and
PKCS12 apart by their first bytes whatever ``ssl.keystore.type`` says (``keystore.type.compat``, and keytool writes
PKCS12 under the name of JKS since Java 9), and so does this.
"""

from __future__ import annotations

import re
import ssl
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Final, NamedTuple

from barnabas.model.errors import ConfigError
from barnabas.runtime.descriptors import briefly, opening
from barnabas.runtime.secret_file import secret_file
from barnabas.security.tls import java_key_store
from barnabas.security.tls.java_key_store import JavaKeyStore

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.serialization.pkcs12 import PKCS12KeyAndCertificates

_JAVA_TYPES: Final = ("JKS", "PKCS12")
_TYPES: Final = ("PEM", *_JAVA_TYPES)
_DER_SEQUENCES: Final = (b"\x30\x80", b"\x30\x82", b"\x30\x83")
_PEM_CERTIFICATE: Final = re.compile(rb"-----BEGIN CERTIFICATE-----.*?-----END CERTIFICATE-----", re.S)
_PEM_KEY: Final = re.compile(rb"-----BEGIN [A-Z ]*PRIVATE KEY-----.*?-----END [A-Z ]*PRIVATE KEY-----", re.S)


class KeyEntry(NamedTuple):
    """A private key and its chain, the owner's certificate first; PEM."""

    key: bytes
    chain: bytes
    password: str | None


@dataclass(frozen=True, slots=True)
class Store:
    """A key store (private key and certificates) or a trust store (certificates), in a file or `inline` as PEM.

    `key` is the name of the configuration that holds it, for errors. `type` is PEM, JKS or PKCS12; empty, the first
    bytes tell. `password` opens the store, `key_password` the key in it; each stands in for the other.
    """

    location: str
    key: str
    type: str = ""
    password: str = field(default="", repr=False)
    key_password: str = field(default="", repr=False)
    inline: str = field(default="", repr=False)
    data: bytes | None = field(default=None, repr=False)
    """The file's content when `read` read it; None: its present content counts."""

    def read(self) -> Store:
        """The same store with its file's present bytes. Raises `ConfigError`."""
        return self if self.inline else replace(self, data=self._read())

    @property
    def named(self) -> str:
        return self.key if self.inline else f"{self.key}={self.location}"

    def key_entries(self) -> list[KeyEntry]:
        """Every private key. Raises `ConfigError`, also if there is none."""
        data = self._read()
        kind = self._kind(data)
        if kind == "PEM":
            keys = _PEM_KEY.findall(data)
            chain = b"\n".join(_PEM_CERTIFICATE.findall(data)) + b"\n"
            entries = [KeyEntry(key, chain, self.key_password or self.password or None) for key in keys]
            if len(keys) > 1:
                raise ConfigError(f"{self.named} holds {len(keys)} private keys; a PEM store holds one.")
        elif kind == "PKCS12":
            entries = self._pkcs12_keys(data)
        else:
            entries = self._jks_keys(data)
        if not entries:
            raise ConfigError(f"{self.named} holds no private key.")
        return entries

    def load_key_into(self, context: ssl.SSLContext) -> None:
        """Gives `context` the key and certificate to show. Raises `ConfigError`."""
        # The first entry of each algorithm counts: a context holds one of each.
        for entry in reversed(self.key_entries()):
            with secret_file(entry.key + b"\n" + entry.chain) as path:
                try:
                    context.load_cert_chain(path, password=entry.password or _no_password)
                except (ssl.SSLError, ValueError) as error:
                    raise ConfigError(
                        f"{self.named} holds no private key with its certificate that the password opens: {error}."
                    ) from None

    def load_trust_into(self, context: ssl.SSLContext) -> None:
        """Gives `context` the certificates to trust, and the revocation lists of a PEM file. Raises `ConfigError`."""
        data = self._read()
        kind = self._kind(data)
        try:
            if kind == "PEM" and not self.inline:
                with secret_file(data) as path:  # a file: OpenSSL reads revocation lists from nowhere else
                    context.load_verify_locations(cafile=path)
            else:
                certificates = self._certificates(data, kind)
                if not certificates:
                    raise ConfigError(f"{self.named} holds no certificate to trust.")
                context.load_verify_locations(cadata=b"\n".join(certificates).decode())
        except (ssl.SSLError, UnicodeDecodeError) as error:
            raise ConfigError(f"{self.named} holds no {kind} certificates: {error}.") from None

    def certificates(self) -> list[bytes]:
        """The certificates, each as PEM; of a key store the chain, the owner's first. Raises `ConfigError`."""
        data = self._read()
        return self._certificates(data, self._kind(data))

    def _read(self) -> bytes:
        if self.inline:
            return self.inline.encode()
        if self.data is not None:
            return self.data
        try:
            with briefly(), opening(lambda: open(self.location, "rb")) as file:
                return file.read()
        except OSError as error:
            raise ConfigError(f"{self.named} is no file that can be read: {error.strerror}.") from None

    def _kind(self, data: bytes) -> str:
        named = self.type.upper()
        if named and named not in _TYPES:
            raise ConfigError(
                f"{self.named} is a {named} store; {', '.join(_TYPES)} are read. Convert it: `keytool "
                f"-importkeystore -srckeystore {self.location} -destkeystore store.p12 -deststoretype PKCS12`."
            )
        found = (
            "JKS" if data.startswith(java_key_store.MAGIC) else "PKCS12" if data.startswith(_DER_SEQUENCES) else "PEM"
        )
        if self.inline and found != "PEM":
            raise ConfigError(f"{self.named} takes PEM: a text with -----BEGIN and -----END.")
        if named == "PEM" and found != "PEM":
            raise ConfigError(f"{self.named} is a {found} store, and its type is said to be PEM.")
        if named in _JAVA_TYPES and found == "PEM":
            raise ConfigError(f"{self.named} is neither a JKS nor a PKCS12 store. If it is PEM, set the type to PEM.")
        return found

    def _certificates(self, data: bytes, kind: str) -> list[bytes]:
        if kind == "PEM":
            return _PEM_CERTIFICATE.findall(data)
        if kind == "PKCS12":
            from cryptography.hazmat.primitives.serialization import Encoding

            bundle = self._pkcs12(data)
            own = [] if bundle.cert is None else [bundle.cert]
            return [entry.certificate.public_bytes(Encoding.PEM) for entry in (*own, *bundle.additional_certs)]
        store = self._jks(data)
        ders = [der for key in store.private_keys for der in key.chain] + store.trusted
        return [ssl.DER_cert_to_PEM_cert(der).encode() for der in ders]

    def _pkcs12(self, data: bytes) -> PKCS12KeyAndCertificates:
        try:
            from cryptography.hazmat.primitives.serialization.pkcs12 import load_pkcs12
        except ImportError:
            raise ConfigError(
                f"{self.named} is a PKCS12 store: reading it needs cryptography, which `pip install 'barnabas[tls]'` "
                f"brings. Or convert it to PEM: `openssl pkcs12 -in {self.location} -out s.pem -nodes`."
            ) from None
        try:
            return load_pkcs12(data, (self.password or self.key_password).encode() or None)
        except ValueError as error:
            raise ConfigError(f"{self.named} is no PKCS12 store that the password opens: {error}.") from None

    def _pkcs12_keys(self, data: bytes) -> list[KeyEntry]:
        bundle = self._pkcs12(data)
        if bundle.key is None:
            return []
        from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

        key = bundle.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
        return [KeyEntry(key, b"".join(self._certificates(data, "PKCS12")), None)]

    def _jks(self, data: bytes) -> JavaKeyStore:
        try:
            return JavaKeyStore.read(data, self.password)
        except ValueError as error:
            raise ConfigError(f"{self.named} is no JKS store that the password opens: {error}.") from None

    def _jks_keys(self, data: bytes) -> list[KeyEntry]:
        entries = []
        for key in self._jks(data).private_keys:
            try:
                opened = key.opened(self.key_password or self.password)
            except ValueError as error:
                raise ConfigError(
                    f"{self.named}: ssl.key.password does not open the key {key.alias}: {error}."
                ) from None
            pem = ssl.DER_cert_to_PEM_cert(opened).replace("CERTIFICATE", "PRIVATE KEY").encode()
            chain = "".join(ssl.DER_cert_to_PEM_cert(der) for der in key.chain).encode()
            entries.append(KeyEntry(pem, chain, None))
        return entries


def _no_password() -> str:
    """Replaces OpenSSL's question at the terminal."""
    raise ValueError("the private key is encrypted and no password is configured")
