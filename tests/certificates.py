"""Certificates for tests, made by ``openssl``: one authority, and any number of keys it signed."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass
from pathlib import Path


def _openssl(*arguments: str) -> None:
    subprocess.run(["openssl", *arguments], check=True, capture_output=True)


@dataclass(frozen=True, slots=True)
class Certificate:
    """PEM files: the private key (PKCS#8, not encrypted), the certificate, and both in one file, as key stores are."""

    key: Path
    certificate: Path
    key_store: Path


class Authority:
    """A certificate authority in `directory`; `trust_store` is its own certificate."""

    def __init__(self, directory: Path, name: str = "authority") -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self.directory = directory
        self._key = directory / f"{name}.key"
        self.trust_store = directory / f"{name}.pem"
        _openssl(
            *("req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "30", "-subj", f"/CN={name}"),
            *("-keyout", str(self._key), "-out", str(self.trust_store)),
        )

    def issue(self, name: str) -> Certificate:
        """A key and certificate for ``CN=name``, valid for 127.0.0.1 and localhost."""
        key, request, certificate = (self.directory / f"{name}.{end}" for end in ("key", "csr", "crt"))
        extensions = self.directory / f"{name}.ext"
        extensions.write_text("subjectAltName=DNS:localhost,IP:127.0.0.1\n")
        _openssl(
            *("req", "-newkey", "rsa:2048", "-nodes", "-subj", f"/CN={name}/O=barnabas"),
            *("-keyout", str(key), "-out", str(request)),
        )
        _openssl(
            *("x509", "-req", "-in", str(request), "-CA", str(self.trust_store), "-CAkey", str(self._key)),
            *("-CAcreateserial", "-days", "30", "-extfile", str(extensions), "-out", str(certificate)),
        )
        store = self.directory / f"{name}.store.pem"
        store.write_bytes(key.read_bytes() + certificate.read_bytes())
        return Certificate(key, certificate, store)
