"""``barnabas up``, ``status`` and ``down``: a cluster on this machine, in the background.

They import no more than they need: the cluster's processes begin only after these imports, so each import delays its
start.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Annotated, Any

from barnabas.cli.command import Option
from barnabas.cli.options import Directory, OutputFormat, directory_of, pairs_of
from barnabas.cli.output import Bad, Exit, Format, UsageError, numbers, print_json, print_table, say

if TYPE_CHECKING:
    from barnabas.cli.local_state import ClusterState
    from barnabas.runtime.started_process import StartedProcess


def up(
    n: Annotated[int | None, Option("-n", metavar="N", help="The number of brokers; 3 for a new cluster.")] = None,
    base_port: Annotated[
        int | None, Option("--base-port", metavar="P", help="Brokers on P, P+1, ..; free ports by default.")
    ] = None,
    zookeeper: Annotated[
        str | None, Option("--zookeeper", metavar="H:P,..", help="Use this ZooKeeper and start no coordinator.")
    ] = None,
    config: Annotated[
        list[str] | None, Option("--config", metavar="K=V", help="A configuration of the brokers; may be repeated.")
    ] = None,
    secure: Annotated[
        bool,
        Option(
            "--secure",
            help="With TLS, users and ACLs, and a certificate authority of the cluster's own; see docs/security.md.",
        ),
    ] = False,
    directory: Directory = None,
    output: OutputFormat = Format.text,
) -> None:
    """Start a cluster in the background; return when every broker answers."""
    from barnabas.cli.local import LocalCluster
    from barnabas.cli.local_brokers import controller_id, report, view_address

    begun = time.monotonic()
    if n is not None and not 1 <= n <= 100:
        raise UsageError(f"-n {n}: a cluster here has 1 to 100 brokers.")
    state = LocalCluster(directory_of(directory)).up(
        n, base_port=base_port, zookeeper=zookeeper, config=pairs_of(config or (), "--config"), secure=secure
    )
    took = time.monotonic() - begun
    controller = controller_id(state)
    if output is Format.json:
        print_json(report(state, controller))
    else:
        _print_cluster(state, controller)
        print(f"ready in {took:.2f} s; bootstrap servers: {state.bootstrap}")
        view = view_address(state, controller)
        if view is not None:
            print(f"the view: {view}")
        if state.security:
            _print_profiles(state.security)


def _print_profiles(security: str) -> None:
    """Prints the clients' properties and their files. The client's password is shown, the administrator's is not."""
    from barnabas.cli import secured

    files = secured.profiles(security)
    for what, path in (
        ("client, for Kafka's tools, Java and --command-config", secured.profile(security, secured.CLIENT)),
        ("client, for librdkafka and kcat -F", secured.librdkafka_profile(security)),
    ):
        print(f"\n# {what}: {path}")
        print(path.read_text(), end="")
    print(f"\nCommands here log in as {secured.ADMIN}, who may do everything: {files[secured.ADMIN]}")


def _print_cluster(
    state: ClusterState, controller: int | None, statuses: Mapping[int, dict[str, Any] | None] = MappingProxyType({})
) -> None:
    rows: list[list[object]] = []
    if state.coordinator is None:
        rows.append(["zookeeper", state.zookeeper, "-", "outside"])
    else:
        inside = ", in broker 0" if state.embedded and state.coordinator.alive else ""
        rows.append(["coordinator", state.zookeeper, state.coordinator.pid or "-", _word(state.coordinator, inside)])
    for broker in state.brokers:
        told = (", controller" if broker.id == controller else "") + _trouble(statuses.get(broker.id))
        rows.append([f"broker {broker.id}", f"127.0.0.1:{broker.port}", broker.pid or "-", _word(broker, told)])
    print_table(["process", "address", "pid", "state"], rows)


def _trouble(status: dict[str, Any] | None) -> str:
    """What is wrong with a running broker, by its own status."""
    if status is None:
        return ""
    wait = status["registration_wait"]
    if wait is not None:
        waited_s, remaining_s = wait["waited_ms"] // 1000, wait["remaining_ms"] // 1000
        return f", has waited {waited_s} s for {wait['owner']} to end, at most {remaining_s} s more"
    zookeeper = status["zookeeper"]
    if zookeeper is not None and zookeeper["state"] != "CONNECTED":
        return f", ZooKeeper {zookeeper['state']}: {zookeeper['last_error']}"
    return ""


def _word(process: StartedProcess, more: str) -> str:
    return f"running{more}" if process.alive else Bad(f"down{more}")


def status(directory: Directory = None, output: OutputFormat = Format.text) -> None:
    """Show a cluster's processes and its partitions' health; exit with 1 when there is trouble."""
    from barnabas.cli.local_state import cluster_in
    from barnabas.cli.status import AT_MIN_ISR, examine

    examined = examine(cluster_in(directory_of(directory)))
    if output is Format.json:
        print_json(examined.as_json())
    else:
        statuses = {broker.id: broker.status() for broker in examined.state.brokers}
        _print_cluster(examined.state, examined.controller, statuses)
        print(examined.sentence())
        if examined.troubled:
            print_table(
                ["partition", "leader", "replicas", "isr", "min-isr", "state"],
                [
                    [
                        partition.name,
                        partition.leader if partition.leader >= 0 else None,
                        numbers(partition.replicas),
                        numbers(partition.isr),
                        partition.min_isr,
                        Bad(", ".join(partition.ways)) if partition.ways != (AT_MIN_ISR,) else AT_MIN_ISR,
                    ]
                    for partition in examined.troubled
                ],
            )
        told = (status.get("records_checked_by") for status in statuses.values() if status)
        for checked_by in dict.fromkeys(filter(None, told)):  # a broker of an older version does not report it
            print(f"records are checked by {checked_by}")
    if not examined.healthy:
        raise Exit(1)


def down(
    kill: Annotated[bool, Option("--kill", help="SIGKILL instead of a controlled shutdown.")] = False,
    directory: Directory = None,
    output: OutputFormat = Format.text,
) -> None:
    """Stop a cluster: a controlled shutdown of every broker, then the coordinator."""
    from barnabas.cli.local import LocalCluster

    stopped = LocalCluster(directory_of(directory)).down(kill=kill)
    say(output, {"stopped": stopped}, f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
