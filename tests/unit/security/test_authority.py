"""An authority of a cluster's own: whom it signed for is trusted by those who trust it, and nobody else."""

from __future__ import annotations

import contextlib
import ssl
import time
from dataclasses import replace
from pathlib import Path

import pytest
from test_tls_settings import shake_hands

from barnabas.security.tls.authority import Authority, issue, make_authority
from barnabas.security.tls.names import subject_of
from barnabas.security.tls.settings import TlsSettings, tls_settings

NOW_MS = time.time_ns() // 1_000_000


def settings(directory: Path, authority: Authority, name: str) -> TlsSettings:
    store, trust = directory / f"{name}.pem", directory / f"{name}.trust.pem"
    store.write_bytes(issue(authority, name, ("localhost", "127.0.0.1"), NOW_MS))
    trust.write_bytes(authority.certificate)
    return tls_settings(
        {
            "ssl.keystore.location": str(store),
            "ssl.truststore.location": str(trust),
            "ssl.client.auth": "required",
        }
    )


def test_whom_it_signed_for_is_known_by_name(tmp_path: Path) -> None:
    authority = make_authority("ours", NOW_MS)
    broker, client = settings(tmp_path, authority, "broker"), settings(tmp_path, authority, "client")
    for host in ("localhost", "127.0.0.1"):
        _, shown = shake_hands(broker, client, host)
        assert subject_of(shown or b"") == "CN=client"
    with pytest.raises(ssl.SSLCertVerificationError, match="Hostname mismatch"):
        shake_hands(broker, client, "elsewhere.example.com")


def test_another_of_the_same_name_is_another(tmp_path: Path) -> None:
    ours = settings(tmp_path, make_authority("ours", NOW_MS), "broker")
    foreign = settings(tmp_path, make_authority("ours", NOW_MS), "foreign")
    with pytest.raises(ssl.SSLCertVerificationError):
        shake_hands(foreign, ours)


def test_strict_checks_of_newer_pythons_take_them(tmp_path: Path) -> None:
    ours = settings(tmp_path, make_authority("ours", NOW_MS), "broker")
    context = ssl.create_default_context(cafile=str(tmp_path / "broker.trust.pem"))
    context.verify_flags |= ssl.VERIFY_X509_STRICT
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    server = replace(ours, client_auth="none").server_context().wrap_bio(to_server, to_client, server_side=True)
    client = context.wrap_bio(to_client, to_server, server_hostname="localhost")
    for _ in range(4):
        for side in (client, server):
            with contextlib.suppress(ssl.SSLWantReadError):
                side.do_handshake()
    assert client.version() == "TLSv1.3"
