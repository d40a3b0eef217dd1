"""One secured cluster of an Apache Kafka broker and one of ours, as an operator writes it: TLS, users, ACLs.

Both ways round: ours joins Apache's on a real ZooKeeper, brokers knowing each other by certificates; Apache's joins
ours on our coordinator, behind TLS, brokers knowing each other by SCRAM, and JAAS in a file of both. Clients come in
by every mechanism on one listener and by their certificates on another.
"""

from __future__ import annotations

import base64
import contextlib
import json
import os
import subprocess
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from typing import Any, Final

import apache
from certificates import Authority
from cluster import BARNABAS, until
from joserfc import jwt
from joserfc.jwk import RSAKey
from kafka_tools import KafkaTools

APACHES, OURS = 0, 1
KINDS: Final = {APACHES: "apaches", OURS: "ours"}
SECRET: Final = 'p=,q"s'
"""Of every user: with characters that have to be escaped somewhere."""
MODULES: Final = "org.apache.kafka.common.security"
_SCRAM: Final = f"{MODULES}.scram.ScramLoginModule required"
_NAMES: Final = "RULE:^.*CN=([a-z0-9-]+).*$/$1/"
MAINS: Final = {
    "kafka-configs": "kafka.admin.ConfigCommand",
    "kafka-acls": "kafka.admin.AclCommand",
    "kafka-delegation-tokens": "org.apache.kafka.tools.DelegationTokenCommand",
}
ALLOWED_URLS: Final = "org.apache.kafka.sasl.oauthbearer.allowed.urls"


def quoted(text: str) -> str:
    """As JAAS has it."""
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def properties(path: Path, values: dict[str, str]) -> Path:
    escaped = {name: value.replace("\\", "\\\\") for name, value in values.items()}
    path.write_text("".join(f"{name}={value}\n" for name, value in escaped.items()))
    return path


@contextlib.contextmanager
def token_endpoint(tokens: dict[str, str]) -> Iterator[str]:
    """Gives its token to each client that knows the secret (RFC 6749, 4.4)."""
    known = {"Basic " + base64.b64encode(f"{name}:{SECRET}".encode()).decode(): each for name, each in tokens.items()}

    class Endpoint(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            self.rfile.read(int(self.headers["Content-Length"]))
            token = known.get(self.headers["Authorization"])
            granted = {"access_token": token, "token_type": "Bearer", "expires_in": 3600}
            body = json.dumps({"error": "invalid_client"} if token is None else granted).encode()
            self.send_response(401 if token is None else 200)
            self.send_header("Content-Type", "application/json")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, format: str, *arguments: Any) -> None:
            """Not on the console."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Endpoint) as server:
        thread = Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}/token"
        server.shutdown()
        thread.join()


class SecuredCluster:
    """`ports` are the listeners', by name and broker: CLIENTS log in by SASL, CERTIFIED have a certificate, PLAINTEXT
    knows nobody. `k` is a client's certificate; `admin` has the properties of who may do everything."""

    def __init__(self, directory: Path, *, ours_first: bool) -> None:
        self.directory = directory
        self.ours_first = ours_first
        self.authority = Authority(directory / "authority")
        self.k = self.authority.issue("k")
        self.key_store = self.authority.issue("broker").key_store
        self.key = RSAKey.generate_key(2048, {"kid": "one", "use": "sig"}, private=True)
        self.tools = KafkaTools()
        names = ("PLAINTEXT", "CLIENTS", "CERTIFIED", "BROKERS")
        self.ports = {name: {broker: apache.free_port() for broker in KINDS} for name in names}
        self.trusted = {"ssl.truststore.type": "PEM", "ssl.truststore.location": str(self.authority.trust_store)}
        self.admin = properties(directory / "admin.properties", self.scram("admin"))

    def bootstrap(self, listener: str = "CLIENTS") -> str:
        return ",".join(f"127.0.0.1:{port}" for port in self.ports[listener].values())

    def scram(
        self, user: str, password: str = SECRET, mechanism: str = "SCRAM-SHA-512", more: str = ""
    ) -> dict[str, str]:
        """A client's properties."""
        return {
            "security.protocol": "SASL_SSL",
            **self.trusted,
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": f"{_SCRAM} username={quoted(user)} password={quoted(password)}{more};",
        }

    def librdkafka(self, user: str) -> dict[str, str | int]:
        return {
            "bootstrap.servers": self.bootstrap(),
            "security.protocol": "SASL_SSL",
            "ssl.ca.location": str(self.authority.trust_store),
            "sasl.mechanism": "SCRAM-SHA-512",
            "sasl.username": user,
            "sasl.password": SECRET,
            "log_level": 0,
        }

    def set_password(self, user: str, *mechanisms: str) -> None:
        """By Kafka's kafka-configs at a broker."""
        at = ("--bootstrap-server", self.bootstrap(), "--command-config", str(self.admin))
        passwords = ",".join(f"{each}=[password={SECRET}]" for each in mechanisms)
        words = ("--alter", "--add-config", passwords, "--entity-type", "users", "--entity-name", user)
        self.kafkas("kafka-configs", *at, *words)

    def token(self, user: str) -> str:
        """What the authority says of a user; OAUTHBEARER's."""
        now_s = int(time.time())
        return jwt.encode({"alg": "RS256", "kid": "one"}, {"sub": user, "iat": now_s, "exp": now_s + 3600}, self.key)

    def kafkas(self, name: str, *arguments: str) -> str:
        """What Kafka's own tool said, which did what it was told."""
        status, text = self.tools.run(MAINS[name], *arguments)
        assert status == 0, (name, arguments, text)
        return text

    # How it is made

    def _broker_config(self, broker: int) -> dict[str, str]:
        jwks = self.directory / "jwks.json"
        jwks.write_text(json.dumps({"keys": [self.key.as_dict(private=False)]}))
        listeners = ",".join(f"{name}://127.0.0.1:{ports[broker]}" for name, ports in self.ports.items())
        between = {
            "listener.name.brokers.ssl.client.auth": "required",
            "listener.name.brokers.ssl.principal.mapping.rules": _NAMES,
        }
        if self.ours_first:
            between = {
                "sasl.mechanism.inter.broker.protocol": "SCRAM-SHA-512",
                "listener.name.brokers.sasl.enabled.mechanisms": "SCRAM-SHA-512",
            }
        return {
            "listeners": listeners,
            "listener.security.protocol.map": (
                f"PLAINTEXT:PLAINTEXT,CLIENTS:SASL_SSL,CERTIFIED:SSL,BROKERS:{'SASL_SSL' if self.ours_first else 'SSL'}"
            ),
            "inter.broker.listener.name": "BROKERS",
            "ssl.keystore.type": "PEM",
            "ssl.keystore.location": str(self.key_store),
            **self.trusted,
            **between,
            "listener.name.certified.ssl.client.auth": "required",
            "listener.name.certified.ssl.principal.mapping.rules": _NAMES,
            "sasl.enabled.mechanisms": "PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER",
            **({} if self.ours_first else self._jaas_keys()),
            # Not in the file: Apache's OAUTHBEARER wants a section of its own.
            "listener.name.clients.oauthbearer.sasl.jaas.config": (
                f"{MODULES}.oauthbearer.OAuthBearerLoginModule required;"
            ),
            "listener.name.clients.oauthbearer.sasl.server.callback.handler.class": (
                f"{MODULES}.oauthbearer.OAuthBearerValidatorCallbackHandler"
            ),
            "sasl.oauthbearer.jwks.endpoint.url": f"file:{jwks}",
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": "User:broker;User:admin",
            "delegation.token.secret.key": "of all brokers",
            "zookeeper.session.timeout.ms": "18000",
            "zookeeper.connection.timeout.ms": "60000",
            "group.initial.rebalance.delay.ms": "0",
            "offsets.topic.num.partitions": "2",
            "offsets.topic.replication.factor": "2",
            **self._zookeeper_tls("zookeeper."),
        }

    def _jaas(self) -> dict[str, dict[str, str]]:
        """By listener and mechanism."""
        clients = {
            "plain": f"{MODULES}.plain.PlainLoginModule required user_k={quoted(SECRET)};",
            "scram-sha-256": f"{_SCRAM};",
            "scram-sha-512": f"{_SCRAM};",
        }
        return {
            "clients": clients,
            "brokers": {"scram-sha-512": f"{_SCRAM} username=broker password={quoted(SECRET)};"},
        }

    def _jaas_keys(self) -> dict[str, str]:
        return {
            f"listener.name.{listener}.{mechanism}.sasl.jaas.config": text
            for listener, modules in self._jaas().items()
            for mechanism, text in modules.items()
        }

    def _jaas_option(self) -> str:
        """The same in a file, as one option of the JVM."""
        file = self.directory / "jaas.conf"
        sections = (
            f"{listener}.KafkaServer {{\n{chr(10).join(dict.fromkeys(modules.values()))}\n}};\n"
            for listener, modules in self._jaas().items()
        )
        file.write_text("".join(sections))
        return f"-Djava.security.auth.login.config={file}"

    def _jvm_options(self) -> tuple[str, ...]:
        """What both kinds are told beside their properties."""
        allowed = f"-D{ALLOWED_URLS}=file:{self.directory / 'jwks.json'}"
        return (allowed, self._jaas_option()) if self.ours_first else (allowed,)

    def _zookeeper_tls(self, prefix: str) -> dict[str, str]:
        if not self.ours_first:
            return {}
        values = {
            "ssl.client.enable": "true",
            "clientCnxnSocket": "org.apache.zookeeper.ClientCnxnSocketNetty",
            "ssl.keystore.location": str(self.key_store),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.location": str(self.authority.trust_store),
            "ssl.truststore.type": "PEM",
        }
        found = {f"{prefix}{name}": value for name, value in values.items()}
        return {**found, **({"zookeeper.set.acl": "true"} if prefix == "zookeeper." else {})}

    @contextlib.contextmanager
    def _coordinator(self) -> Iterator[str]:
        port = apache.free_port()
        config = {
            "secureClientPort": str(port),
            "ssl.keyStore.location": str(self.authority.issue("coordinator").key_store),
            "ssl.trustStore.location": str(self.authority.trust_store),
        }
        words = [word for name, value in config.items() for word in ("--config", f"{name}={value}")]
        directory = str(self.directory / "coordinator")
        with _process("coordinator", "--tls-only", "--dir", directory, *words, log=self.directory / "coordinator.log"):
            yield f"127.0.0.1:{port}"

    @contextlib.contextmanager
    def _ours(self, zookeeper: str) -> Iterator[None]:
        values = {"broker.id": str(OURS), "zookeeper.connect": zookeeper, "log.dirs": str(self.directory / "logs")}
        file = properties(self.directory / "ours.properties", {**self._broker_config(OURS), **values})
        log, options = self.directory / "ours.log", " ".join(self._jvm_options())
        with _process("broker", str(file), log=log, options=options) as process:
            until(lambda: process.poll() is not None or self._sees(OURS, 1), "our broker answers")
            assert process.poll() is None, log.read_text()[-2000:]
            yield

    @contextlib.contextmanager
    def _apaches(self, zookeeper: str) -> Iterator[None]:
        config = self._broker_config(APACHES)
        # java.util.Properties reads a backslash as the beginning of another character.
        config = {name: value.replace("\\", "\\\\") for name, value in config.items()}
        cluster = apache.ApacheCluster(
            self.directory / "apache", 1, zookeeper=zookeeper, config=config, first_id=APACHES,
            jvm=self._jvm_options(),
        )  # fmt: skip
        cluster.ports[APACHES] = self.ports["PLAINTEXT"][APACHES]
        with cluster:
            yield

    def _sees(self, broker: int, brokers: int) -> bool:
        try:
            return len(apache.cluster_view("127.0.0.1", self.ports["PLAINTEXT"][broker])[0]) >= brokers
        except OSError:
            return False

    def _make_first_users(self, zookeeper: str) -> None:
        """Before there is a broker that could be asked, by Kafka's own tool."""
        tls = properties(self.directory / "zookeeper-tls.properties", self._zookeeper_tls("zookeeper."))
        where = ("--zookeeper", zookeeper, *(("--zk-tls-config-file", str(tls)) if self.ours_first else ()))
        for user in ("broker", "admin"):
            password = f"SCRAM-SHA-512=[password={SECRET}]"
            self.kafkas(
                "kafka-configs",
                *where,
                "--alter",
                "--add-config",
                password,
                "--entity-type",
                "users",
                "--entity-name",
                user,
            )

    @contextlib.contextmanager
    def running(self) -> Iterator[SecuredCluster]:
        with contextlib.ExitStack() as stack:
            stack.callback(self.tools.close)
            coordination = self._coordinator() if self.ours_first else apache.zookeeper(self.directory / "zk")
            zookeeper = stack.enter_context(coordination)
            if self.ours_first:
                self._make_first_users(zookeeper)
                stack.enter_context(self._ours(zookeeper))
                stack.enter_context(self._apaches(zookeeper))
            else:
                self._make_first_users(zookeeper)
                stack.enter_context(self._apaches(zookeeper))
                stack.enter_context(self._ours(zookeeper))
            until(lambda: all(self._sees(broker, 2) for broker in KINDS), "both kinds are known")
            yield self


@contextlib.contextmanager
def _process(*words: str, log: Path, options: str = "") -> Iterator[subprocess.Popen[bytes]]:
    with log.open("wb") as output:
        environment = {**os.environ, "KAFKA_OPTS": options}
        process = subprocess.Popen([*BARNABAS, *words], stdout=output, stderr=output, env=environment)
        try:
            yield process
        finally:
            process.terminate()
            process.wait(60)
