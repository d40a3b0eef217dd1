"""The command line: its commands, and how their failures are reported.

Every command is thin, and its module is imported only when the command runs: so `up` and the servers start fast.
"""

from __future__ import annotations

import errno
import gc
import io
import os
import sys
from collections.abc import Iterator, Sequence
from typing import Final

from barnabas.cli.command import Command, CommandGroup, Late, RawCommand
from barnabas.cli.output import CommandError, Exit, UsageError, complain, discard, reason

SERVERS: Final = ("broker", "coordinator")
"""These commands set up the garbage collector and logging themselves."""
UNLOGGED: Final = ("up", "status", "down")
"""These commands log nothing. Without the import of ``logging`` they start in five sixths of the time."""


KAFKA_TOOL: Final = "Kafka's own tool of this name: its flags, its output."


class _Root(CommandGroup):
    """All commands and Kafka's tools; the help does not list the tools."""

    def find(self, name: str) -> Command | CommandGroup | None:
        if name.startswith("kafka-"):
            from barnabas.cli.kafka_tools.names import is_kafka_tool, run_kafka_tool

            if is_kafka_tool(name):
                return RawCommand(lambda words: run_kafka_tool(name, words), KAFKA_TOOL)
        return super().find(name)

    def completions(self) -> Iterator[tuple[str, str]]:
        from barnabas.cli.kafka_tools.names import TOOLS

        yield from super().completions()
        yield from ((name, KAFKA_TOOL) for name in TOOLS)

    def options(self) -> list[tuple[str, str]]:
        return [("-V, --version", "Print the version and exit.")]

    def run(self, path: str, words: Sequence[str]) -> int:
        if words and words[0] in ("-V", "--version"):
            from barnabas import __version__

            print(f"barnabas {__version__}")
            return 0
        return super().run(path, words)


ROOT: Final = _Root(
    "Kafka's replicated cluster: brokers, controller, ZooKeeper coordination.\n\n"
    "Commands find the cluster of ./.barnabas, of BARNABAS_DIR or --dir, or the brokers of BARNABAS_BOOTSTRAP or -b. "
    "Kafka's own tools are here by their names: barnabas kafka-topics and the others."
)
for _name, _place, _help in (
    ("up", "cluster:up", "Start a cluster in the background; return when every broker answers."),
    ("status", "cluster:status", "Show a cluster's processes and its partitions' health."),
    ("down", "cluster:down", "Stop a cluster by a controlled shutdown."),
    ("topic", "topic:app", "Topics, their partitions' offsets, and deleting records."),
    ("produce", "records:produce", "Write records, from lines of the standard input."),
    ("consume", "records:consume", "Read records."),
    ("group", "group:app", "Consumer groups: their members, their lag, and resetting their offsets."),
    ("transaction", "transaction:app", "Transactions: list open and hanging ones, and end them."),
    ("user", "user:app", "Users who log in by SCRAM."),
    ("token", "token:app", "Delegation tokens: create, renew and expire them."),
    ("config", "config:app", "Configurations of topics and brokers."),
    ("acl", "acl:app", "Access control lists (ACLs): which user may do what."),
    ("quota", "quota:app", "Quotas: limits on what clients may send and ask for."),
    ("partition", "partition:app", "Leaders, replicas and elections of partitions."),
    ("reassign", "reassign:app", "Move partitions to other brokers."),
    ("log", "log:app", "Brokers' files and log directories."),
    ("metrics", "metrics:metrics", "The brokers' metrics, in Prometheus's text format."),
    ("cluster", "cluster_info:app", "The cluster as a whole."),
    ("api-versions", "cluster_info:api_versions", "Which requests brokers answer, in which versions."),
    ("features", "cluster_info:features", "The features that brokers support, and their levels."),
    ("perf", "perf:app", "Measure how fast clients write to the cluster and read from it."),
    ("zk", "zk:app", "The znodes in ZooKeeper: read, write, watch, move and check them."),
    ("rehearse", "rehearse:rehearse_", "Try a fault or an operation on a copy of the znodes, and show its effect."),
    ("sim", "sim:app", "The simulated cluster."),
    ("spark", "spark:app", "Jobs on topics, archives and log directories."),
    ("judge", "judge:app", "Check whether a cluster kept its promises, by what its clients saw."),
    ("bench", "bench:app", "Measure Barnabas and Apache Kafka side by side, in one run."),
    ("demo", "demo.main:demo", "Real records through brokers that are killed, into Spark; then an audit."),
    ("broker", "process:broker", "Run one broker in the foreground, configured by Kafka's server.properties."),
    ("coordinator", "process:coordinator", "Run the embedded ZooKeeper-compatible server in the foreground."),
    ("completion", "completion:completion", "Print the script by which a shell completes these commands."),
):
    ROOT.add(_name, Late(f"barnabas.cli.{_place}", _help))

HIDDEN: Final = {
    "brokers": Late("barnabas.cli.process:brokers_main", "What `up` calls.", raw=True),
    "__complete": Late("barnabas.cli.completion:answer", "What shells call.", raw=True),
}


def run(arguments: Sequence[str]) -> int:
    """Runs one command and reports its failure in a sentence. Returns the exit code."""
    debug = bool(os.environ.get("BARNABAS_DEBUG"))
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            stream.reconfigure(errors="backslashreplace")  # a group's name may have letters that the locale lacks
    failure = None
    try:
        _check_words(arguments)
        if arguments and arguments[0] in HIDDEN:
            return HIDDEN[arguments[0]].load().run("barnabas", arguments[1:])
        if not arguments or arguments[0] not in SERVERS:
            gc.enable()
            if debug or not arguments or arguments[0] not in UNLOGGED:
                _log_to_stderr(debug)
        code = ROOT.run("barnabas", arguments)
    except Exit as exit:
        code = exit.exit_code
    except KeyboardInterrupt:
        return 130
    except CommandError as error:
        code, failure = error.exit_code, error
    except BrokenPipeError:
        code = 0  # the reader of our output, such as `head`, has closed the pipe
    except Exception as error:
        if debug:
            raise
        failure = told(error)
        code = failure.exit_code
    return _ended(code, failure)


def _ended(code: int, failure: CommandError | None) -> int:
    """Flushes the standard output, then reports the failure on the standard error. Returns the exit code."""
    try:
        sys.stdout.flush()
    except OSError as error:
        discard(sys.stdout)
        if not isinstance(error, BrokenPipeError):
            code, failure = 1, CommandError(f"The standard output cannot be written ({error.strerror}).")
    if failure is not None:
        complain(str(failure))
    return code


def _check_words(words: Sequence[str]) -> None:
    for word in words:
        try:
            word.encode()
        except UnicodeEncodeError:  # Python keeps bytes that it could not decode as surrogates
            raise UsageError(f"{word!r} is not valid {sys.getfilesystemencoding()}.") from None


def _log_to_stderr(debug: bool) -> None:
    import logging

    level = logging.DEBUG if debug else logging.ERROR
    logging.basicConfig(stream=sys.stderr, level=level, format="barnabas: %(message)s")


def told(error: Exception) -> CommandError:
    """An error as a sentence, with the exit code."""
    from barnabas.model.errors import ConfigError, KafkaError

    if isinstance(error, KafkaError):
        text = str(error)
        name = "" if error.code.name in text else f" ({error.code.name})"
        return CommandError(f"{text.rstrip('.')}{name}.")
    if isinstance(error, ConfigError):
        return CommandError(str(error), 2)
    if isinstance(error, OSError | ValueError) and type(error).__module__ != "builtins":
        # The text of WireError and ConnectionLost is a sentence. Another library's error may have no text: its name is
        # shown.
        return CommandError(f"{str(error).rstrip('.') or type(error).__name__}.")
    if isinstance(error, OSError):
        if error.errno == errno.EBADF:
            return CommandError("The standard input or the standard output is closed.")
        return CommandError(f"{reason(error)}.")
    return CommandError(f"Unexpected failure: {error!r}. Set BARNABAS_DEBUG=1 to see where.")
