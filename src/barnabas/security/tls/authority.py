"""A certificate authority of a cluster's own, and the certificates that it signs; PEM throughout.

Needs the package ``cryptography``, of the extra ``barnabas[tls]``.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime, timedelta
from ipaddress import ip_address
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from barnabas.model.errors import ConfigError

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey

VALID_DAYS: Final = 3650
_EARLIER: Final = timedelta(hours=1)
"""How long before now certificates become valid: clocks differ."""


class Authority(NamedTuple):
    key: bytes
    certificate: bytes


def make_authority(name: str, now_ms: int) -> Authority:
    """An authority whose subject is ``CN=name``. Raises `ConfigError` without ``cryptography``."""
    try:
        from cryptography import x509
    except ImportError:
        raise ConfigError("Making certificates needs cryptography: `pip install 'barnabas[tls]'` brings it.") from None
    key = _make_key()
    own_id = x509.SubjectKeyIdentifier.from_public_key(key.public_key())
    builder = _certificate(name, name, key, now_ms).add_extension(own_id, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=True, path_length=0), critical=True)
    builder = builder.add_extension(_usage(key_cert_sign=True, crl_sign=True), critical=True)
    return Authority(_pem_of_key(key), _signed(builder, key))


def issue(authority: Authority, name: str, hosts: Sequence[str], now_ms: int, *, until_ms: int | None = None) -> bytes:
    """A key store for ``CN=name``, for both sides of a connection to any of `hosts`: names and addresses.

    It is valid `until_ms` (wall clock, to the second; by default ten years), which may lie up to an hour back.
    """
    from cryptography import x509
    from cryptography.hazmat.primitives.serialization import load_pem_private_key
    from cryptography.x509.oid import ExtendedKeyUsageOID, NameOID

    issuer = x509.load_pem_x509_certificate(authority.certificate)
    issuer_key: Any = load_pem_private_key(authority.key, None)
    issuer_name = str(issuer.subject.get_attributes_for_oid(NameOID.COMMON_NAME)[0].value)
    key = _make_key()
    issuer_id = x509.AuthorityKeyIdentifier.from_issuer_public_key(issuer_key.public_key())
    both = x509.ExtendedKeyUsage([ExtendedKeyUsageOID.SERVER_AUTH, ExtendedKeyUsageOID.CLIENT_AUTH])
    builder = _certificate(name, issuer_name, key, now_ms, until_ms).add_extension(issuer_id, critical=False)
    builder = builder.add_extension(x509.BasicConstraints(ca=False, path_length=None), critical=True)
    builder = builder.add_extension(_usage(digital_signature=True), critical=True)
    builder = builder.add_extension(both, critical=False)
    if hosts:
        names = x509.SubjectAlternativeName([_general_name(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return _pem_of_key(key) + _signed(builder, issuer_key)


def _make_key() -> EllipticCurvePrivateKey:
    from cryptography.hazmat.primitives.asymmetric import ec

    return ec.generate_private_key(ec.SECP256R1())


def _certificate(name: str, issuer: str, key: EllipticCurvePrivateKey, now_ms: int, until_ms: int | None = None) -> Any:
    from cryptography import x509
    from cryptography.x509.oid import NameOID

    now = datetime.fromtimestamp(now_ms // 1000, UTC)
    until = now + timedelta(days=VALID_DAYS) if until_ms is None else datetime.fromtimestamp(until_ms // 1000, UTC)
    return (
        x509.CertificateBuilder()
        .subject_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)]))
        .issuer_name(x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, issuer)]))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - _EARLIER)
        .not_valid_after(until)
    )


def _usage(**granted: bool) -> Any:
    from cryptography import x509

    names = (
        *("digital_signature", "content_commitment", "key_encipherment", "data_encipherment", "key_agreement"),
        *("key_cert_sign", "crl_sign", "encipher_only", "decipher_only"),
    )
    return x509.KeyUsage(**{name: granted.get(name, False) for name in names})


def _general_name(host: str) -> Any:
    from cryptography import x509

    try:
        return x509.IPAddress(ip_address(host))
    except ValueError:
        return x509.DNSName(host)


def _signed(builder: Any, key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.hashes import SHA256
    from cryptography.hazmat.primitives.serialization import Encoding

    pem: bytes = builder.sign(key, SHA256()).public_bytes(Encoding.PEM)
    return pem


def _pem_of_key(key: EllipticCurvePrivateKey) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
