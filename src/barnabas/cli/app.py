"""The command line: every command is thin, what it does lives in the module that it imports when it runs."""

from __future__ import annotations

import importlib
import importlib.util
import logging
import os
import sys
from collections.abc import Callable
from typing import Annotated, Any, Final

import typer
from typer.core import TyperGroup

from barnabas.cli.cluster import PLAIN_COMMANDS
from barnabas.cli.output import CommandError, complain

_LATE: Final = {
    "bench": ("barnabas.cli.bench_commands", "app"),
    "demo": ("barnabas.cli.demo.main", "demo"),
    "sim": ("barnabas.cli.sim", "app"),
    "spark": ("barnabas.cli.spark", "app"),
    "topic": ("barnabas.cli.topic", "app"),
    "group": ("barnabas.cli.group", "app"),
    "config": ("barnabas.cli.config", "app"),
    "partition": ("barnabas.cli.partition", "app"),
    "reassign": ("barnabas.cli.reassign", "app"),
    "log": ("barnabas.cli.log", "app"),
    "zk": ("barnabas.cli.zk", "app"),
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
    "spark": "Jobs on topics, archives and log directories.",
    "topic": "Create, list, describe, alter and delete topics.",
    "group": "Consumer groups and how far they have read.",
    "config": "Configurations of topics and brokers.",
    "partition": "Leaders, replicas and elections of partitions.",
    "reassign": "Move partitions to other brokers.",
    "log": "A broker's files.",
    "zk": "The znodes: read, write, watch, move and check them.",
    "produce": "Write records, from lines of the standard input.",
    "consume": "Read records.",
    "broker": "One broker in the foreground, by Kafka's server.properties.",
    "coordinator": "The embedded ZooKeeper-compatible server, in the foreground.",
}


class _Commands(TyperGroup):
    """Imports a late command when it is wanted, and lists all with their one line of help."""

    def list_commands(self, ctx: Any) -> list[str]:
        late = [name for name, (module, _) in _LATE.items() if importlib.util.find_spec(module) is not None]
        return [*PLAIN_COMMANDS, *late]

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


@app.callback(invoke_without_command=True)
def _global(
    version: Annotated[bool, typer.Option("--version", help="Print the version and exit.")] = False,
) -> None:
    if version:
        from barnabas import __version__

        print(f"barnabas {__version__}")
        raise typer.Exit


def _plain(name: str, main: Callable[[list[str]], int]) -> None:
    """A command that parses its own words, so that it can start without this module."""

    def command(words: Annotated[list[str] | None, typer.Argument()] = None) -> None:
        raise typer.Exit(main(words or []))

    settings = {"ignore_unknown_options": True, "help_option_names": []}
    app.command(name, help=_HELP[name], context_settings=settings)(command)


for _name, _main in PLAIN_COMMANDS.items():
    _plain(_name, _main)


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
        # WireError, ConnectionLost: their text is a sentence's beginning. Some of others' have none: then their name.
        complain(f"{str(error).rstrip('.') or type(error).__name__}.")
    elif isinstance(error, OSError):
        complain(f"{error}.")
    else:
        complain(f"An unforeseen failure: {error!r}. Set BARNABAS_DEBUG=1 to see where.")
    return 1
