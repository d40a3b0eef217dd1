"""The state of a cluster on this machine between commands: its processes, ports and directories."""

from __future__ import annotations

import json
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Final

from barnabas.cli.output import CommandError
from barnabas.cli.plain import HOST, SECURITY, STATUS_FILE
from barnabas.runtime.started_process import StartedProcess

STATE_FILE: Final = "cluster.json"


@dataclass
class CoordinatorState(StartedProcess):
    port: int = 0


@dataclass
class BrokerState(StartedProcess):
    id: int = 0
    port: int = 0
    """The port for clients."""
    log_dir: str = ""
    broker_port: int = 0
    """The port for other brokers in a secured cluster; in an open one brokers use `port`, as clients do."""

    def status(self) -> dict[str, Any] | None:
        """The running process's status file; None if there is none (yet)."""
        try:
            status: dict[str, Any] = json.loads((Path(self.log_dir).parent / STATUS_FILE).read_text())
        except (OSError, ValueError):
            return None
        return status if self.alive and status.get("pid") == self.pid else None


@dataclass
class ClusterState:
    """The content of ``cluster.json``. `coordinator` is None if an outside ZooKeeper is used."""

    zookeeper: str = ""
    coordinator: CoordinatorState | None = None
    brokers: list[BrokerState] = field(default_factory=list)
    base_port: int | None = None
    config: dict[str, str] = field(default_factory=dict)
    security: str = ""
    """The directory with the keys and passwords of a secured cluster; empty for an open cluster."""
    users_made: bool = False

    @property
    def bootstrap(self) -> str:
        return ",".join(f"{HOST}:{broker.port}" for broker in self.brokers)

    @property
    def embedded(self) -> bool:
        """Whether the coordinator runs in the process of the only broker."""
        return (
            self.coordinator is not None
            and len(self.brokers) == 1
            and self.coordinator.pid == self.brokers[0].pid
            and self.coordinator.began == self.brokers[0].began
        )

    def give_ports(self) -> None:
        """Sets consecutive ports from ``--base-port`` on: the brokers' for clients, the coordinator's, the brokers' for
        brokers."""
        if self.base_port is None:
            return
        for broker in self.brokers:
            broker.port = self.base_port + broker.id
        if self.coordinator is not None:
            self.coordinator.port = self.base_port + len(self.brokers)
        if self.security:
            for broker in self.brokers:
                broker.broker_port = self.base_port + len(self.brokers) + 1 + broker.id

    def processes(self) -> list[StartedProcess]:
        return [*([self.coordinator] if self.coordinator is not None else []), *self.brokers]


def state_in(directory: Path | str) -> ClusterState | None:
    """The state, or None if no cluster was ever started there. Raises `CommandError`."""
    file = Path(directory).absolute() / STATE_FILE
    try:
        raw = json.loads(file.read_text())
        coordinator = raw["coordinator"]
        return ClusterState(
            raw["zookeeper"],
            None if coordinator is None else CoordinatorState(**coordinator),
            [BrokerState(**broker) for broker in raw["brokers"]],
            raw["base_port"],
            raw["config"],
            str(file.with_name(SECURITY)) if raw.get("security") else "",  # the directory may have been moved
            raw.get("users_made", False),
        )
    except FileNotFoundError:
        return None
    except PermissionError:
        raise CommandError(f"{file} cannot be read: use a directory of your own (--dir).") from None
    except (ValueError, KeyError, TypeError) as error:
        raise CommandError(
            f"{file} is not a cluster's state ({error}): use another --dir, or move that file away."
        ) from None


def cluster_in(directory: Path | str) -> ClusterState:
    """The state of a cluster that was started there. Raises `CommandError`."""
    state = state_in(directory)
    if state is None:
        place = Path(directory).absolute()
        raise CommandError(f"There is no cluster in {place}: start one by `barnabas up --dir {place}`.")
    return state
