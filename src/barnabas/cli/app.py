"""The command line: every command is thin, what it does lives in the module that it imports when it runs."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from barnabas.cli.output import CommandError, Format, complain, print_json, print_table

_LATE: Final = {
    "bench": ("barnabas.cli.bench", "app"),
    "demo": ("barnabas.cli.demo.main", "demo"),
    "sim": ("barnabas.cli.sim", "app"),
    "topic": ("barnabas.cli.topic", "app"),
    "group": ("barnabas.cli.group", "app"),
    "config": ("barnabas.cli.config", "app"),
    "partition": ("barnabas.cli.partition", "app"),
    "log": ("barnabas.cli.log", "app"),
    "produce": ("barnabas.cli.records", "produce"),
    "consume": ("barnabas.cli.records", "consume"),
}
"""Commands whose modules are only imported when they are asked for: `up` has no time to lose."""

UsageFault: Final[Any] = typer.BadParameter.__bases__[0]
"""What the parser raises for a wrong command line; typer exports only this kind of it."""

_HELP: Final = {
    "up": "Start a cluster in the background; return when every broker answers.",
    "status": "Show a cluster's processes and its partitions' health.",
    "down": "Stop a cluster by a controlled shutdown.",
    "bench": "Side by side with Apache Kafka, in one run.",
    "demo": "The main job, end to end.",
    "sim": "The simulated cluster.",
    "topic": "Create, list, describe, alter and delete topics.",
    "group": "Consumer groups and how far they have read.",
    "config": "Configurations of topics and brokers.",
    "partition": "Leaders, replicas and elections of partitions.",
    "log": "A broker's files.",
    "produce": "Write records, from lines of the standard input.",
    "consume": "Read records.",
    "broker": "One broker in the foreground, by Kafka's server.properties.",
    "coordinator": "The embedded ZooKeeper-compatible server, in the foreground.",
}


class _Commands(TyperGroup):
    """Imports a late command when it is wanted, and lists all with their one line of help."""

    def list_commands(self, ctx: Any) -> list[str]:
        late = [name for name, (module, _) in _LATE.items() if importlib.util.find_spec(module) is not None]
        return ["up", "status", "down", "broker", "coordinator", *late]

    def get_command(self, ctx: Any, cmd_name: str) -> Any:
        if cmd_name not in _LATE:
            return super().get_command(ctx, cmd_name)
        module, attribute = _LATE[cmd_name]
        loaded = getattr(importlib.import_module(module), attribute)
        if isinstance(loaded, typer.Typer):
            return typer.main.get_command(loaded)
        single = typer.Typer(add_completion=False, rich_markup_mode=None, pretty_exceptions_enable=False)
        single.command(cmd_name)(loaded)
        return typer.main.get_command(single)

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        rows = [(name, _HELP[name]) for name in self.list_commands(ctx)]
        with formatter.section("Commands"):
            formatter.write_dl(rows)


app = typer.Typer(
    cls=_Commands,
    no_args_is_help=True,
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    help="Kafka's replicated cluster: brokers, controller, ZooKeeper coordination.",
    context_settings={"help_option_names": ["-h", "--help"]},
)

Directory = Annotated[str, typer.Option("--dir", metavar="D", help="Where the cluster keeps its state and its data.")]
OutputFormat = Annotated[Format, typer.Option("--format", help="Text for people or JSON for programs.")]


@app.callback(invoke_without_command=True)
def _global(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from barnabas import __version__

        print(f"barnabas {__version__}")
        raise typer.Exit


@app.command()
def up(
    brokers: Annotated[
        int | None, typer.Option("-n", min=1, max=100, help="How many brokers; 3 for a new cluster.")
    ] = None,
    directory: Directory = ".barnabas",
    base_port: Annotated[
        int | None, typer.Option("--base-port", metavar="P", help="Brokers on P, P+1, ..; free ports by default.")
    ] = None,
    zookeeper: Annotated[
        str | None, typer.Option("--zookeeper", metavar="H:P,..", help="Use this ZooKeeper, start no coordinator.")
    ] = None,
    config: Annotated[
        list[str] | None, typer.Option("--config", metavar="K=V", help="A broker configuration; may be repeated.")
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Start a cluster in the background; return when every broker answers."""
    import time

    from barnabas.cli.local import LocalCluster, controller_id, report

    begun = time.monotonic()
    cluster = LocalCluster(directory)
    values: dict[str, str] = {}
    for each in config or ():
        key, equals, value = each.partition("=")
        if not equals or not key:
            raise CommandError(f"--config takes key=value, not {each!r}.", 2)
        values[key.strip()] = value.strip()
    state = cluster.up(brokers, base_port=base_port, zookeeper=zookeeper, config=values)
    took = time.monotonic() - begun
    controller = controller_id(state)
    if output is Format.json:
        print_json(report(state, controller))
        return
    _print_cluster(state, controller)
    print(f"ready in {took:.2f} s; bootstrap servers: {state.bootstrap}")


def _print_cluster(state: Any, controller: int | None) -> None:
    rows = []
    if state.coordinator is None:
        rows.append(["zookeeper", state.zookeeper, "-", "outside"])
    else:
        rows.append(["coordinator", state.zookeeper, state.coordinator.pid or "-", _word(state.coordinator)])
    for broker in state.brokers:
        word = _word(broker) + (", controller" if broker.id == controller else "")
        rows.append([f"broker {broker.id}", f"127.0.0.1:{broker.port}", broker.pid or "-", word])
    print_table(["process", "address", "pid", "state"], rows)


def _word(process: Any) -> str:
    return "running" if process.alive else "down"


@app.command()
def status(directory: Directory = ".barnabas", output: OutputFormat = Format.text) -> None:
    """Show a cluster's processes and its partitions' health; exit 1 when something is down or under-replicated."""
    from barnabas.cli.local import LocalCluster
    from barnabas.cli.status import examine

    examined = examine(LocalCluster(directory).loaded())
    if output is Format.json:
        print_json(examined.as_json())
    else:
        _print_cluster(examined.state, examined.controller)
        print(examined.sentence())
    if not examined.healthy:
        raise typer.Exit(1)


@app.command()
def down(
    directory: Directory = ".barnabas",
    kill: Annotated[bool, typer.Option("--kill", help="SIGKILL instead of a controlled shutdown.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Stop a cluster: a controlled shutdown of every broker, then the coordinator."""
    from barnabas.cli.local import LocalCluster

    stopped = LocalCluster(directory).down(kill=kill)
    if output is Format.json:
        print_json({"stopped": stopped})
    else:
        print(f"stopped {', '.join(stopped)}" if stopped else "nothing was running")


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def broker(arguments: Annotated[list[str] | None, typer.Argument(metavar="FILE.properties")] = None) -> None:
    """One broker in the foreground, by Kafka's server.properties."""
    from barnabas.cli.process import broker_main

    raise typer.Exit(broker_main(arguments or []))


@app.command(context_settings={"ignore_unknown_options": True, "help_option_names": []})
def coordinator(arguments: Annotated[list[str] | None, typer.Argument()] = None) -> None:
    """The embedded ZooKeeper-compatible server, in the foreground."""
    from barnabas.cli.process import coordinator_main

    raise typer.Exit(coordinator_main(arguments or []))


def run(arguments: list[str]) -> int:
    """One command, its trouble told in a sentence. Returns the exit code."""
    logging.basicConfig(
        stream=sys.stderr,
        level=logging.DEBUG if os.environ.get("BARNABAS_DEBUG") else logging.ERROR,
        format="barnabas: %(message)s",
    )
    try:
        outcome = typer.main.get_command(app).main(arguments, prog_name="barnabas", standalone_mode=False)
    except typer.Exit as error:
        return error.exit_code
    except UsageFault as error:
        if type(error).__name__ == "NoArgsIsHelpError":  # a noun without its verb: its help says which there are
            print(error.format_message(), file=sys.stderr)
            return 2
        where = error.ctx.command_path if error.ctx is not None else "barnabas"
        complain(f"{error.format_message().rstrip('.')}. See `{where} --help`.")
        return 2
    except (typer.Abort, KeyboardInterrupt):
        return 130
    except CommandError as error:
        complain(str(error))
        return error.exit_code
    except BrokenPipeError:
        # Whoever read our output has enough; the interpreter must not try to flush it once more.
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
        return 0
    except Exception as error:
        if os.environ.get("BARNABAS_DEBUG"):
            raise
        return _told(error)
    return outcome if isinstance(outcome, int) else 0


def _told(error: Exception) -> int:
    from barnabas.model.errors import ConfigError, KafkaError

    if isinstance(error, KafkaError):
        text = str(error)
        name = "" if error.code.name in text else f" ({error.code.name})"
        complain(f"{text.rstrip('.')}{name}.")
    elif isinstance(error, ConfigError):
        complain(str(error))
        return 2
    elif isinstance(error, OSError | ValueError) and type(error).__module__ != "builtins":
        complain(f"{str(error).rstrip('.')}.")  # WireError, ConnectionLost: their text is a sentence's beginning
    elif isinstance(error, OSError):
        complain(f"{error}.")
    else:
        complain(f"An unforeseen failure: {error!r}. Set BARNABAS_DEBUG=1 to see where.")
    return 1
