"""One run: topics, clients, a nemesis, and at the end a scan of everything, which together make a history."""

from __future__ import annotations

import asyncio
import signal
import threading
import time
from collections.abc import Callable, Coroutine, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field, replace
from functools import partial
from types import FrameType
from typing import Any, Final

from barnabas.client import KafkaError, NewTopic, TopicPartition, connect
from barnabas.client.offsets import EARLIEST
from barnabas.judge import bank, librdkafka, librdkafka_bank, librdkafka_copier, workload
from barnabas.judge.at_work import ClientsAtWork
from barnabas.judge.client_config import FILES, encrypted, of_librdkafka
from barnabas.judge.clusters import PATIENCE_S, Brokers, JudgedClusterError
from barnabas.judge.coordination import PREFIX as ZK_PREFIX
from barnabas.judge.coordinators_log import coordinators_log
from barnabas.judge.drivers import clients as driven
from barnabas.judge.drivers.copier import copy
from barnabas.judge.drivers.process import Driver, DriverError
from barnabas.judge.drivers.programs import PROGRAMS, DriverUnavailable
from barnabas.judge.endings import may_forget
from barnabas.judge.following import follow
from barnabas.judge.forgotten import written_over
from barnabas.judge.history import APACHE_VERSION, BEFORE_KIP_890, Client, OperationHistory
from barnabas.judge.journal import Notes
from barnabas.judge.loading import loading_for_good
from barnabas.judge.merged import note_merged
from barnabas.judge.nemesis import HELD_S, REST_S, JudgeNemesis
from barnabas.judge.peers import PREFIX
from barnabas.judge.proxy import NETWORK_FAULTS, Address, Proxy
from barnabas.judge.scan import ask_groups, scan, wait_until_settled
from barnabas.judge.workload import Work
from barnabas.judge.workloads import BANK, COMPACTION, DELETION, LIST_APPEND, REGISTERS, WORKLOADS
from barnabas.model.errors import ConfigError, ErrorCode

DRIVERS: Final = (workload.OURS, librdkafka.THEIRS, *PROGRAMS)
LATE_S: Final = 180
"""How long clients may take to end once they are told to: each of their requests has its own timeout."""


class RunError(Exception):
    """The run gave no usable history."""


@dataclass
class RunPlan:
    """The plan of a run: its faults, its duration, and the number of clients of each kind and driver."""

    bootstrap: str
    minutes: float
    faults: Sequence[str] = ()
    brokers: Brokers | None = None
    peers: Proxy | None = None
    """The proxy between the brokers, for `PEER_FAULTS`."""
    zookeeper: Proxy | None = None
    """The proxy between the brokers and ZooKeeper, for `ZOOKEEPER_FAULTS`."""
    acks: str = "all"
    unclean: bool = False
    """Whether unclean leader election is allowed."""
    partitions: int = 4
    clients: int = 2
    drivers: Sequence[str] = (workload.OURS, librdkafka.THEIRS)
    """Some of `DRIVERS`."""
    programs: Sequence[Driver] = ()
    """The drivers that are programs, started."""
    workloads: Sequence[str] = tuple(WORKLOADS)
    config: Mapping[str, str] = field(default_factory=dict)
    """The properties that secure the clients' connections, by Kafka's names."""
    pause_s: float = 0.1
    seed: int = 0
    told: Callable[[str], None] = field(default=lambda line: None)
    aim: Callable[[str], int] | None = None
    """Chooses the broker for the next fault of processes of this name; None: a random one."""
    held_s: tuple[float, float] = HELD_S
    """The shortest and longest duration of a fault, in seconds."""
    rest_s: tuple[float, float] = REST_S
    """The shortest and longest rest after a fault, in seconds."""
    start_s: float = PATIENCE_S
    """How long a broker that ends during its start is started again."""
    apache_version: str = ""
    """The brokers' version of Apache Kafka, if it is known."""


@dataclass
class RunOutcome:
    history: OperationHistory
    struck: dict[str, int]
    met: dict[str, int]
    """The number of frames affected by each fault of the network."""
    unsettled: Sequence[str]
    """The partitions that were not settled before the scan."""
    kept_back: Sequence[str]
    """The groups whose offsets a transaction held back all that time."""
    disobeyed: str = ""
    """The order that the cluster did not carry out, which ended the faults and the clients' time early."""

    def told(self) -> Iterator[str]:
        """The faults, and how the run ended."""
        yield f"faults: {', '.join(f'{name} {count}' for name, count in self.struck.items()) or 'none'}"
        if self.disobeyed:
            yield f"the faults ended before their time: {self.disobeyed}"
        if self.met:
            yield f"frames that they affected: {', '.join(f'{name} {count}' for name, count in self.met.items())}"
        if self.unsettled:
            named = ", ".join(self.unsettled)
            yield f"these partitions had open transactions, or did not answer, for two minutes: {named}"
        if self.kept_back:
            yield f"a transaction held back the offsets of these groups for two minutes: {', '.join(self.kept_back)}"


def run(plan: RunPlan) -> RunOutcome:
    """Runs the plan. Raises `RunError`, and a client's error if no broker answers."""
    if librdkafka.THEIRS in plan.drivers:
        try:
            of_librdkafka(plan.config)
        except ConfigError as error:
            raise RunError(f"without librdkafka (--driver): {error}") from None
    if encrypted(plan.config) and set(plan.faults) & set(NETWORK_FAULTS):
        raise RunError(
            "faults of the clients' network need clients without TLS: the proxy cannot read encrypted requests"
        )
    name = f"judge-{time.time_ns() // 1_000_000:x}"
    topics, facts, addresses = asyncio.run(_prepare(plan, name))
    if plan.apache_version:
        facts[APACHE_VERSION] = plan.apache_version
    notes = Notes(topics, facts)
    stop = threading.Event()
    proxy = Proxy(addresses, plan.seed) if set(plan.faults) & set(NETWORK_FAULTS) else None
    work = Work(
        plan.bootstrap if proxy is None else proxy.bootstrap,
        notes, dict(zip(plan.workloads, topics, strict=True)), plan.partitions, plan.acks, plan.pause_s, stop.is_set,
        plan.config,
    )  # fmt: skip
    journal = notes.journal(Client("nemesis"))
    nemesis = JudgeNemesis(
        plan.faults, plan.brokers, proxy, journal, plan.seed, plan.peers, plan.aim, plan.held_s, plan.rest_s,
        partial(_elect, plan), plan.zookeeper, plan.start_s,
    )  # fmt: skip
    plan.told(f"{plan.minutes:g} minutes, topics {', '.join(topics)}, {facts}")
    try:
        disobeyed = _strive(plan, work, name, nemesis, stop)
    finally:
        if proxy is not None:
            proxy.close()
            nemesis.note_held()
            notes.facts[BEFORE_KIP_890] = ",".join(sorted(proxy.before_kip_890))
    plan.told("the clients have ended; waiting for open transactions, then reading everything")
    work.bootstrap = plan.bootstrap
    unsettled = asyncio.run(wait_until_settled(work))
    kept_back = asyncio.run(ask_groups(work))
    asyncio.run(_scan(work, may_forget(plan.apache_version)))
    met = {
        prefix + fault: count
        for prefix, proxied in (("", proxy), (PREFIX, plan.peers), (ZK_PREFIX, plan.zookeeper))
        if proxied is not None
        for fault, count in proxied.struck.items()
        if count
    }
    return RunOutcome(notes.history(), nemesis.struck, met, unsettled, kept_back, disobeyed)


async def _scan(work: Work, coordinators_may_forget: bool) -> None:
    """The scan. If coordinators may forget transactions, also reads their log and their answers about open ones."""
    if not coordinators_may_forget:
        await scan(work)
        return
    log = await coordinators_log(work)
    note_merged(work, log)
    forgotten = {producer_id for written in log.values() for producer_id in written_over(written)}
    await scan(work, forgotten, await loading_for_good(work, log))


def _strive(plan: RunPlan, work: Work, name: str, nemesis: JudgeNemesis, stop: threading.Event) -> str:
    """Runs the nemesis. Returns the order that the cluster did not carry out, if any; the history up to then counts all
    the same."""
    disobeyed = ""
    at_work = ClientsAtWork(stop)
    for task in _clients(plan, work, name, at_work):
        at_work.begin(_name_of(task), task)
    try:
        with _interruptible(stop, plan.told):
            _last(plan, nemesis, stop, time.monotonic() + 60 * plan.minutes)
    except JudgedClusterError as error:
        disobeyed = str(error)
        plan.told(f"the faults end here, and the history up to now is judged: {disobeyed}")
    finally:
        stop.set()
        late = at_work.late(LATE_S)
    if at_work.trouble:
        first = at_work.trouble[0]
        raise RunError(f"a client failed by an error that is not the broker's: {first!r}") from first
    if late:
        raise RunError(f"these clients did not end within {LATE_S / 60:g} minutes: {', '.join(late)}")
    return disobeyed


@contextmanager
def _interruptible(stop: threading.Event, told: Callable[[str], None]) -> Iterator[None]:
    """Ctrl-C ends the clients' time early, and the history up to then is judged; a second Ctrl-C ends the run."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.getsignal(signal.SIGINT)

    def end() -> None:
        told("interrupted: the history up to now is judged; a second Ctrl-C ends the run without a verdict")
        stop.set()

    def interrupted(number: int, frame: FrameType | None) -> None:
        signal.signal(signal.SIGINT, before)
        # In a thread of its own: this one may hold the event's lock at this very moment.
        threading.Thread(target=end).start()

    signal.signal(signal.SIGINT, interrupted)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


def _last(plan: RunPlan, nemesis: JudgeNemesis, stop: threading.Event, ends: float) -> None:
    """Waits for the run's duration. The last fault is healed before its end, so that clients see a healthy cluster
    again."""
    calm = ends - min(15.0, 15.0 * plan.minutes)

    def wait(seconds: float) -> bool:
        stop.wait(max(0.0, min(seconds, calm - time.monotonic())))
        return not stop.is_set() and time.monotonic() < calm

    if plan.faults:
        nemesis.run(wait)
    stop.wait(max(0.0, ends - time.monotonic()))


def _name_of(task: Callable[[], None]) -> str:
    """A thread with a single client has the client's name; our clients share one thread."""
    if not isinstance(task, partial):
        return workload.OURS
    return next((word for word in (*task.args, *task.keywords.values()) if isinstance(word, str)), workload.OURS)


def _clients(plan: RunPlan, work: Work, name: str, at_work: ClientsAtWork) -> list[Callable[[], None]]:
    """Starts one thread for all of our clients, and one for each of the others. One client always asks for
    watermarks."""

    tasks: list[Callable[[], None]] = []
    if workload.OURS in plan.drivers:
        tasks.append(lambda: asyncio.run(at_work.together(_ours(plan, work, name))))
    else:
        tasks.append(lambda: asyncio.run(workload.observe(work, "observer")))
    if librdkafka.THEIRS in plan.drivers:
        made = librdkafka.write, librdkafka.transact, librdkafka.consume
        tasks += _in_threads(plan, work, name, "rd", *made)
        for wanted in (COMPACTION, DELETION):
            if wanted in work.topics:
                tasks.append(partial(librdkafka.write, work, f"rd-{wanted}-writer", wanted))
        if {COMPACTION, DELETION} & set(work.topics):
            # Without a proxy: the faults of the clients' network would delay its reads.
            beside = replace(work, bootstrap=plan.bootstrap)
            tasks.append(partial(_follow, beside, "follower"))
        if DELETION in work.topics:
            tasks.append(partial(librdkafka.delete, work, "rd-deleter"))
        if LIST_APPEND in work.topics:
            tasks.append(partial(librdkafka_copier.copy, work, f"{name}-rd-copier", f"{name}-rd-copiers"))
        if BANK in work.topics:
            tellers = ((f"{name}-rd-teller-{number}", plan.clients + number) for number in range(plan.clients))
            tasks += [partial(librdkafka_bank.tell, work, *who) for who in tellers]
    for driver in plan.programs:
        kinds = (partial(kind, driver=driver) for kind in (driven.write, driven.transact, driven.consume))
        tasks += _in_threads(plan, work, name, driver.name, *kinds)
        if LIST_APPEND in work.topics:
            tasks.append(partial(copy, work, driver, f"{name}-{driver.name}-copier", f"{name}-{driver.name}-copiers"))
    return tasks


def _follow(work: Work, name: str) -> None:
    asyncio.run(follow(work, name))


def _ours(plan: RunPlan, work: Work, name: str) -> dict[str, Coroutine[Any, Any, None]]:
    """All of our clients, by name."""
    topics = work.topics
    clients: dict[str, Coroutine[Any, Any, None]] = {}

    def add(kind: Callable[..., Coroutine[Any, Any, None]], who: str, *more: object) -> None:
        clients[who] = kind(work, who, *more)

    add(workload.observe, "observer")
    for number in range(plan.clients):
        if REGISTERS in topics:
            add(workload.write, f"writer-{number}")
            add(workload.consume, f"reader-{number}", topics[REGISTERS], f"{name}-readers", "read_uncommitted")
        if LIST_APPEND in topics:
            add(workload.transact, f"{name}-transactor-{number}")
            add(workload.consume, f"committed-{number}", topics[LIST_APPEND], f"{name}-committed", "read_committed")
        if BANK in topics:
            add(bank.tell, f"{name}-teller-{number}", number)
    if BANK in topics:
        add(workload.consume, "auditor", topics[BANK], f"{name}-auditors", "read_committed")
    if LIST_APPEND in topics:
        add(workload.transact, f"{name}-copier", f"{name}-copiers")
    for wanted in (COMPACTION, DELETION):
        if wanted in topics:
            add(workload.write, f"{wanted}-writer", wanted)
            add(workload.consume, f"{wanted}-reader", topics[wanted], f"{name}-{wanted}-readers", "read_uncommitted")
    if DELETION in topics:
        add(workload.delete, "deleter")
    return clients


def _in_threads(
    plan: RunPlan,
    work: Work,
    name: str,
    whose: str,
    write: Callable[..., None],
    transact: Callable[..., None],
    consume: Callable[..., None],
) -> list[Callable[[], None]]:
    """Starts one thread for each client of a driver; the thread waits for the client's answers."""
    tasks: list[Callable[[], None]] = []
    for number in range(plan.clients):
        for wanted, kind, isolation in (
            (REGISTERS, "reader", "read_uncommitted"),
            (LIST_APPEND, "committed", "read_committed"),
        ):
            if wanted in work.topics:
                who = {"name": f"{whose}-{kind}-{number}", "group": f"{name}-{whose}-{kind}s"}
                tasks.append(partial(consume, work=work, topic=work.topics[wanted], isolation=isolation, **who))
        if REGISTERS in work.topics:
            tasks.append(partial(write, work=work, name=f"{whose}-writer-{number}"))
        if LIST_APPEND in work.topics:
            tasks.append(partial(transact, work=work, name=f"{name}-{whose}-transactor-{number}"))
    return tasks


def started(
    names: Sequence[str],
    running: ExitStack,
    *,
    told: Callable[[str], None] | None = None,
    config: Mapping[str, str] | None = None,
) -> list[Driver]:
    """These drivers' programs, built and started; they end with `running`.

    `config` secures their connections. If the machine cannot run a driver, or the driver does not support the config,
    `told` is called with the reason; without `told`, `RunError` is raised.
    """
    found = []
    for name in names:
        if name not in PROGRAMS:
            continue
        try:
            driver = Driver(name, PROGRAMS[name](), FILES[name](config) if config else None)
        except (DriverUnavailable, DriverError, ConfigError) as error:
            if told is None:
                raise RunError(f"there is no driver {name}: {error}") from None
            told(f"without the driver {name}: {error}")
            continue
        running.callback(driver.close)
        found.append(driver)
    return found


def _elect(plan: RunPlan) -> None:
    async def preferred() -> None:
        async with connect(plan.bootstrap, config=plan.config) as cluster:
            await cluster.admin.elect_leaders(None)

    asyncio.run(preferred())


async def _prepare(plan: RunPlan, name: str) -> tuple[dict[str, dict[str, str]], dict[str, str], dict[int, Address]]:
    """The run's topics, the cluster's transaction version, and its brokers' addresses."""
    async with connect(plan.bootstrap, config=plan.config) as cluster:
        brokers = (await cluster.refresh([])).brokers
        copies = min(3, len(brokers))
        config = {"min.insync.replicas": str(min(2, copies)), "retention.ms": "-1", "cleanup.policy": "delete"}
        if plan.unclean:
            config |= {"unclean.leader.election.enable": "true", "min.insync.replicas": "1"}
        wanted = {f"{name}-{kind}": {**config, **WORKLOADS[kind]} for kind in plan.workloads}
        made = await cluster.admin.create_topics(
            [
                NewTopic(topic, partitions=plan.partitions, replication_factor=copies, configs=own)
                for topic, own in wanted.items()
            ]
        )
        for topic, outcome in made.items():
            if isinstance(outcome, KafkaError) and outcome.code is not ErrorCode.TOPIC_ALREADY_EXISTS:
                raise RunError(f"topic {topic} could not be made: {outcome}")
        # A leader that does not know its leadership yet refuses a producer's first batch. Later it takes the second
        # one, as it takes any first sequence of a producer that it does not know. Then librdkafka counts the first
        # batch, which is lost, as acknowledged.
        await cluster.list_offsets(
            {TopicPartition(topic, number): EARLIEST for topic in wanted for number in range(plan.partitions)}
        )
        said = await cluster.admin.api_versions()
        versions = [
            answer.finalized_features["transaction.version"].highest
            for answer in said.values()
            if not isinstance(answer, KafkaError) and "transaction.version" in answer.finalized_features
        ]
        facts = {"transaction.version": str(max(versions, default=1))}
        return (
            wanted,
            facts,
            {broker.broker_id: (broker.host, broker.port) for broker in brokers.values()},
        )
