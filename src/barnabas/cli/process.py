"""``barnabas broker`` and ``barnabas coordinator``: one server in the foreground, stopped by SIGTERM, SIGINT or SIGHUP.

A server does not import rich, to start fast. A parent process that starts it in the background may pass it a pipe by
`READY_FD`. The server writes one line of JSON to the pipe: its addresses when it is ready, or ``{"error": ...}``.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import gc
import importlib
import json
import logging
import os
import signal
import sys
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from functools import partial
from typing import TYPE_CHECKING, Annotated, Any, Final

from barnabas.cli.command import Argument, Option
from barnabas.cli.log_format import JSON, TEXT, formatter, use
from barnabas.cli.options import directory_of, pairs_of
from barnabas.cli.output import complain, discard, reason
from barnabas.cli.plain import READY_FD, STATUS_FILE, is_no_file, kafka_opts
from barnabas.model.errors import ConfigError
from barnabas.runtime.started_process import PYTHON

if TYPE_CHECKING:
    from barnabas.broker.server import Broker
    from barnabas.model.config import Config
    from barnabas.runtime import Runtime, memory
    from barnabas.web.table import Table
    from barnabas.zk.server.config import CoordinatorConfig
    from barnabas.zk.server.server import CoordinatorServer

LogFormat = Annotated[
    str | None, Option("--log-format", choices=(TEXT, JSON), help="The log's format; by default lines of text.")
]
Story = Callable[["asyncio.Future[Any]", Callable[[dict[str, Any]], None]], Coroutine[Any, Any, None]]


STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)
OTEL_INTERVAL_MS: Final = 60_000
"""OpenTelemetry's default for ``OTEL_METRIC_EXPORT_INTERVAL``."""
SAME_WISH_S: Final = 0.5
"""Signals this soon after the first count as one: ``timeout`` signals its child, and then the child's group."""


class ServerError(Exception):
    """The reason why a server did not start or go on, as one sentence for its user."""


def read_properties(path: str, overrides: Sequence[str]) -> dict[str, str]:
    """A ``server.properties``, with ``key=value`` pairs that override it. Raises `ServerError` or `UsageError`."""
    from barnabas.model.config import parse_properties

    try:
        with open(path, encoding="utf-8") as file:
            values = parse_properties(file.read())
    except OSError as error:
        raise ServerError(
            f"The configuration file {path} cannot be read ({os.strerror(error.errno or 0)}): name a server.properties."
        ) from None
    except UnicodeDecodeError:
        raise ServerError(f"The configuration file {path} is not UTF-8 text: name a server.properties.") from None
    return {**values, **pairs_of(overrides, "--override")}


def _with_jvm_properties(values: dict[str, str]) -> dict[str, str]:
    """The properties with the additions of ``KAFKA_OPTS`` and of a JAAS file."""
    from barnabas.model.config import JAAS_FILE

    options = kafka_opts()
    if not options and JAAS_FILE not in values:
        return values
    from barnabas.broker.jvm_properties import with_jvm_properties

    def read(path: str) -> str:
        with open(path, encoding="utf-8") as file:
            return file.read()

    return with_jvm_properties(values, options, read)


def broker(
    file: Annotated[str, Argument(metavar="FILE.properties", help="Kafka's server.properties.")],
    override: Annotated[
        list[str] | None, Option("--override", metavar="K=V", help="Override a property of the file; may be repeated.")
    ] = None,
    coordinator: Annotated[
        str | None,
        Option(
            "--coordinator",
            metavar="D",
            help="Also run the coordinator in this process, at zookeeper.connect's address, with its znodes under D.",
        ),
    ] = None,
    status: Annotated[
        str | None, Option("--status", metavar="FILE", help="Keep the broker's status in this file, as JSON.")
    ] = None,
    log_format: LogFormat = None,
) -> int:
    """Run one broker in the foreground, configured by Kafka's server.properties."""
    if log_format is not None:
        override = [*(override or ()), f"barnabas.log.format={log_format}"]

    def story() -> Story:
        from barnabas.runtime.compiled import take_compiled

        take_compiled()
        from barnabas.model.config import broker_config

        config = broker_config(_with_jvm_properties(read_properties(file, override or ())))
        from barnabas.broker.process import run_broker
        from barnabas.runtime.real import real_runtime

        use(config.text("barnabas.log.format"))
        if config.text("barnabas.state.change.log"):
            _keep_state_changes(config.text("barnabas.state.change.log"), config.text("barnabas.log.format"))
        told: dict[str, Any] = {"host_name": os.uname().nodename, "beside": _beside(config)}
        if status is not None:
            told["on_status"] = lambda said: _write_status(status, said)

        async def run(stop: asyncio.Future[Any], on_ready: Callable[[dict[str, Any]], None]) -> None:
            runtime = real_runtime()
            if coordinator is None:
                await run_broker(runtime, config, stop, on_ready=on_ready, **told)
                return
            host, port = _own_address(config.text("zookeeper.connect"))
            inside = await _coordinator(runtime, host, port, coordinator, stop)
            try:
                await run_broker(runtime, config, stop, on_ready=on_ready, **told)
            finally:
                await inside.close()

        return run

    return _serve(story)


def _keep_state_changes(path: str, log_format: str) -> None:
    """Kafka's ``state-change.log``: a separate file, of at most 100 MB in ten old parts besides the current one."""
    from logging.handlers import RotatingFileHandler

    try:
        handler = RotatingFileHandler(path, maxBytes=10_000_000, backupCount=10, encoding="utf-8")
    except OSError as error:
        raise ConfigError(f"barnabas.state.change.log {path} cannot be written ({error.strerror}).") from None
    handler.setFormatter(formatter(log_format))
    state_changes = logging.getLogger("state.change")
    state_changes.addHandler(handler)
    state_changes.propagate = False


def _beside(config: Config) -> Callable[[Broker], Awaitable[Callable[[], None]]] | None:
    """Returns a function that starts the admin endpoint and OpenTelemetry's export beside a broker; that function
    returns one that ends them. None if the configuration asks for neither."""
    listener, endpoint = config.text("barnabas.admin.listener"), config.text("barnabas.opentelemetry.endpoint")
    sends = bool(endpoint) or os.environ.get("OTEL_METRICS_EXPORTER") == "otlp"
    if not listener and not sends:
        return None
    from barnabas.web.endpoint import AdminEndpoint, address_of
    from barnabas.web.table import Table

    address = address_of(listener) if listener else None
    begin_sending = _otlp(endpoint) if sends else None

    async def begin(broker: Broker) -> Callable[[], None]:
        ends: list[Callable[[], None]] = []
        table = Table()
        table.start(broker)
        if address is not None:
            admin = AdminEndpoint(broker, table)
            await admin.start(*address)
            ends.append(admin.close)
        if begin_sending is not None:
            ends.append(begin_sending(broker, table))
        ends.append(table.stop)

        def end() -> None:
            for close in ends:
                close()

        return end

    return begin


def _otlp(endpoint: str) -> Callable[[Broker, Table], Callable[[], None]]:
    """Returns a function that starts to send metrics by OTLP; that function returns one that ends it. `endpoint` may be
    empty."""
    try:
        from barnabas.web.otlp import OtlpSender, url_of
    except ModuleNotFoundError as error:
        if error.name is None or not error.name.startswith("opentelemetry"):
            raise
        raise ConfigError(
            "OpenTelemetry is to send the metrics (barnabas.opentelemetry.endpoint or OTEL_METRICS_EXPORTER=otlp), "
            "and it is not installed: pip install 'barnabas[otel]'."
        ) from None
    if endpoint:
        url_of(endpoint)
    text = os.environ.get("OTEL_METRIC_EXPORT_INTERVAL", "") or str(OTEL_INTERVAL_MS)
    if not text.isdigit() or not int(text):
        raise ConfigError(f"OTEL_METRIC_EXPORT_INTERVAL={text} must be a number of milliseconds, whole and above 0.")

    def begin(broker: Broker, table: Table) -> Callable[[], None]:
        sender = OtlpSender(broker, table, endpoint, int(text) / 1000)
        sender.start()
        return sender.close

    return begin


def brokers_main(arguments: list[str]) -> int:
    """``barnabas brokers FD LOG FILE ..``, which `up` uses: imports everything once, then forks each broker's process.

    If three brokers start by themselves, they import the same modules three times, which is most of their start. This
    process prints the brokers' pids and ends at once; the brokers go on.
    """
    from barnabas.runtime.compiled import take_compiled

    words = iter(arguments)
    started = list(zip(words, words, words, strict=True))
    take_compiled()
    for module in ("barnabas.runtime.real", "barnabas.broker.process"):
        importlib.import_module(module)
    from barnabas.broker.router import Router
    from barnabas.runtime.event_loop import fastest_loop

    fastest_loop()
    Router()  # imports every handler
    gc.collect()
    gc.freeze()
    pids: list[int] = []
    for descriptor, log, file in started:
        pid = os.fork()
        if pid == 0:
            return _forked_broker(descriptor, log, file, [other for other, _, _ in started if other != descriptor])
        pids.append(pid)
    print(json.dumps(pids), flush=True)
    return 0


def _forked_broker(descriptor: str, log: str, file: str, others: list[str]) -> int:
    """Runs in the forked process as ``barnabas broker FILE``, with a session, a log and a process name of its own."""
    os.setsid()
    for other in others:
        os.close(int(other))
    output = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
    os.dup2(output, 1)
    os.dup2(output, 2)
    os.close(output)
    os.environ[READY_FD] = descriptor
    _retitle([*PYTHON, "-m", "barnabas", "broker", file])
    return broker(file, status=os.path.join(os.path.dirname(file), STATUS_FILE))


def _write_status(path: str, status: dict[str, Any]) -> None:
    """Writes the status file without syncing it: it has no use after a crash."""
    try:
        path = os.path.realpath(path)  # a link stays a link
        in_place = is_no_file(path)
        with open(path if in_place else f"{path}.tmp", "w", encoding="utf-8") as file:
            json.dump({"pid": os.getpid(), **status}, file)
        if not in_place:
            os.replace(f"{path}.tmp", path)
    except OSError as error:
        logging.getLogger(__name__).warning("the status file cannot be written: %s", error)


def _retitle(words: list[str]) -> None:
    """Overwrites the command line of this process, if the kernel tells its place in memory."""
    title = b"\0".join(word.encode() for word in words) + b"\0"
    try:
        with open("/proc/self/stat") as stat:
            fields = stat.read().rpartition(")")[2].split()
        start, end = map(int, fields[45:47])  # arg_start and arg_end in proc_pid_stat(5)
        if len(title) > end - start:
            return
        with open("/proc/self/mem", "r+b", buffering=0) as memory:
            memory.seek(start)
            memory.write(title.ljust(end - start, b"\0"))
    except (OSError, IndexError, ValueError) as error:
        logging.getLogger(__name__).debug("the process keeps its name: %s", error)


def coordinator(
    host: Annotated[str, Option("--host", metavar="HOST", help="The address to bind.")] = "127.0.0.1",
    port: Annotated[int, Option("--port", metavar="P", min=0, max=65535, help="The port; 0 takes a free one.")] = 2181,
    directory: Annotated[
        str | None,
        Option(
            "--dir",
            metavar="D",
            help="The directory of the znodes: by default BARNABAS_DIR/coordinator, or ./.barnabas/..",
        ),
    ] = None,
    no_fsync: Annotated[
        bool, Option("--no-fsync", help="Do not sync writes: faster, but a power loss may lose the last changes.")
    ] = False,
    tls_only: Annotated[bool, Option("--tls-only", help="Listen only on secureClientPort, not on --port.")] = False,
    config: Annotated[
        list[str] | None, Option("--config", metavar="K=V", help="A key of ZooKeeper's zoo.cfg, such as tickTime.")
    ] = None,
    log_format: LogFormat = None,
) -> int:
    """Run the embedded ZooKeeper-compatible server in the foreground."""
    properties = pairs_of(config or (), "--config")
    place = directory or os.path.join(directory_of(None), "coordinator")

    def story() -> Story:
        from barnabas.runtime.real import real_runtime
        from barnabas.zk.server.config import coordinator_config

        config = coordinator_config(properties)
        if tls_only and not config.key_store:
            raise ConfigError("--tls-only needs --config secureClientPort=P and --config ssl.keyStore.location=FILE.")

        async def run(stop: asyncio.Future[Any], on_ready: Callable[[dict[str, Any]], None]) -> None:
            server = await _coordinator(
                *(real_runtime(), host, None if tls_only else port, place, stop),
                fsync=not no_fsync,
                config=config,
            )
            notice = {"host": host, "port": server.port, "dir": server.data_dir}
            on_ready(notice | ({"secure_port": server.secure_port} if config.key_store else {}))
            try:
                await stop
            finally:
                await server.close()

        return run

    return _serve(story, log_format or TEXT)


async def _coordinator(
    runtime: Runtime,
    host: str,
    port: int | None,
    directory: str,
    stop: asyncio.Future[Any],
    *,
    fsync: bool = True,
    config: CoordinatorConfig | None = None,
) -> CoordinatorServer:
    """Starts a coordinator that listens. If its disk fails later, `stop` gets the exception."""
    from barnabas.zk.server.server import CoordinatorServer

    place = _made(directory)

    def failed(error: BaseException) -> None:
        if not stop.done():
            stop.set_exception(ServerError(f"The coordinator cannot go on, its disk failed: {error}."))

    server = CoordinatorServer(
        runtime, host=host, port=port, data_dir=place, fsync=fsync, config=config, on_failure=failed
    )
    try:
        await server.start()
    except OSError as error:
        raise _explained(error, f"{host}:{server.secure_port if port is None else port}") from error
    return server


def _made(directory: str) -> str:
    """Makes the directory if it is missing, and returns its absolute path."""
    place = os.path.abspath(directory)
    try:
        os.makedirs(place, mode=0o700, exist_ok=True)
    except OSError as error:
        raise _explained(error, place) from error
    return place


def _own_address(connect: str) -> tuple[str, int]:
    """The address for a coordinator in this process. `connect` must name it alone. Raises `ServerError`."""
    from barnabas.zk.client.connect_string import parse_connect

    hosts, _ = parse_connect(connect)
    if len(hosts) != 1:
        raise ServerError(
            f"zookeeper.connect={connect} names {len(hosts)} servers, but --coordinator starts one: "
            "leave --coordinator out, or name one host:port."
        )
    return hosts[0]


def _explained(error: OSError, where: str) -> Exception:
    if error.errno == errno.EADDRINUSE:
        return ServerError(f"{where} is in use by another process: choose another port or stop that process.")
    if error.errno == errno.EACCES:
        return ServerError(f"Permission denied for {error.filename or where}: choose a place you may write to.")
    return error


def _allow_many_files() -> None:
    """Raises the limit of open files: connections and segments soon use up the default of 1,024. Raises `ServerError`
    if the limit stays too low."""
    from barnabas.runtime import descriptors

    before, now = descriptors.raise_limit()
    if descriptors.limit() < descriptors.FEWEST:
        needed = f"a server needs at least {descriptors.FEWEST}"
        raise ServerError(f"This process may have {now} files open, and {needed}: raise `ulimit -n`.")
    descriptors.hold_spares()
    logging.getLogger(__name__).info(
        "this process may have %d files open%s; %d of them are kept from connections",
        now,
        "" if now == before else f", the limit was {before}",
        descriptors.reserve(),
    )


def _serve(prepare: Callable[[], Story], log_format: str = TEXT) -> int:
    from barnabas.runtime.memory import heap
    from barnabas.wire.kernel import kernel

    # Before anything else, so that as many objects as possible lie in slabs.
    known_heap = heap(None if kernel is None else kernel.slabs)
    logging.basicConfig(stream=sys.stderr, level=logging.INFO)
    use(log_format)
    try:
        story = prepare()
        _allow_many_files()
        from barnabas.runtime.event_loop import fastest_loop

        # Objects made so far live as long as the process: the collector need not look at them again.
        gc.collect()
        gc.freeze()
        # Later objects (partitions, requests about thousands of them) rarely form cycles either. With Python's own
        # thresholds (700 new objects for a young collection, 70,000 for a full one) the collector stopped a broker of
        # 5,000 partitions for 0.3 s again and again.
        gc.set_threshold(20_000, 10, 10)
        gc.enable()
        with asyncio.Runner(loop_factory=fastest_loop()) as runner:
            runner.run(_until_signalled(story, known_heap))
    except (ServerError, ConfigError) as error:
        return _failed(str(error))
    except OSError as error:
        return _failed(f"{reason(error)}.")
    except Exception as error:
        if type(error).__module__.startswith("barnabas."):
            return _failed(str(error))
        logging.getLogger(__name__).exception("the server failed")
        return _failed(f"The server failed with an unexpected error ({error!r}); the log above has the trace.")
    return 0


async def _until_signalled(story: Story, heap: memory.Heap | None) -> None:
    loop = asyncio.get_running_loop()
    stop: asyncio.Future[Any] = loop.create_future()

    def ask_to_stop(name: str) -> None:
        if stop.done():
            return
        logging.getLogger(__name__).info("told to stop by %s; a second signal ends this process at once", name)
        stop.set_result(None)
        loop.call_later(SAME_WISH_S, _let_the_next_signal_end_this, loop, heard)

    # With nohup a server outlives its terminal.
    heard = [each for each in STOP_SIGNALS if each != signal.SIGHUP or signal.getsignal(each) != signal.SIG_IGN]
    for number in heard:
        loop.add_signal_handler(number, ask_to_stop, number.name)
    from barnabas.runtime import Tasks
    from barnabas.runtime.memory import give_memory_back

    tasks = Tasks(
        lambda name, error: None
    )  # if it fails, the log has the error; the server goes on and only needs more memory
    if heap is not None:
        tasks.begin(give_memory_back(heap), "memory")

    try:
        await story(stop, partial(_ready, stop))
    finally:
        await tasks.end()


def _let_the_next_signal_end_this(loop: asyncio.AbstractEventLoop, heard: Sequence[signal.Signals]) -> None:
    """The next signal ends the process at once, as a crash would, even if the orderly shutdown still waits."""
    for number in heard:
        loop.remove_signal_handler(number)
        signal.signal(number, signal.SIG_DFL)


def _ready(stop: asyncio.Future[Any], notice: dict[str, Any]) -> None:
    log = logging.getLogger(__name__)
    try:
        told = _tell(notice)
    except BrokenPipeError:
        log.warning("the server stops: the process that started it ended before the server was ready")
        if not stop.done():
            stop.set_result(None)
        return
    if told:
        return
    try:
        print(json.dumps(notice), flush=True)
    except OSError as error:
        log.warning("the standard output cannot be written: %s", error.strerror)
        discard(sys.stdout)  # the server needs no output


def _failed(sentence: str) -> int:
    with contextlib.suppress(BrokenPipeError):
        _tell({"error": sentence})  # first, for on a full disk the log cannot be written
    complain(sentence)
    return 1


def _tell(notice: dict[str, Any]) -> bool:
    """Writes to the pipe of the process that started this server; False if there is none."""
    descriptor = os.environ.pop(READY_FD, None)
    if descriptor is None:
        return False
    with os.fdopen(int(descriptor), "w") as pipe:
        pipe.write(json.dumps(notice) + "\n")
    return True
