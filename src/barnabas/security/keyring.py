"""The keys and passwords of a cluster on this machine, and the configurations of brokers and clients that use them.

``barnabas up --secure`` and ``barnabas.testing`` make a keyring each: a directory that only its owner may read, with a
certificate authority, a certificate for the brokers, and a file of client properties for every user. Brokers
authenticate to each other by their certificate (mTLS, on a listener of their own). Clients connect over TLS: by SASL on
one listener and, if there is another, by certificates.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple

from barnabas.model.acl import Operation, Permission, ResourceType
from barnabas.model.config import parse_properties, properties_text
from barnabas.model.errors import ConfigError
from barnabas.runtime.secret_directory import SecretDirectory
from barnabas.security.acls import WILDCARD, Acl, Resource
from barnabas.security.sasl import oauthbearer, plain
from barnabas.security.sasl.jaas import LoginModule
from barnabas.security.sasl.login import SaslLogin, login_of
from barnabas.security.tls.authority import Authority, issue, make_authority

BROKER: Final = "broker"
"""The brokers' name in their certificate."""
AUTHORITY: Final = "authority.pem"
KEY_STORE: Final = "broker.pem"
MECHANISM: Final = "SCRAM-SHA-512"
"""The mechanism by which users authenticate by default."""
CLIENTS: Final = "CLIENTS"
BROKERS: Final = "BROKERS"
CERTIFICATES: Final = "CERTIFICATES"
PROTOCOLS: Final[Mapping[str, str]] = {CLIENTS: "SASL_SSL", BROKERS: "SSL", CERTIFICATES: "SSL"}
"""The listeners that a broker may have."""
HOSTS: Final = ("localhost", "127.0.0.1")
"""The host names of the brokers' certificates."""
_AUTHORITY_KEY: Final = "authority.key"
_MODULES: Final = "org.apache.kafka.common.security"
_SCRAM: Final = f"{_MODULES}.scram.ScramLoginModule"
_MODULE_OF: Final = {
    plain.MECHANISM: f"{_MODULES}.plain.PlainLoginModule",
    oauthbearer.MECHANISM: f"{_MODULES}.oauthbearer.OAuthBearerLoginModule",
}
_NAMES: Final = "RULE:^CN=([a-zA-Z0-9._-]+)$/$1/"


def jaas_config(mechanism: str, options: Mapping[str, str] | None = None) -> str:
    """A ``sasl.jaas.config``."""
    return LoginModule(_MODULE_OF.get(mechanism, _SCRAM), "required", options or {}).text


def application_rights(user: str) -> list[tuple[Resource, Acl]]:
    """What an application does: creates, writes and reads topics, in groups and transactions; it administers
    nothing."""
    granted = {
        ResourceType.TOPIC: (Operation.CREATE, Operation.WRITE, Operation.READ, Operation.DESCRIBE_CONFIGS),
        ResourceType.GROUP: (Operation.READ,),
        ResourceType.TRANSACTIONAL_ID: (Operation.WRITE,),
    }
    return [
        (Resource(kind, WILDCARD), Acl(f"User:{user}", WILDCARD, operation, Permission.ALLOW))
        for kind, operations in granted.items()
        for operation in operations
    ]


class Keyring(NamedTuple):
    directory: SecretDirectory

    # Creation

    def make(self, name: str, passwords: Mapping[str, str], now_ms: int) -> None:
        """Creates all files, or none; an existing directory stays as it is. `name` is the authority's, `passwords` are
        the users'. Raises `ConfigError` without ``cryptography``, and ``OSError``."""
        if self.directory.exists():
            return
        authority = make_authority(f"authority of {name}"[:64], now_ms)
        files = {
            AUTHORITY: authority.certificate,
            _AUTHORITY_KEY: authority.key,
            KEY_STORE: issue(authority, BROKER, HOSTS, now_ms),
        }
        for user, password in passwords.items():
            files |= self._profiles(SaslLogin(MECHANISM, user, password))
        self.directory.make(files)

    def _profiles(self, login: SaslLogin) -> dict[str, bytes]:
        files = {"properties": self.client_settings(login), "librdkafka.properties": self.librdkafka_settings(login)}
        return {f"{login.username}.{kind}": properties_text(values).encode() for kind, values in files.items()}

    def set_password(self, user: str, password: str) -> None:
        """Writes a user's files. Raises ``OSError``."""
        for file, data in self._profiles(SaslLogin(MECHANISM, user, password)).items():
            self.directory.write(file, data)

    def certify(
        self, store: str, name: str, now_ms: int, hosts: Sequence[str] = (), *, until_ms: int | None = None
    ) -> None:
        """Writes a key and certificate for ``CN=name``, valid `until_ms` (wall clock), to the PEM file `store`."""
        authority = Authority(self.directory.read(_AUTHORITY_KEY), self.directory.read(AUTHORITY))
        self.directory.write(store, issue(authority, name, hosts, now_ms, until_ms=until_ms))

    # Contents

    def file(self, name: str) -> str:
        return self.directory.file(name)

    def profile(self, user: str) -> str:
        """The file with the properties of `user`, for Kafka's tools and those of Barnabas."""
        return self.file(f"{user}.properties")

    def librdkafka_profile(self, user: str) -> str:
        """The same with librdkafka's names."""
        return self.file(f"{user}.librdkafka.properties")

    def login(self, user: str) -> SaslLogin:
        """A user's name and password. Raises `ConfigError` for a file without them, and ``OSError``."""
        login = login_of(parse_properties(self.directory.read(f"{user}.properties").decode()))
        if not isinstance(login, SaslLogin):
            raise ConfigError(f"{self.profile(user)} has no password.")
        return login

    # Settings of servers and clients

    def stores(self, prefix: str = "") -> dict[str, str]:
        """The brokers' certificate and trusted authority."""
        return self._store("keystore", KEY_STORE, prefix) | self._store("truststore", AUTHORITY, prefix)

    def _store(self, kind: str, name: str, prefix: str = "") -> dict[str, str]:
        return {f"{prefix}ssl.{kind}.type": "PEM", f"{prefix}ssl.{kind}.location": self.file(name)}

    def broker_properties(
        self, addresses: Mapping[str, str], mechanisms: Mapping[str, str], super_users: Sequence[str]
    ) -> dict[str, str]:
        """The settings that a broker's ``server.properties`` adds to an open cluster's, or overrides.

        `addresses` are host:port by listener, `mechanisms` each mechanism's ``sasl.jaas.config``.
        """
        values = {
            "listeners": ",".join(f"{listener}://{address}" for listener, address in addresses.items()),
            "listener.security.protocol.map": ",".join(f"{listener}:{PROTOCOLS[listener]}" for listener in addresses),
            "inter.broker.listener.name": BROKERS,
            **self.stores(),
            "listener.name.brokers.ssl.client.auth": "required",
            "listener.name.brokers.ssl.principal.mapping.rules": _NAMES,
            "sasl.enabled.mechanisms": ",".join(mechanisms),
            "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
            "super.users": ";".join(f"User:{user}" for user in super_users),
        }
        for mechanism, jaas in mechanisms.items():
            values[f"listener.name.clients.{mechanism.lower()}.sasl.jaas.config"] = jaas
        if CERTIFICATES in addresses:
            values["listener.name.certificates.ssl.client.auth"] = "requested"
            values["listener.name.certificates.ssl.principal.mapping.rules"] = _NAMES
        return values

    def client_settings(self, login: SaslLogin) -> dict[str, str]:
        """A client's properties, by name and password."""
        return self.sasl_settings(
            login.mechanism, jaas_config(login.mechanism, {"username": login.username, "password": login.password})
        )

    def sasl_settings(self, mechanism: str, jaas: str) -> dict[str, str]:
        return {
            **self.tls_settings(),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": mechanism,
            "sasl.jaas.config": jaas,
        }

    def tls_settings(self, store: str = "") -> dict[str, str]:
        """A client's properties over TLS alone, with a PEM store of the keyring or without."""
        shown = self._store("keystore", store) if store else {}
        return {"security.protocol": "SSL", **self._store("truststore", AUTHORITY), **shown}

    def librdkafka_settings(self, login: SaslLogin) -> dict[str, str]:
        """As `client_settings`, with librdkafka's names."""
        return {
            **self.librdkafka_tls_settings(),
            "security.protocol": "SASL_SSL",
            "sasl.mechanism": login.mechanism,
            "sasl.username": login.username,
            "sasl.password": login.password,
        }

    def librdkafka_tls_settings(self, store: str = "") -> dict[str, str]:
        """As `tls_settings`, with librdkafka's names."""
        location = self.file(store)
        shown = {"ssl.certificate.location": location, "ssl.key.location": location} if store else {}
        return {"security.protocol": "SSL", "ssl.ca.location": self.file(AUTHORITY), **shown}
