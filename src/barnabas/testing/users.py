"""Users of a test's cluster: their logins and their rights."""

from __future__ import annotations

import asyncio
import ssl
from collections.abc import Callable, Sequence
from typing import Any, Final

from barnabas.client.admin import Admin
from barnabas.client.admin import ResourceType as ConfigResourceType
from barnabas.client.admin_acls import Binding, bindings_of
from barnabas.client.connection import Connection
from barnabas.model.acl import Permission
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.security.acl_words import operations_of, resource_of
from barnabas.security.acls import WILDCARD, Acl, AclFilter
from barnabas.security.keyring import CERTIFICATES, CLIENTS, MECHANISM, application_rights
from barnabas.security.sasl.login import SaslLogin
from barnabas.security.sasl.scram_credential import MECHANISMS as SCRAM
from barnabas.testing.keys import MTLS, TLS, TOKEN_LIFE_S, ClusterKeys, new_password
from barnabas.testing.network import HARNESS, HOST
from barnabas.testing.running import TIMEOUT, RunningCluster
from barnabas.wire.messages.describe_acls import DescribeAclsRequest

_LOGIN_TIMEOUT_MS: Final = 3_000


class UserHandle:
    """A user of the cluster, who has no rights until it gets some.

    A `mechanism` is the way to log in: SCRAM-SHA-512, SCRAM-SHA-256, PLAIN, OAUTHBEARER, GSSAPI if the brokers are
    configured for it, mTLS (with a certificate), or TLS (without a certificate, as ``User:ANONYMOUS``).
    """

    def __init__(self, cluster: RunningCluster, keys: ClusterKeys, name: str) -> None:
        self._cluster = cluster
        self._keys = keys
        self.name = name

    def __repr__(self) -> str:
        return f"<user {self.name}>"

    # ---- logging in

    def client_config(self, mechanism: str = MECHANISM) -> dict[str, Any]:
        """A configuration for confluent-kafka and everything on librdkafka, with the brokers' addresses.

        For OAUTHBEARER it has confluent-kafka's ``oauth_cb``. Raises ``ValueError`` for a mechanism that the brokers do
        not offer.
        """
        return {**self._bootstrap(mechanism), **self._keys.librdkafkas(self.name, mechanism)}

    def properties(self, mechanism: str = MECHANISM, *, prefix: str = "") -> dict[str, str]:
        """The client's properties by Kafka's names: for Java and Kafka's tools, `barnabas.client`, and with
        ``prefix="kafka."`` for Spark. Raises ``ValueError`` as `client_config`."""
        values = {**self._bootstrap(mechanism), **self._keys.kafkas(self.name, mechanism)}
        return {f"{prefix}{name}": value for name, value in values.items()}

    def _bootstrap(self, mechanism: str) -> dict[str, str]:
        by_certificate = self._keys.check(mechanism) in (MTLS, TLS)
        host = self._cluster.host
        return {"bootstrap.servers": host.bootstrap_of_certificates if by_certificate else host.bootstrap}

    @property
    def password(self) -> str:
        """The password for SCRAM and PLAIN."""
        return self._keys.login(self.name).password

    def token(self, *, valid_for: float = TOKEN_LIFE_S) -> str:
        """A token for OAUTHBEARER, valid for this many seconds; with a negative number it has expired. Raises
        ``ValueError`` if joserfc is not installed."""
        self._keys.check("OAUTHBEARER")
        return self._keys.token(self.name, valid_for)

    def certify(self, *, valid_for: float | None = None) -> str:
        """Replaces key and certificate by new ones, valid for this many seconds: ``-1`` has expired.

        Returns the path of the PEM file, which `client_config` and `properties` name for mTLS.
        """
        return self._keys.certify(self.name, valid_for)

    def change_password(self, password: str | None = None) -> None:
        """Changes the password: at once for SCRAM, and at a broker's next start for PLAIN, as in Kafka. By default the
        new password is random."""
        self._keys.ring.set_password(self.name, password or new_password())
        self._cluster.run(self.make())

    async def make(self) -> None:
        """Sets the keyring's password in the cluster. Returns when every running broker accepts it."""
        login = self._keys.login(self.name)
        for mechanism in SCRAM.values():
            await Admin(self._cluster.client).set_scram_password(self.name, login.password, mechanism)
        await self._until_let_in(login, True)

    def delete(self) -> None:
        """Deletes the user's SCRAM credentials; `change_password` makes new ones. As in Kafka, open connections stay
        open, and PLAIN, tokens and certificates remain valid."""

        async def story() -> None:
            await Admin(self._cluster.client).delete_scram_passwords(self.name, list(SCRAM.values()))
            await self._until_let_in(self._keys.login(self.name), False)

        self._cluster.run(story())

    async def _until_let_in(self, login: SaslLogin, wanted: bool) -> None:
        async def others() -> list[int]:
            return [broker for broker in self._cluster.running() if await self._lets_in(broker, login) is not wanted]

        what = f"every broker {'lets' if wanted else 'refuses to let'} {self.name} in"
        await self._cluster.until(lambda left: not left, others, what, TIMEOUT)

    async def _lets_in(self, broker_id: int, login: SaslLogin) -> bool:
        host = self._cluster.host
        connection = Connection(
            host.client_runtime(),
            HOST,
            host.ports[broker_id],
            HARNESS,
            request_timeout_ms=_LOGIN_TIMEOUT_MS,
            tls=self._keys.unverified_tls,
        )
        await connection.connect()
        try:
            await connection.negotiate(login)
        except KafkaError as error:
            if error.code is not ErrorCode.SASL_AUTHENTICATION_FAILED:
                raise
            return False
        finally:
            await connection.close()
        return True

    # ---- rights

    def allow(self, resource: str | None = None, *operations: str) -> None:
        """Allows operations, or all, on a resource: ``"topic:orders"``, ``"topic:orders-*"`` (a prefix), ``"topic:*"``,
        ``"group:.."``, ``"transactional-id:.."``, ``"cluster"``, ``"user:.."``, ``"delegation-token:.."``.

        Without a resource it allows the work of applications: create, write and read topics, in groups and
        transactions. Returns when every running broker knows the rights. Raises ``ValueError`` for an unknown resource
        or operation.
        """
        rights = (
            application_rights(self.name) if resource is None else self._acls(Permission.ALLOW, resource, operations)
        )
        self._cluster.run(self._allow(rights))

    def deny(self, resource: str, *operations: str) -> None:
        """Denies operations, or all, on a resource, even if they are allowed elsewhere; arguments as for `allow`."""
        self._cluster.run(self._allow(self._acls(Permission.DENY, resource, operations)))

    def _acls(self, permission: Permission, resource: str, operations: Sequence[str]) -> list[Binding]:
        named = resource_of(resource)
        return [
            (named, Acl(self._principal, WILDCARD, operation, permission))
            for operation in operations_of(named, operations)
        ]

    @property
    def _principal(self) -> str:
        return f"User:{self.name}"

    async def _allow(self, rights: list[Binding]) -> None:
        for error in await Admin(self._cluster.client).create_acls(rights):
            if error is not None:
                raise error
        await self._until_known(lambda known: known.issuperset(rights))

    def revoke(self, resource: str | None = None) -> None:
        """Removes the rights and denials on this resource, or all; returns when the running brokers know it."""
        wanted = AclFilter(principal=self._principal)
        if resource is not None:
            wanted = AclFilter(*resource_of(resource), self._principal)

        async def story() -> None:
            gone = set(await Admin(self._cluster.client).delete_acls(wanted))
            await self._until_known(gone.isdisjoint)

        self._cluster.run(story())

    async def _until_known(self, fits: Callable[[set[Binding]], bool]) -> None:
        async def others() -> list[int]:
            return [broker for broker in self._cluster.running() if not fits(await self._known_to(broker))]

        await self._cluster.until(lambda left: not left, others, f"every broker knows what {self.name} may do", TIMEOUT)

    async def _known_to(self, broker_id: int) -> set[Binding]:
        connection = await self._cluster.client.connection(*self._cluster.host.harness_address(broker_id))
        return set(bindings_of(await connection.send(DescribeAclsRequest(*AclFilter(principal=self._principal)))))


async def show_certificate(cluster: RunningCluster, store: str, shown: str) -> None:
    """Makes the running brokers use the certificate in the file `store` for clients, without a restart. Returns when
    clients get the certificate `shown`."""
    names = [f"listener.name.{listener.lower()}.ssl.keystore.location" for listener in (CLIENTS, CERTIFICATES)]
    for broker_id in cluster.running():
        changes = [(AlterOperation.SET, name, store) for name in names]
        await Admin(cluster.client).alter_configs(ConfigResourceType.BROKER, str(broker_id), changes)

    async def others() -> list[int]:
        return [
            port
            for broker_id in cluster.running()
            for port in cluster.host.ports_of(broker_id)
            if await asyncio.to_thread(ssl.get_server_certificate, (HOST, port)) not in shown
        ]

    await cluster.until(lambda left: not left, others, "every broker shows its new certificate", TIMEOUT)
