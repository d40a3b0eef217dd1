"""Every login that people paste from Kafka's clients, and a broker's configuration that knows them: user ``k``."""

from __future__ import annotations

import base64
import contextlib
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any

from certificates import Authority, run
from cluster import barnabas

from barnabas.security.sasl.login import unsecured_token

SECRET = "hunter2-p=,q"
MODULES = "org.apache.kafka.common.security"
UNSECURED = f"{MODULES}.oauthbearer.internals.unsecured.OAuthBearerUnsecuredValidatorCallbackHandler"
LOGINS = ("mTLS by PEM", "mTLS by JKS", "PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512", "token endpoint", "token file")


def quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def broker_config(authority: Authority) -> dict[str, str]:
    """Of a broker with the listeners PLAINTEXT, SSL and SASL_SSL."""
    plain = f"{MODULES}.plain.PlainLoginModule required user_k={quoted(SECRET)};"
    return {
        "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
        "listener.name.ssl.ssl.client.auth": "required",
        "listener.name.sasl_ssl.plain.sasl.jaas.config": plain,
        "listener.name.sasl_ssl.scram-sha-256.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "listener.name.sasl_ssl.scram-sha-512.sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule required;",
        "listener.name.sasl_ssl.oauthbearer.sasl.jaas.config": (
            f'{MODULES}.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
        ),
        "listener.name.sasl_ssl.oauthbearer.sasl.server.callback.handler.class": UNSECURED,
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(authority.issue("broker").key_store),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(authority.trust_store),
        "offsets.topic.replication.factor": "1",
        "transaction.state.log.replication.factor": "1",
        "transaction.state.log.min.isr": "1",
        "transaction.state.log.num.partitions": "2",
    }


def add_user(bootstrap: str) -> None:
    """To the cluster, for SCRAM."""
    for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
        done = barnabas("user", "set", "k", "--mechanism", mechanism, "-b", bootstrap, text=f"{SECRET}\n")
        assert done.returncode == 0, done.stderr


def token_of_k() -> str:
    claims = {"unsecuredLoginStringClaim_sub": "k", "unsecuredLoginLifetimeSeconds": "3600"}
    return unsecured_token(claims, time.time_ns() // 1_000_000)


@contextlib.contextmanager
def token_endpoint(token: str) -> Iterator[str]:
    """Gives `token` to the client ``spark`` with the secret, by RFC 6749, 4.4."""
    known = "Basic " + base64.b64encode(f"spark:{SECRET}".encode()).decode()

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            granted = self.headers["Authorization"] == known
            body = json.dumps({"access_token": token} if granted else {"error": "invalid_client"}).encode()
            self.send_response(200 if granted else 401)
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


def jks(place: Path, certificate: Any, authority: Authority) -> dict[str, str]:
    """Java's own kind of stores, made by Java's own tool."""
    keys, trusted = place / "client.jks", place / "trusted.jks"
    run(
        *("keytool", "-importkeystore", "-noprompt", "-srckeystore", certificate.pkcs12("storepass1")),
        *("-srcstoretype", "PKCS12", "-srcstorepass", "storepass1", "-destkeystore", keys),
        *("-deststoretype", "JKS", "-deststorepass", "storepass1"),
    )
    run(
        *("keytool", "-importcert", "-noprompt", "-alias", "ca", "-file", authority.trust_store, "-keystore", trusted),
        *("-storetype", "JKS", "-storepass", "storepass1"),
    )
    return {
        "ssl.keystore.location": str(keys),
        "ssl.keystore.password": "storepass1",
        "ssl.truststore.location": str(trusted),
        "ssl.truststore.password": "storepass1",
    }


def logins(
    directory: Path, authority: Authority, ports: dict[str, dict[int, int]], endpoint: str, token: str
) -> dict[str, dict[str, str]]:
    client = authority.issue("client")
    trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(authority.trust_store)}
    tls = {"bootstrap.servers": servers(ports["SSL"]), "security.protocol": "SSL"}
    sasl = {"bootstrap.servers": servers(ports["SASL_SSL"]), "security.protocol": "SASL_SSL", **trusted}
    user = f'required username="k" password={quoted(SECRET)};'
    oauth = {**sasl, "sasl.mechanism": "OAUTHBEARER"}
    (directory / "token").write_text(token)
    bearer = f"{MODULES}.oauthbearer.OAuthBearerLoginModule required"
    urls = {"file": f"file:{directory / 'token'}", "endpoint": endpoint}
    allowed = {"org.apache.kafka.sasl.oauthbearer.allowed.urls": ",".join(urls.values())}
    return {
        "mTLS by PEM": {
            **tls,
            "ssl.keystore.type": "PEM",
            "ssl.keystore.key": client.key.read_text(),
            "ssl.keystore.certificate.chain": client.certificate.read_text(),
            "ssl.truststore.type": "PEM",
            "ssl.truststore.certificates": authority.trust_store.read_text(),
        },
        "mTLS by JKS": {**tls, **jks(directory, client, authority)},
        "PLAIN": {**sasl, "sasl.mechanism": "PLAIN", "sasl.jaas.config": f"{MODULES}.plain.PlainLoginModule {user}"},
        **{
            name: {**sasl, "sasl.mechanism": name, "sasl.jaas.config": f"{MODULES}.scram.ScramLoginModule {user}"}
            for name in ("SCRAM-SHA-256", "SCRAM-SHA-512")
        },
        "token endpoint": {
            **oauth,
            **allowed,
            "sasl.jaas.config": f'{bearer} clientId="spark" clientSecret={quoted(SECRET)};',
            "sasl.oauthbearer.token.endpoint.url": urls["endpoint"],
        },
        "token file": {
            **oauth,
            **allowed,
            "sasl.jaas.config": f"{bearer};",
            "sasl.oauthbearer.token.endpoint.url": urls["file"],
        },
    }


def servers(ports: dict[int, int]) -> str:
    return ",".join(f"127.0.0.1:{port}" for port in ports.values())


def given(login: dict[str, str], **options: str) -> dict[str, str]:
    return {**{f"kafka.{name}": value for name, value in login.items()}, **options}
