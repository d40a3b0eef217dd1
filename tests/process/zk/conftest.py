"""The two servers that every play is for: the embedded coordinator, and a real ZooKeeper with TLS and SASL."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from pathlib import Path

import apache
import pytest
from certificates import Authority, Certificate
from zk_plays import Play, Run, connected

from barnabas.runtime.real import real_runtime
from barnabas.zk.server.config import CoordinatorConfig
from barnabas.zk.server.server import CoordinatorServer

SASL_USERS = {"bob": "secret", "eve": "other"}
BOTH = ["embedded", pytest.param("real", marks=pytest.mark.apache)]


@pytest.fixture(scope="session")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("certificates"))


@pytest.fixture(scope="session")
def server_certificate(authority: Authority) -> Certificate:
    return authority.issue("server")


@pytest.fixture(scope="session")
def real_zookeeper(
    authority: Authority, server_certificate: Certificate, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[apache.ZooKeeperEnsemble]:
    apache.require()
    tls = apache.ServerTls(server_certificate.key_store, authority.trust_store, client_auth="want")
    directory = tmp_path_factory.mktemp("zookeeper")
    with apache.ZooKeeperEnsemble(directory, tls=tls, sasl_users=SASL_USERS) as ensemble:
        yield ensemble


def _chroot(request: pytest.FixtureRequest) -> str:
    return "/" + request.node.name.translate(str.maketrans("[]", "__"))


async def _with_chroot(play: Play, connect: str) -> None:
    async with connected(connect) as client:
        await client.make_chroot()
    await play(connect)


async def _embedded(play: Play, directory: Path, config: CoordinatorConfig, chroot: str) -> None:
    server = CoordinatorServer(
        real_runtime(), host="127.0.0.1", port=0, data_dir=str(directory), fsync=False, config=config
    )
    await server.start()
    try:
        if config.secure_port:
            await play(f"127.0.0.1:{server.secure_port}")
        else:
            await _with_chroot(play, f"127.0.0.1:{server.port}{chroot}")
    finally:
        await server.close()


async def _awaited(play: Play, connect: str) -> None:
    await play(connect)


@pytest.fixture(params=BOTH)
def run(request: pytest.FixtureRequest, tmp_path: Path) -> Run:
    """Runs a play against a server; each has a chroot of its own."""
    chroot = _chroot(request)
    if request.param == "real":
        address = request.getfixturevalue("real_zookeeper").connect
        return lambda play: asyncio.run(_with_chroot(play, address + chroot))
    config = CoordinatorConfig(sasl_users=SASL_USERS)
    return lambda play: asyncio.run(_embedded(play, tmp_path, config, chroot))


@pytest.fixture(params=BOTH)
def run_tls(
    request: pytest.FixtureRequest, authority: Authority, server_certificate: Certificate, tmp_path: Path
) -> Run:
    """Runs a play against a server's TLS port, below no chroot."""
    if request.param == "real":
        address = request.getfixturevalue("real_zookeeper").secure_connect
        return lambda play: asyncio.run(_awaited(play, address))
    config = CoordinatorConfig(
        secure_port=apache.free_port(),
        key_store=str(server_certificate.key_store),
        trust_store=str(authority.trust_store),
        client_auth="want",
    )
    return lambda play: asyncio.run(_embedded(play, tmp_path, config, ""))
