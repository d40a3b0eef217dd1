"""Certificates for tests, made by ``openssl``: one authority, and any number of keys it signed."""

from __future__ import annotations

import datetime
import subprocess
from dataclasses import dataclass
from pathlib import Path


def run(program: str, *arguments: str | Path) -> None:
    subprocess.run([program, *map(str, arguments)], check=True, capture_output=True)


def _openssl(*arguments: str | Path) -> None:
    run("openssl", *arguments)


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files: the private key (PKCS#8, not encrypted), the certificate, and both in one file, as key stores are."""

    key: Path
    certificate: Path
    key_store: Path

    def pkcs12(self, password: str) -> Path:
        """The same as a PKCS12 store, the alias ``entry``."""
        store = self.key_store.with_suffix(".p12")
        _openssl(
            *("pkcs12", "-export", "-inkey", self.key, "-in", self.certificate, "-name", "entry"),
            *("-passout", f"pass:{password}", "-out", store),
        )
        return store


class Authority:
    """A certificate authority in `directory`; `trust_store` is its own certificate."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._key = directory / f"{name}.key"
        self.trust_store = directory / f"{name}.pem"
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}"),
            # What Python's own contexts want to see from 3.13 on (`ssl.VERIFY_X509_STRICT`).
            *("-addext", "keyUsage=critical,keyCertSign,cRLSign"),
            *("-keyout", str(self._key), "-out", str(self.trust_store)),
        )

    def issue(
        self,
        name: str,
        *,
        hosts: str = "DNS:localhost,IP:127.0.0.1",
        organisation: str = "barnabas",
        days: int = 30,
        purpose: str = "",
        by: Certificate | None = None,
    ) -> Certificate:
        """A key and certificate for ``CN=name,O=organisation``, valid for `hosts`; `days` below 0: expired.

        `purpose` is its ``extendedKeyUsage``, any where it has none. `by`: signed not by the authority but by who has
        this certificate, which stands behind it in the store.
        """
        key, request, certificate = (self.directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text(
            f"subjectAltName={hosts}\nsubjectKeyIdentifier=hash\nauthorityKeyIdentifier=keyid\n"
            + (f"extendedKeyUsage={purpose}\n" if purpose else "")
        )
        _openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}/O={organisation}"),
            *("-keyout", str(key), "-out", str(request)),
        )
        signer, signing_key = (self.trust_store, self._key) if by is None else (by.certificate, by.key)
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(signer), "-CAkey", str(signing_key)),
            *("-CAcreateserial", "-days", str(abs(days)), "-extfile", str(extensions), "-out", str(certificate)),
        )
        if days < 0:
            self._date_back(certificate, signing_key, -days)
        store = self.directory / f"{name}.store.pem"
        chain = certificate.read_bytes() + (b"" if by is None else by.certificate.read_bytes())
        store.write_bytes(key.read_bytes() + chain)
        return Certificate(key, certificate, store)

    @staticmethod
    def _date_back(certificate: Path, signing_key: Path, days: int) -> None:
        """Signs it anew, as one that ended so many days ago: OpenSSL 3.6 makes none that ends before it begins."""
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

        made = x509.load_pem_x509_certificate(certificate.read_bytes())
        ended = made.not_valid_before_utc - datetime.timedelta(days=days)
        builder = x509.CertificateBuilder(
            made.issuer, made.subject, made.public_key(), made.serial_number, ended - datetime.timedelta(days=1), ended
        )
        for extension in made.extensions:
            builder = builder.add_extension(extension.value, extension.critical)
        key = load_pem_private_key(signing_key.read_bytes(), None)
        certificate.write_bytes(builder.sign(key, SHA256()).public_bytes(Encoding.PEM))  # type: ignore[arg-type]

    def revocation_list(self, *revoked: Certificate) -> str:
        """PEM: the certificates that the authority no longer stands for, good for a day."""
        from cryptography import x509
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.serialization import Encoding, load_pem_private_key

        now = datetime.datetime.now(datetime.UTC)
        own = x509.load_pem_x509_certificate(self.trust_store.read_bytes())
        built = x509.CertificateRevocationListBuilder().issuer_name(own.subject)
        built = built.last_update(now - datetime.timedelta(hours=1)).next_update(now + datetime.timedelta(days=1))
        for each in revoked:
            number = x509.load_pem_x509_certificate(each.certificate.read_bytes()).serial_number
            entry = x509.RevokedCertificateBuilder().serial_number(number).revocation_date(now).build()
            built = built.add_revoked_certificate(entry)
        key = load_pem_private_key(self._key.read_bytes(), None)
        return built.sign(key, SHA256()).public_bytes(Encoding.PEM).decode()  # type: ignore[arg-type]
