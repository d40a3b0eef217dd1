"""``barnabas up``, ``status`` and ``down``: a cluster on this machine, in the background.

They parse their words by argparse and import no more than they need, for `up` is measured from its first instruction:
what it imports before the processes are begun, they wait for.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from barnabas.cli.output import CommandError, UsageError, complain, print_json, print_table
from barnabas.cli.plain import Parser

if TYPE_CHECKING:
    from barnabas.cli.local import ClusterState, Process

DIRECTORY: Final = ".barnabas"


def _parser(command: str, description: str) -> Parser:
    parser = Parser(prog=f"barnabas {command}", description=description)
    parser.add_argument("--dir", default=DIRECTORY, metavar="D", help="the cluster's state and data (%(default)s)")
    parser.add_argument("--format", choices=("text", "json"), default="text", help="for people or for programs")
    return parser


def _told(run: Callable[[], int]) -> int:
    """Trouble as one sentence. Returns the exit code."""
    from barnabas.model.errors import ConfigError

    try:
        return run()
    except CommandError as error:
        complain(str(error))
        return error.exit_code
    except ConfigError as error:
        complain(str(error))
        return 2
    except OSError as error:
        complain(f"{error}.")
        return 1
    except KeyboardInterrupt:
        return 130


def up_main(arguments: Sequence[str]) -> int:
    import time

    begun = time.monotonic()
    parser = _parser("up", "Starts a cluster in the background and returns when every broker answers.")
    parser.add_argument("-n", type=int, metavar="N", help="how many brokers; 3 for a new cluster")
    parser.add_argument("--base-port", type=int, metavar="P", help="brokers on P, P+1, ..; free ports by default")
    parser.add_argument("--zookeeper", metavar="H:P,..", help="use this ZooKeeper and start no coordinator")
    parser.add_argument(
        "--config", action="append", default=[], metavar="K=V", help="a broker configuration; may be repeated"
    )
    options = parser.parse_args(arguments)

    def run() -> int:
        from barnabas.cli.local import LocalCluster, controller_id, report

        values: dict[str, str] = {}
        for each in options.config:
            key, equals, value = each.partition("=")
            if not equals or not key:
                raise UsageError(f"--config takes key=value, not {each!r}.")
            values[key.strip()] = value.strip()
        if options.n is not None and not 1 <= options.n <= 100:
            raise UsageError(f"-n {options.n}: a cluster here has 1 to 100 brokers.")
        state = LocalCluster(options.dir).up(
            options.n, base_port=options.base_port, zookeeper=options.zookeeper, config=values
        )
        took = time.monotonic() - begun
        controller = controller_id(state)
        if options.format == "json":
            print_json(report(state, controller))
        else:
            _print_cluster(state, controller)
            print(f"ready in {took:.2f} s; bootstrap servers: {state.bootstrap}")
        return 0

    return _told(run)


def _print_cluster(
    state: ClusterState, controller: int | None, statuses: Mapping[int, dict[str, Any] | None] = MappingProxyType({})
) -> None:
    rows: list[list[object]] = []
    if state.coordinator is None:
        rows.append(["zookeeper", state.zookeeper, "-", "outside"])
    else:
        inside = ", in broker 0" if state.embedded and state.coordinator.alive else ""
        rows.append(["coordinator", state.zookeeper, state.coordinator.pid or "-", _word(state.coordinator) + inside])
    for broker in state.brokers:
        word = _word(broker) + (", controller" if broker.id == controller else "") + _trouble(statuses.get(broker.id))
        rows.append([f"broker {broker.id}", f"127.0.0.1:{broker.port}", broker.pid or "-", word])
    print_table(["process", "address", "pid", "state"], rows)


def _trouble(status: dict[str, Any] | None) -> str:
    """What keeps a running broker from being whole, as far as it says so itself."""
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


def _word(process: Process) -> str:
    return "running" if process.alive else "down"


def status_main(arguments: Sequence[str]) -> int:
    """Exit 1 when something is down, under-replicated or without a leader."""
    parser = _parser("status", "Shows a cluster's processes and its partitions' health; exit 1 when not all is well.")
    options = parser.parse_args(arguments)

    def run() -> int:
        from barnabas.cli.local import LocalCluster
        from barnabas.cli.status import examine

        examined = examine(LocalCluster(options.dir).loaded())
        if options.format == "json":
            print_json(examined.as_json())
        else:
            statuses = {broker.id: broker.status() for broker in examined.state.brokers}
            _print_cluster(examined.state, examined.controller, statuses)
            print(examined.sentence())
        return 0 if examined.healthy else 1

    return _told(run)


def down_main(arguments: Sequence[str]) -> int:
    parser = _parser("down", "Stops a cluster: a controlled shutdown of every broker, then the coordinator.")
    parser.add_argument("--kill", action="store_true", help="SIGKILL instead of a controlled shutdown")
    options = parser.parse_args(arguments)

    def run() -> int:
        from barnabas.cli.local import LocalCluster

        stopped = LocalCluster(options.dir).down(kill=options.kill)
        if options.format == "json":
            print_json({"stopped": stopped})
        else:
            print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")
        return 0

    return _told(run)


def broker_main(arguments: Sequence[str]) -> int:
    from barnabas.cli import process

    return process.broker_main(list(arguments))


def coordinator_main(arguments: Sequence[str]) -> int:
    from barnabas.cli import process

    return process.coordinator_main(list(arguments))


def _brokers_main(arguments: Sequence[str]) -> int:
    from barnabas.cli import process

    return process.brokers_main(list(arguments))


PLAIN_COMMANDS: Final[dict[str, Callable[[Sequence[str]], int]]] = {
    "up": up_main,
    "status": status_main,
    "down": down_main,
    "broker": broker_main,
    "coordinator": coordinator_main,
}
"""Commands that need neither typer nor rich."""


HIDDEN_COMMANDS: Final[dict[str, Callable[[Sequence[str]], int]]] = {"brokers": _brokers_main}
"""What only this package calls."""


def is_plain(name: str) -> bool:
    return name in PLAIN_COMMANDS or name in HIDDEN_COMMANDS


def run_plain(name: str, arguments: Sequence[str]) -> int:
    code = {**PLAIN_COMMANDS, **HIDDEN_COMMANDS}[name](arguments)
    sys.stdout.flush()
    return code
