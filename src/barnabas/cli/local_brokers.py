"""The brokers of a cluster on this machine: the configurations that `up` writes, and their answers to Metadata."""

from __future__ import annotations

import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

from barnabas.cli import secured
from barnabas.cli.output import CommandError
from barnabas.cli.plain import HOST

if TYPE_CHECKING:
    from barnabas.cli.local_state import BrokerState, ClusterState
    from barnabas.client.blocking import BlockingConnection


def server_properties(state: ClusterState, broker: BrokerState) -> str:
    """A broker's ``server.properties``: the cluster's own settings, defaults for small clusters, then ``--config``."""
    from barnabas.model.config import properties_text

    count = len(state.brokers)
    values = {
        "broker.id": str(broker.id),
        "listeners": f"PLAINTEXT://{HOST}:{broker.port}",
        "zookeeper.connect": state.zookeeper,
        "log.dirs": broker.log_dir,
        "zookeeper.session.timeout.ms": "6000",
        "offsets.topic.replication.factor": str(min(3, count)),
        "transaction.state.log.replication.factor": str(min(3, count)),
        "transaction.state.log.min.isr": str(min(2, count)),
        "default.replication.factor": str(min(3, count)),
        "group.initial.rebalance.delay.ms": "0",
        "controlled.shutdown.retry.backoff.ms": "200",
        "barnabas.admin.listener": f"{HOST}:0",
        "barnabas.state.change.log": str(Path(broker.log_dir).with_name("state-change.log")),
        **(secured.broker_properties(state, broker) if state.security else {}),
        **state.config,
    }
    return "# Written by `barnabas up` at every start; `--config key=value` changes it.\n" + properties_text(values)


def connect(state: ClusterState, broker: BrokerState, client_id: str, *, request_timeout_ms: int) -> BlockingConnection:
    """Connects with all rights: to a secured cluster by a broker's certificate, as brokers do."""
    from barnabas.client.blocking import BlockingConnection

    if not state.security:
        return BlockingConnection(HOST, broker.port, client_id, request_timeout_ms=request_timeout_ms)
    tls = secured.brokers_tls(state.security)
    return BlockingConnection(HOST, broker.broker_port, client_id, request_timeout_ms=request_timeout_ms, tls=tls)


def wait_for_metadata(state: ClusterState, deadline: float) -> None:
    """Waits until every broker's Metadata names all brokers and a controller. Raises `CommandError`."""
    from barnabas.client.metadata import metadata_request, read_metadata

    wanted = {broker.id for broker in state.brokers}
    for broker in state.brokers:
        trouble = "it does not answer"
        connection: BlockingConnection | None = None
        pause = 0.005
        try:
            while True:
                try:
                    if connection is None or connection.closed:
                        connection = connect(state, broker, "barnabas-up", request_timeout_ms=10_000)
                    seen = read_metadata(connection.send(metadata_request([])))
                    missing = sorted(wanted - set(seen.brokers))
                    if not missing and seen.controller is not None:
                        break
                    trouble = (
                        f"it does not know broker {missing[0]} yet" if missing else "it does not know a controller yet"
                    )
                except OSError as error:
                    trouble = str(error)
                for peer in state.brokers:
                    if not peer.alive:  # the broker that is asked, or one that it waits for
                        raise CommandError(f"broker {peer.id} ended during the cluster's start: see its broker.log.")
                if time.monotonic() > deadline:
                    raise CommandError(f"broker {broker.id} is not ready, {trouble}: see its broker.log.")
                time.sleep(pause)
                pause = min(0.1, pause * 1.1)
        finally:
            if connection is not None:
                connection.close()


def controller_id(state: ClusterState) -> int | None:
    """The controller's id by the first broker that answers; None if no broker answers or there is no controller."""
    from barnabas.client.metadata import metadata_request, read_metadata

    for broker in state.brokers:
        if not broker.alive:
            continue
        try:
            with connect(state, broker, "barnabas-status", request_timeout_ms=5_000) as connection:
                seen = read_metadata(connection.send(metadata_request([])))
        except OSError:
            continue
        if seen.controller is not None:
            return seen.controller_id
    return None


def view_address(state: ClusterState, controller: int | None) -> str | None:
    """The address of the view: the controller's, else the first that a broker has."""
    brokers = sorted(state.brokers, key=lambda broker: broker.id != controller)
    admins = ((broker.status() or {}).get("admin_url") for broker in brokers)
    return next((f"{admin}/view/" for admin in admins if admin), None)


def report(state: ClusterState, controller: int | None) -> dict[str, Any]:
    """The JSON that ``barnabas up`` prints."""
    return {
        "bootstrap": state.bootstrap,
        "zookeeper": state.zookeeper,
        "coordinator": None if state.coordinator is None else {"pid": state.coordinator.pid},
        "view": view_address(state, controller),
        "security": secured.profiles(state.security) if state.security else None,
        "brokers": [
            {
                "id": broker.id,
                "pid": broker.pid,
                "port": broker.port,
                "log_dir": broker.log_dir,
                "controller": broker.id == controller,
                "admin": (broker.status() or {}).get("admin"),
            }
            for broker in state.brokers
        ],
    }
