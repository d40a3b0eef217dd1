"""A client's login by SASL, on every connection anew: DIGEST-MD5 by a password, GSSAPI by Kerberos.

One exchange is a generator of tokens, as towards brokers (`barnabas.security.sasl`). ZooKeeper's server answers each,
and the last one of GSSAPI with nothing.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol

if TYPE_CHECKING:
    from barnabas.security.sasl.gssapi import Tickets
    from barnabas.security.sasl.login import Tokens


class ZooKeeperLogin(Protocol):
    @property
    def mechanism(self) -> str: ...

    @property
    def user(self) -> str:
        """The user name that the server will see, as far as the client knows it."""
        ...

    def begin(self, host: str, address: str, nonce: str) -> Awaitable[Tokens]:
        """The client's side of an exchange with the server at `host`, under `address`. Raises `SaslRefused`."""
        ...


@dataclass(frozen=True, slots=True)
class DigestMd5Login:
    mechanism = "DIGEST-MD5"

    user: str
    password: str = field(repr=False)

    async def begin(self, host: str, address: str, nonce: str) -> Tokens:
        from barnabas.zk.protocol.digest_md5 import client_tokens  # here, so that a process starts sooner

        return client_tokens(self.user, self.password, nonce)


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """GSSAPI for the server's principal ``zookeeper/host``, or that of the fields (``SaslServerPrincipal``)."""

    mechanism = "GSSAPI"

    tickets: Tickets
    service: str = "zookeeper"
    server_principal: str = ""
    """The servers' common principal, if it does not follow from their host names."""
    server_realm: str = ""
    """Their realm, if the system's Kerberos configuration does not give it for their host names."""
    canonicalize: bool = True
    """Whether a server's principal has the canonical name of its address."""

    @property
    def user(self) -> str:
        return self.tickets.principal

    async def begin(self, host: str, address: str, nonce: str) -> Tokens:
        from barnabas.security.sasl.gssapi import client_tokens

        server = await self._server(host, address)
        # In a thread: the request to the Kerberos KDC must not block the event loop.
        return await asyncio.get_running_loop().run_in_executor(None, client_tokens, server, self.tickets)

    async def _server(self, host: str, address: str) -> str:
        """The server's principal, or ``service@host`` if Kerberos has to find its realm."""
        name, _, realm = self.server_principal.partition("@")
        if not name:
            name = f"{self.service}/{await _canonical(host, address) if self.canonicalize else host}"
        realm = realm or self.server_realm
        return f"{name}@{realm}" if realm else name.replace("/", "@", 1)


async def _canonical(host: str, address: str) -> str:
    """The canonical name of an address (``InetAddress.getCanonicalHostName``), if it has one; else `host`.

    Not through the runtime's network, which Kerberos bypasses as well: both are the system's.
    """
    loop = asyncio.get_running_loop()
    try:
        name, _ = await loop.getnameinfo((address, 0))
        found = await loop.getaddrinfo(name, None)
    except OSError:
        return host
    return name if name != address and any(entry[4][0] == address for entry in found) else host
