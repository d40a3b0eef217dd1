"""A cluster of real processes whose brokers speak to each other over SASL_SSL, with a listener of every kind."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Final

from certificates import Authority, Certificate
from processes import Cluster, eventually, free_port

LISTENERS: Final = {"PLAIN": "SASL_PLAINTEXT", "TLS": "SSL", "BOTH": "SASL_SSL"}
JAAS: Final = (
    "org.apache.kafka.common.security.plain.PlainLoginModule required "
    'username="broker" password="inner" user_broker="inner" user_alice="wonder";'
)
AUTHENTICATION_TIMEOUT_MS: Final = 10_000
SESSION_MS: Final = 6_000
"""On the listener PLAIN."""


class SecuredCluster(Cluster):
    """`authority` signed the brokers' certificates and alice's; alice's password is wonder."""

    def __init__(self, directory: Path, brokers: int = 3, config: dict[str, str] | None = None) -> None:
        self.authority = Authority(directory / "authority")
        self.alice: Certificate = self.authority.issue("alice")
        key = self.authority.issue("broker")
        values = {
            "listener.security.protocol.map": ",".join(f"{name}:{kind}" for name, kind in LISTENERS.items()),
            "inter.broker.listener.name": "BOTH",
            "ssl.keystore.location": str(key.key_store),
            "ssl.keystore.type": "PEM",
            "ssl.truststore.location": str(self.authority.trust_store),
            "ssl.truststore.type": "PEM",
            "listener.name.tls.ssl.client.auth": "required",
            "listener.name.tls.ssl.principal.mapping.rules": "RULE:^.*CN=([a-z]+).*$/$1/,DEFAULT",
            "sasl.enabled.mechanisms": "PLAIN",
            "sasl.mechanism.inter.broker.protocol": "PLAIN",
            "listener.name.both.plain.sasl.jaas.config": JAAS,
            "listener.name.plain.plain.sasl.jaas.config": JAAS,
            "listener.name.plain.plain.connections.max.reauth.ms": str(SESSION_MS),
            "barnabas.authentication.timeout.ms": str(AUTHENTICATION_TIMEOUT_MS),
            "zookeeper.session.timeout.ms": "10000",
            **(config or {}),
        }
        super().__init__(directory, brokers, values)
        self.listening = [{name: free_port() for name in LISTENERS} for _ in range(brokers)]
        for broker_id, ports in enumerate(self.listening):
            file = directory / f"broker-{broker_id}.properties"
            plain = f"listeners=PLAINTEXT://127.0.0.1:{self.ports[broker_id]}\n"
            mine = ",".join(f"{name}://127.0.0.1:{port}" for name, port in ports.items())
            text = file.read_text()
            assert plain in text
            file.write_text(text.replace(plain, f"listeners={mine}\n"))

    def port(self, listener: str, broker_id: int = 0) -> int:
        return self.listening[broker_id][listener]

    def settings(self, listener: str, broker_id: int = 0) -> dict[str, str]:
        """What a librdkafka client needs on a listener."""
        kind = LISTENERS[listener]
        values = {"bootstrap.servers": f"127.0.0.1:{self.port(listener, broker_id)}", "security.protocol": kind}
        if kind.endswith("SSL"):
            values["ssl.ca.location"] = str(self.authority.trust_store)
        if kind == "SSL":
            values |= {"ssl.certificate.location": str(self.alice.certificate), "ssl.key.location": str(self.alice.key)}
        if kind.startswith("SASL"):
            values |= {"sasl.mechanism": "PLAIN", "sasl.username": "alice", "sasl.password": "wonder"}
        return values

    def metadata(self, topic: str | None = None, broker_id: int = 0) -> Any:
        from confluent_kafka.admin import AdminClient

        return AdminClient({**self.settings("BOTH", broker_id), "log_level": 0}).list_topics(topic, timeout=5)

    def ready(self) -> bool:
        for broker_id, broker in enumerate(self.brokers):
            assert broker.running, f"{broker.name} ended:\n{broker.output()}"
            known = self.metadata(broker_id=broker_id)
            if len(known.brokers) < len(self.brokers) or known.controller_id < 0:
                return False
        return True

    def said(self, text: str, broker_id: int = 0) -> str:
        """The line of a broker's log that has `text`, once it is there."""

        def line() -> str:
            return next((each for each in self.brokers[broker_id].output().splitlines() if text in each), "")

        return eventually(line, what=f"broker {broker_id} says {text!r}")
