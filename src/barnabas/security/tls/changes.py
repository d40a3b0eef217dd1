"""Whether a listener may change its stores while it runs (``SslFactory.reconfigure``, ``CertificateEntries``).

A new certificate must have the old one's subject and all of its names, unless ``ssl.allow.dn.changes`` and
``ssl.allow.san.changes`` say otherwise, since clients know the broker by them. On the inter-broker listener, brokers
with the old stores and brokers with the new ones must trust each other.
"""

from __future__ import annotations

import contextlib
import ssl
from dataclasses import replace

from barnabas.model.errors import ConfigError
from barnabas.security.tls.names import alternative_names_of, subject_of
from barnabas.security.tls.settings import TlsSettings
from barnabas.security.tls.stores import Store


def check_change(old: TlsSettings, new: TlsSettings, *, subject_may_change: bool, names_may_change: bool) -> None:
    """Raises `ConfigError`. Both settings have the content of their files (`TlsSettings.read`)."""
    for what, before, after in (
        ("keystore", old.key_store, new.key_store),
        ("truststore", old.trust_store, new.trust_store),
    ):
        if (before is None) != (after is None):
            verb = "add" if before is None else "remove"
            raise ConfigError(f"Cannot {verb} the SSL {what} of a listener while it runs.")
    if new.key_store is None or old.key_store is None:
        return
    was, now = _own(old.key_store), _own(new.key_store)
    if not subject_may_change and subject_of(was).lower() != subject_of(now).lower():
        raise ConfigError(
            f"Keystore DistinguishedName does not match: existing={subject_of(was)}, new={subject_of(now)}."
        )
    if not (names_may_change or alternative_names_of(was) <= alternative_names_of(now)):
        raise ConfigError("Keystore SubjectAltNames do not match: the new certificate lacks some of them.")


def _own(store: Store) -> bytes:
    certificates = store.certificates()
    if not certificates:
        raise ConfigError(f"{store.named} holds no certificate.")
    return ssl.PEM_cert_to_DER_cert(certificates[0].decode())


def check_understanding(server: TlsSettings, client: TlsSettings) -> None:
    """Raises `ConfigError` if brokers with the one's stores could not connect to brokers with the other's."""
    to_server, to_client = ssl.MemoryBIO(), ssl.MemoryBIO()
    ours = server.server_context().wrap_bio(to_server, to_client, server_side=True)
    theirs = replace(client, verify_host_name=False).client_context().wrap_bio(to_client, to_server)
    try:
        for _ in range(4):
            for side in (theirs, ours):
                with contextlib.suppress(ssl.SSLWantReadError):
                    side.do_handshake()
    except ssl.SSLError as error:
        raise ConfigError(
            f"a broker with these stores cannot connect to one with them ({error.reason}): the trust store has to hold "
            "the authority of the key store's certificate."
        ) from None
