"""Where a broker listens and which addresses it advertises: ``listeners``, ``advertised.listeners``, their protocols.

The rules are those of Kafka's ``KafkaConfig`` and ``CoreUtils.listenerListToEndPoints``: a listener's name is its
protocol unless ``listener.security.protocol.map`` says otherwise, names are unique, and brokers speak to each other on
the listener that ``inter.broker.listener.name`` names (or the one whose name is ``security.inter.broker.protocol``).
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from typing import Final

from barnabas.model.cluster import SECURITY_PROTOCOL_IDS, Endpoint
from barnabas.model.comma_list import comma_list
from barnabas.model.config import Config
from barnabas.model.errors import ConfigError

_ENDPOINT: Final = re.compile(r"^([A-Za-z0-9._-]+)://(?:\[([0-9a-fA-F:.%]*)\]|([^\[\]:/]*)):(-?\d+)$")
_ANY_ADDRESS: Final = ("", "0.0.0.0", "::")


@dataclass(frozen=True, slots=True)
class Listeners:
    """`bound` is where sockets are opened; `advertised` are the addresses for clients and other brokers."""

    bound: tuple[Endpoint, ...]
    advertised: tuple[Endpoint, ...]
    inter_broker: str
    control_plane: str | None = None

    def security_protocol(self, listener: str) -> str:
        """A listener's security protocol; for one closed meanwhile, the protocol that authenticates nobody."""
        return next(
            (endpoint.security_protocol for endpoint in self.bound if endpoint.listener == listener), "PLAINTEXT"
        )

    @property
    def protected(self) -> str | None:
        """The listener that brokers use, if clients use others."""
        return self.inter_broker if len(self.bound) > 1 else None

    @property
    def of_controller(self) -> str:
        """The listener between brokers and the controller."""
        return self.control_plane or self.inter_broker

    def for_brokers(self) -> tuple[Endpoint, ...]:
        """This broker's own listeners that are meant for brokers."""
        return tuple(e for e in self.bound if e.listener in (self.inter_broker, self.control_plane))

    def advertise_bound(self, ports: dict[str, int]) -> Listeners:
        """Sets the port that a listener was really given (`ports`, by name) in place of 0."""
        return replace(
            self,
            bound=tuple(replace(e, port=ports[e.listener]) for e in self.bound),
            advertised=tuple(
                replace(e, port=ports[e.listener]) if e.port == 0 and e.listener in ports else e
                for e in self.advertised
            ),
        )


def listeners_of(config: Config, host_name: str) -> Listeners:
    """Returns the listeners of `config`. `host_name` is advertised for a listener that binds every interface.

    Raises `ConfigError` naming the key and what it takes.
    """
    protocols = _security_protocols(config.text("listener.security.protocol.map"))
    bound = _endpoints("listeners", comma_list(config.text("listeners")), protocols)
    if not bound:
        raise ConfigError("listeners is empty: a broker needs at least one, such as PLAINTEXT://localhost:9092.")
    _require_unique("listeners", [e.listener for e in bound], "listener name")
    _require_unique("listeners", [f"{e.host}:{e.port}" for e in bound if e.port != 0], "port")
    if config.text("advertised.listeners"):
        advertised = _endpoints("advertised.listeners", comma_list(config.text("advertised.listeners")), protocols)
        _require_unique("advertised.listeners", [e.listener for e in advertised], "listener name")
        bound_names = {e.listener for e in bound}
        for endpoint in advertised:
            if endpoint.listener not in bound_names:
                raise ConfigError(
                    f"advertised.listeners names {endpoint.listener}, which is not one of listeners "
                    f"({', '.join(e.listener for e in bound)})."
                )
            if endpoint.host in ("0.0.0.0", "::"):
                raise ConfigError(
                    f"advertised.listeners has {endpoint}: clients cannot connect to a wildcard address; "
                    "name the host they should use."
                )
        advertised = tuple(replace(e, host=e.host or host_name) for e in advertised)
    else:
        advertised = tuple(replace(e, host=host_name) if e.host in _ANY_ADDRESS else e for e in bound)
    control_plane = config.text("control.plane.listener.name") or None
    if control_plane is not None and control_plane not in {e.listener for e in bound}:
        raise ConfigError(f"control.plane.listener.name is {control_plane}, which is not one of listeners.")
    inter_broker = _inter_broker(config, advertised)
    if control_plane == inter_broker:
        raise ConfigError(f"control.plane.listener.name and the inter-broker listener are both {inter_broker}.")
    return Listeners(bound, advertised, inter_broker, control_plane)


def security_protocol_of(config: Config, listener: str) -> str:
    """The security protocol of a `listener` that is not in ``listeners``: PLAINTEXT if
    ``listener.security.protocol.map`` does not name it. Raises `ConfigError`."""
    return _security_protocols(config.text("listener.security.protocol.map")).get(listener, "PLAINTEXT")


def protocol_of_controllers(config: Config, listener: str) -> str:
    """The security protocol of the KRaft controllers' `listener`, which is not one of this broker's own.

    Raises `ConfigError` if ``listener.security.protocol.map`` is set and does not name it.
    """
    protocols = _security_protocols(config.text("listener.security.protocol.map"))
    found = protocols.get(listener) or protocols.get(listener.upper())
    if found is None and config.is_set("listener.security.protocol.map"):
        raise ConfigError(f"listener.security.protocol.map says no protocol for the controllers' listener {listener}.")
    return found or "PLAINTEXT"


def _inter_broker(config: Config, advertised: tuple[Endpoint, ...]) -> str:
    name = config.text("inter.broker.listener.name")
    key = "inter.broker.listener.name"
    if name and config.is_set("security.inter.broker.protocol"):
        raise ConfigError("Only one of inter.broker.listener.name and security.inter.broker.protocol may be set.")
    if not name:
        name, key = config.text("security.inter.broker.protocol"), "security.inter.broker.protocol"
    if name not in {e.listener for e in advertised}:
        raise ConfigError(
            f"{key} is {name}, which is not one of the advertised listeners "
            f"({', '.join(e.listener for e in advertised)})."
        )
    return name


def _security_protocols(text: str) -> dict[str, str]:
    protocols: dict[str, str] = {}
    for entry in comma_list(text):
        name, colon, protocol = entry.rpartition(":")
        protocol = protocol.strip().upper()
        if not colon or not name or protocol not in SECURITY_PROTOCOL_IDS:
            raise ConfigError(
                f"listener.security.protocol.map has {entry!r}: it takes NAME:PROTOCOL, and the protocols are "
                f"{', '.join(SECURITY_PROTOCOL_IDS)}."
            )
        if name.strip() in protocols:
            raise ConfigError(f"listener.security.protocol.map names {name.strip()} twice.")
        protocols[name.strip()] = protocol
    return protocols


def _endpoints(key: str, items: list[str], protocols: dict[str, str]) -> tuple[Endpoint, ...]:
    endpoints = []
    for entry in items:
        match = _ENDPOINT.match(entry)
        if match is None:
            raise ConfigError(f"{key} has {entry!r}: a listener is written NAME://host:port.")
        name, port = match[1].upper() if match[1] not in protocols else match[1], int(match[4])
        if name not in protocols:
            raise ConfigError(
                f"{key} has {entry!r}, but listener.security.protocol.map says no protocol for listener {name}."
            )
        if not 0 <= port <= 65535:
            raise ConfigError(f"{key} has {entry!r}: a port is a number from 0 to 65535.")
        endpoints.append(Endpoint(name, match[2] if match[2] is not None else match[3], port, protocols[name]))
    return tuple(endpoints)


def _require_unique(key: str, values: list[str], what: str) -> None:
    for value in values:
        if values.count(value) > 1:
            raise ConfigError(f"{key} has the {what} {value} more than once; each needs its own.")
