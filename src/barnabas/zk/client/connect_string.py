"""``zookeeper.connect``: which servers, and below which path. Pure."""

from __future__ import annotations

from barnabas.model.comma_list import comma_list
from barnabas.model.errors import ConfigError


def parse_connect(connect: str) -> tuple[list[tuple[str, int]], str]:
    """Hosts and chroot of ``zookeeper.connect``, ``h1:p1,h2:p2/chroot``. Raises `ConfigError`."""
    addresses, slash, rest = connect.strip().partition("/")
    chroot = f"/{rest.strip('/')}" if slash and rest.strip("/") else ""
    if any(name in ("", ".", "..") for name in chroot.split("/")[1:]):
        raise ConfigError(f"Invalid value {connect!r} for configuration zookeeper.connect: {chroot!r} is no path.")
    hosts: list[tuple[str, int]] = []
    for address in comma_list(addresses):
        if address.startswith("["):
            host, bracket, port = address[1:].partition("]")
            port = port.removeprefix(":") if bracket else "?"
        elif address.count(":") > 1:
            host, port = address, ""
        else:
            host, _, port = address.partition(":")
        port = port or "2181"
        if not host or not port.isascii() or not port.isdigit() or not 0 < int(port) < 65536:
            raise ConfigError(
                f"Invalid value {connect!r} for configuration zookeeper.connect: {address!r} is not host:port."
            )
        hosts.append((host, int(port)))
    if not hosts:
        raise ConfigError(
            f"Invalid value {connect!r} for configuration zookeeper.connect: it takes host:port[,host:port..][/chroot]."
        )
    return hosts, chroot
