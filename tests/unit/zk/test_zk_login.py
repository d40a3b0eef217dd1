"""Under which name a client asks Kerberos for a ZooKeeper server (``SaslServerPrincipal``)."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from barnabas.security.sasl.gssapi import Tickets
from barnabas.zk.client.login import KerberosLogin

ADDRESS = "127.0.0.1"
MINE: dict[str, Any] = {"canonicalize": False}


@pytest.mark.parametrize(
    ("fields", "host", "server"),
    [
        (MINE, "zk1", "zookeeper@zk1"),
        (MINE, "10.0.0.1", "zookeeper@10.0.0.1"),
        ({**MINE, "service": "zk"}, "zk1", "zk@zk1"),
        ({**MINE, "server_realm": "B.COM"}, "zk1", "zookeeper/zk1@B.COM"),
        ({**MINE, "server_principal": "all/of.them"}, "zk1", "all@of.them"),
        ({**MINE, "server_principal": "all/of.them", "server_realm": "B.COM"}, "zk1", "all/of.them@B.COM"),
        ({"server_principal": "all/of.them@A.COM", "server_realm": "B.COM"}, "zk1", "all/of.them@A.COM"),
    ],
)
def test_a_server_is_asked_for_by_its_name(fields: dict[str, Any], host: str, server: str) -> None:
    assert asyncio.run(KerberosLogin(Tickets(), **fields)._server(host, ADDRESS)) == server


def test_a_name_that_the_address_has_counts_before_the_one_that_was_given() -> None:
    async def server(address: str) -> str:
        return await KerberosLogin(Tickets())._server("alias", address)

    async def known() -> tuple[str, list[str]]:
        loop = asyncio.get_running_loop()
        name, _ = await loop.getnameinfo((ADDRESS, 0))
        return name, [entry[4][0] for entry in await loop.getaddrinfo(name, None)]

    name, addresses = asyncio.run(known())
    assert asyncio.run(server(ADDRESS)) == f"zookeeper@{name if ADDRESS in addresses else 'alias'}"
