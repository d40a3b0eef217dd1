"""`KafkaCluster`: a replicated cluster for tests, by the names a test would use.

Every method may be called from the test's thread. In a coroutine, `async with KafkaCluster(..) as cluster` gives the
same cluster with the methods that wait as coroutines (`AsyncKafkaCluster`).
"""

from __future__ import annotations

import asyncio
import difflib
import random
import secrets
import shutil
import tempfile
import time
import warnings
from collections.abc import Callable, Coroutine, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Self, TypeVar

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.client.consumer import Consumer
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.testing import history as histories
from barnabas.testing.handles import (
    TIMEOUT,
    BrokerHandle,
    End,
    Ends,
    GroupHandle,
    PartitionHandle,
    Record,
    TopicHandle,
)
from barnabas.testing.history import ClusterHistory
from barnabas.testing.host import SESSION_TIMEOUT_MS, ZOOKEEPER, Host, InProcessHost, broker_name
from barnabas.testing.injection import Injection
from barnabas.testing.keys import ClusterKeys, passwords_of
from barnabas.testing.life import ClusterError
from barnabas.testing.loop import background
from barnabas.testing.network import CLIENT
from barnabas.testing.processes import SESSION_TIMEOUT_MS as SESSION_TIMEOUT_OF_PROCESSES_MS
from barnabas.testing.processes import ProcessHost
from barnabas.testing.promises import AcknowledgedRecordLost, Verdict, examine, explained
from barnabas.testing.users import UserHandle, show_certificate
from barnabas.wire.api import ApiKey

if TYPE_CHECKING:
    from barnabas.testing.awaited import AsyncKafkaCluster

T = TypeVar("T")
S = TypeVar("S")

_POLL_S: Final = 0.005
_NOT_RUNNING: Final = "The cluster does not run: use it within `with`, or call start()."


class KafkaCluster:
    """A cluster that is yours to break. ``with KafkaCluster() as cluster: ...``; any client takes `bootstrap`.

    `brokers`: how many, with ids from 0. `config`: broker configuration under Kafka's names, over the defaults here
    (`barnabas.testing.DEFAULTS`). `directory`: where brokers and coordinator keep their files; without one the disks
    are in memory. A cluster that is made again over the same directory goes on from it. `processes`: each broker is
    a process of its own. `seed`: of all that brokers draw, and of `random`. `session_timeout`: after so many seconds of
    silence a broker counts as dead.

    `users`: names, or passwords by name. With users the cluster is secured as ``barnabas up --secure`` does it: clients
    come in over TLS, and `user` says how; nobody may do anything until it is allowed. It needs ``barnabas[tls]``.
    """

    def __init__(
        self,
        brokers: int = 3,
        *,
        config: Mapping[str, Any] | None = None,
        directory: str | Path | None = None,
        processes: bool = False,
        seed: int | None = None,
        session_timeout: float | None = None,
        users: Iterable[str] | Mapping[str, str] = (),
    ) -> None:
        if brokers < 1:
            raise ValueError(f"a cluster has at least one broker, not {brokers}")
        self.seed = secrets.randbelow(1 << 32) if seed is None else seed
        self.random = random.Random(self.seed)
        """Draws from `seed`: choose by it what to break, and the same seed breaks the same."""
        self.history = ClusterHistory()
        self._count = brokers
        self._config = {key: _text(value) for key, value in (config or {}).items()}
        for name, near in broker_config(self._config).unknown():
            hint = f": did you mean {near}?" if near else ""
            warnings.warn(f"{name} is no configuration that a broker knows{hint}", stacklevel=2)
        self._directory = None if directory is None else Path(directory).absolute()
        self._temporary: str | None = None
        self._processes = processes
        self._session_timeout = session_timeout
        self._passwords = passwords_of(users)
        self._host: Host | None = None
        self._client: ClusterClient | None = None

    # ---- life

    def start(self) -> Self:
        """Returns when every broker serves and knows every other and the controller."""
        if self._host is not None:
            return self
        histories.listen(self)
        self.history.note("cluster", f"{self._count} brokers, seed {self.seed}")
        try:
            self._host = self._new_host()
            self.run(self.host.start())
            # Made on the loop that it will be used on.
            self._client = self.run(self._new_client())
            for user in self._passwords:
                self.run(self.user(user).make())
        except BaseException:
            self.close()
            raise
        return self

    def _new_host(self) -> Host:
        kind: type[Host] = InProcessHost
        session_timeout_ms = SESSION_TIMEOUT_MS
        directory = self._directory
        if directory is None and (self._processes or self._passwords):
            self._temporary = tempfile.mkdtemp(prefix="kafka-cluster-")
        keys = self._new_keys() if self._passwords else None
        if self._processes:
            kind, session_timeout_ms = ProcessHost, SESSION_TIMEOUT_OF_PROCESSES_MS
            if directory is None:
                directory = Path(str(self._temporary))
        if self._session_timeout is not None:
            session_timeout_ms = round(self._session_timeout * 1000)
        return kind(
            background(),
            self._count,
            self.history,
            seed=self.seed,
            directory=directory,
            config=self._config,
            session_timeout_ms=session_timeout_ms,
            keys=keys,
        )

    def _new_keys(self) -> ClusterKeys:
        place = self._directory or Path(str(self._temporary))
        try:
            return ClusterKeys(place / "security", self._passwords, self._config)
        except ConfigError as error:
            raise ClusterError(str(error)) from None

    async def _new_client(self) -> ClusterClient:
        return self.host.harness_client(
            self.host.client_runtime(),
            connect_timeout_ms=1_000,
            request_timeout_ms=3_000,
            retry_timeout_ms=round(TIMEOUT * 1000),
        )

    def close(self) -> None:
        """Ends everything, as a kill would; what a `directory` holds stays."""
        host, self._host = self._host, None
        client, self._client = self._client, None
        if client is not None:
            background().run(client.close())
        if host is not None:
            background().run(host.close())
        histories.forget(self)
        if self._temporary is not None:
            shutil.rmtree(self._temporary, ignore_errors=True)
            self._temporary = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    async def __aenter__(self) -> AsyncKafkaCluster:
        from barnabas.testing.awaited import AsyncKafkaCluster

        await asyncio.to_thread(self.start)
        return AsyncKafkaCluster(self)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await asyncio.to_thread(self.close)

    @property
    def host(self) -> Host:
        if self._host is None:
            raise ClusterError(_NOT_RUNNING)
        return self._host

    @property
    def client(self) -> ClusterClient:
        """Our own client, which no fault touches; it belongs to the background loop."""
        if self._client is None:
            raise ClusterError(_NOT_RUNNING)
        return self._client

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        return background().run(story)

    async def until(
        self, fits: Callable[[S], bool], look: Callable[[], Coroutine[Any, Any, S]], what: str, timeout: float
    ) -> S:
        """The first finding that fits. Raises ``TimeoutError`` naming `what` and the last finding."""
        deadline = time.monotonic() + timeout
        last: object = None
        while True:
            try:
                found = await look()
                if fits(found):
                    return found
                last = found
            except (KafkaError, OSError) as error:
                last = error
            if time.monotonic() >= deadline:
                raise TimeoutError(f"Not within {timeout:g} s: {what}. It is {last!r}.")
            await asyncio.sleep(_POLL_S)

    # ---- parts

    @property
    def bootstrap(self) -> str:
        """``host:port,..`` of every broker, for any client."""
        return self.host.bootstrap

    @property
    def bootstrap_servers(self) -> list[str]:
        """The same as a list, for clients that want one."""
        return self.bootstrap.split(",")

    @property
    def zookeeper(self) -> str:
        """``host:port`` of the coordinator, which speaks ZooKeeper's protocol."""
        return f"127.0.0.1:{self.host.zookeeper_port}"

    @property
    def brokers(self) -> list[BrokerHandle]:
        return [self.broker(broker_id) for broker_id in range(self._count)]

    def broker(self, broker_id: int) -> BrokerHandle:
        if not 0 <= broker_id < self._count:
            raise ValueError(f"there is no broker {broker_id}: ids go from 0 to {self._count - 1}")
        return BrokerHandle(self, broker_id)

    @property
    def controller(self) -> BrokerHandle:
        """The broker that is controller; waits for an election."""
        found = self.run(
            self.until(
                lambda controller: controller is not None, self.host.controller, "there is a controller", TIMEOUT
            )
        )
        assert found is not None
        return self.broker(found)

    def partition(self, topic: str, number: int) -> PartitionHandle:
        return PartitionHandle(self, topic, number)

    def topic(self, name: str) -> TopicHandle:
        return TopicHandle(self, name)

    def group(self, name: str) -> GroupHandle:
        return GroupHandle(self, name)

    def user(self, name: str) -> UserHandle:
        """One of the `users` that the cluster was made with. Raises ``ValueError`` for another."""
        keys = self.host.keys
        if keys is None:
            raise ClusterError(f"This cluster has no users: make it by KafkaCluster(users=[{name!r}]).")
        if name not in keys.users:
            near = difflib.get_close_matches(name, keys.users, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(keys.users)}"
            raise ValueError(f"the cluster was not made with a user {name!r}: {hint}")
        return UserHandle(self, keys, name)

    def change_certificates(self, *, valid_for: float | None = None) -> None:
        """Every broker that runs shows clients another certificate, valid for so many seconds: ``-1`` has expired.

        Connections that are open stay, as in Kafka; brokers' own certificate is left alone. Returns when it is shown.
        """
        keys = self.host.keys
        if keys is None:
            raise ClusterError("This cluster has no certificates: make it by KafkaCluster(users=[..]).")
        store = keys.certify_brokers(valid_for)
        self.run(show_certificate(self, store, Path(store).read_text()))

    def running(self) -> list[int]:
        """The brokers that run, by their ids."""
        return [broker_id for broker_id in range(self._count) if self.host.state(broker_id) == "running"]

    # ---- topics and records

    def create_topic(
        self,
        name: str,
        *,
        partitions: int = 1,
        replication_factor: int | None = None,
        config: Mapping[str, Any] | None = None,
        assignment: Mapping[int, Sequence[int]] | None = None,
    ) -> TopicHandle:
        """Returns when every partition has its leader, its whole ISR, and every broker tells clients so.

        The replication factor is 3, or the number of brokers where that is less. `assignment` gives each partition's
        replicas, the preferred leader first. Raises `KafkaError`.
        """
        new = NewTopic(
            name,
            partitions,
            min(3, self._count) if replication_factor is None else replication_factor,
            {key: _text(value) for key, value in (config or {}).items()},
            assignment or {},
        )

        async def create() -> None:
            error = (await Admin(self.client).create_topics([new]))[name]
            if error is not None:
                raise error
            for number in assignment or range(partitions):
                await self.until(
                    lambda view: view is not None and view.leader >= 0 and view.isr == frozenset(view.replicas),
                    lambda number=number: self.host.view(TopicPartition(name, number)),  # type: ignore[misc]
                    f"{name}-{number} has a leader and its whole ISR",
                    TIMEOUT,
                )

        self.run(create())
        return self.topic(name)

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        metadata = await self.client.refresh([topic])
        found = metadata.topics.get(topic)
        if found is None or found.error:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION if found is None else found.error
            raise KafkaError(code, f"topic {topic}: {code.name}")
        return sorted(TopicPartition(topic, number) for number in found.partitions)

    async def offsets(self, partitions: Sequence[TopicPartition], which: int) -> dict[TopicPartition, int]:
        listed = await self.client.list_offsets(dict.fromkeys(partitions, which))
        return {partition: found.offset for partition, found in listed.items()}

    def records(self, topic: str, *, timeout: float = TIMEOUT) -> list[Record]:
        """Every record of the topic that a consumer may read now, by partition and offset."""

        async def read() -> list[Record]:
            partitions = await self.partitions_of(topic)
            ends = await self.offsets(partitions, LATEST)
            starts = await self.offsets(partitions, EARLIEST)
            consumer = Consumer(self.client, max_wait_ms=50)
            await consumer.assign(
                {
                    topic_partition: starts[topic_partition]
                    for topic_partition in partitions
                    if starts[topic_partition] < ends[topic_partition]
                }
            )
            found: list[Record] = []
            deadline = time.monotonic() + timeout
            while any(
                consumer.position(topic_partition) < ends[topic_partition] for topic_partition in consumer.assignment
            ):
                if time.monotonic() > deadline:
                    raise TimeoutError(f"Not within {timeout:g} s: the records of {topic} are read.")
                for name, partition, record in await consumer.poll(100):
                    if record.offset < ends[TopicPartition(name, partition)]:
                        found.append(
                            Record(partition, record.offset, record.key, record.value, record.headers, record.timestamp)
                        )
            await consumer.close()
            return sorted(found, key=lambda record: (record.partition, record.offset))

        return self.run(read())

    # ---- faults

    def ends(self, ends: Ends, broker_id: int | None = None) -> list[str]:
        """The names of links' ends, as the tests name them."""
        if isinstance(ends, str | int | BrokerHandle):
            ends = [ends]
        names: dict[str, None] = {}
        for end in ends:
            if end == "brokers":
                names.update((broker_name(number), None) for number in range(self._count) if number != broker_id)
            elif isinstance(end, str):
                if end not in (ZOOKEEPER, CLIENT):
                    raise ValueError(f"{end!r} is no end of a link: brokers, 'brokers', 'zookeeper' and 'client' are")
                names[end] = None
            elif int(end) != broker_id:
                names[broker_name(self.broker(int(end)).id)] = None
        return list(names)

    def cut(self, source: str, target: str) -> None:
        self.on_loop(lambda: self.host.links.cut(source, target))
        self.history.note("network", f"nothing from {source} reaches {target}")

    def on_loop(self, change: Callable[[], None]) -> None:
        async def story() -> None:
            change()

        self.run(story())

    def heal_links(self, name: str) -> None:
        self.history.note("network", f"the links of {name} are healed")
        links = self.host.links
        self.on_loop(lambda: links.heal([pair for pair in links.cuts() if name in pair]))

    def heal(self) -> None:
        """Mends every link: none is cut or slow any more. Returns when the brokers that run are back: registered, known
        to each other, and in every ISR they belong to. Raises `ClusterError`, naming what is lacking, after 30 s."""
        self._heal_all_links()
        self.run(self.host.until_back(range(self._count)))

    def _heal_all_links(self) -> None:
        self.history.note("network", "every link is healed")
        self.on_loop(lambda: self.host.links.heal())

    def latency(self, seconds: float, *, from_: Ends = CLIENT, to: Ends = "brokers", both: bool = True) -> None:
        """Every byte on the links from `from_` to `to` takes so long, and on the way back (`both`). 0 ends it."""
        for source in self.ends(from_):
            for target in self.ends(to):
                if source == target:
                    continue
                self.history.note("network", f"{source} to {target} takes {seconds:g} s")
                self.on_loop(lambda a=source, b=target: self.host.links.set_latency(a, b, seconds))  # type: ignore[misc]
                if both:
                    self.on_loop(lambda a=source, b=target: self.host.links.set_latency(b, a, seconds))  # type: ignore[misc]

    def fail(
        self,
        api: str,
        error: str,
        *,
        times: int | None = 1,
        broker: BrokerHandle | int | None = None,
        from_: End = CLIENT,
        applied: bool = False,
    ) -> Injection:
        """The next `times` requests (None: every) are answered by `error`, such as ``NOT_LEADER_OR_FOLLOWER``.

        Names as in the protocol guide. Only clients' requests, unless `from_` names a broker. `applied`: the request
        is carried out first, and the error is a lie. The injection counts its `hits` and can be stopped.
        """
        return self._inject(api, error, times, broker, from_, applied, 0.0)

    def disconnect(
        self,
        api: str,
        *,
        times: int | None = 1,
        broker: BrokerHandle | int | None = None,
        from_: End = CLIENT,
        applied: bool = False,
    ) -> Injection:
        """The connection is closed in place of an answer; with `applied` after the request was carried out."""
        return self._inject(api, None, times, broker, from_, applied, 0.0)

    def delay(
        self,
        api: str,
        seconds: float,
        *,
        times: int | None = 1,
        broker: BrokerHandle | int | None = None,
        from_: End = CLIENT,
    ) -> Injection:
        """The next `times` requests are carried out so many seconds late."""
        return self._inject(api, None, times, broker, from_, False, seconds)

    def _inject(
        self,
        api: str,
        error: str | None,
        times: int | None,
        broker: BrokerHandle | int | None,
        from_: End,
        applied: bool,
        delay: float,
    ) -> Injection:
        rule = Injection(
            _named(ApiKey, api, "an API"),
            None if error is None else _named(ErrorCode, error, "an error"),
            times,
            None if broker is None else int(broker),
            self.ends(from_)[0],
            applied,
            delay,
        )
        self.on_loop(lambda: self.host.injections.add(rule))
        return rule

    def clear_faults(self) -> None:
        """No request fails any more by the test's wish, and every link is healed."""
        self.on_loop(lambda: self.host.injections.clear())
        self.heal()

    def recover(self) -> None:
        """Ends every fault: all brokers run, no link is cut, no request fails; returns when they know each
        other and are in every ISR they belong to."""
        if isinstance(self.host, InProcessHost):
            self.on_loop(lambda: self.host.injections.clear())
            self._heal_all_links()
        for broker in self.brokers:
            if self.host.is_full(broker.id):
                broker.empty_disk()
            if broker.state == "paused":
                broker.resume()
            broker.start()
        self.run(self.host.until_back(range(self._count)))

    # ---- the verdict

    def verify(self, *, timeout: float = TIMEOUT) -> Verdict:
        """Holds the cluster to its promises; raises `AcknowledgedRecordLost` with a timeline when it broke one.

        Each batch acknowledged with acks=all is in its leader's files, at the offset and with the bytes the producer
        was told; each batch a consumer was given is still there unchanged; below the high watermark the files of all
        in-sync replicas are the same; no broker halted by itself. Batches that were deleted by retention, by
        DeleteRecords or with their topic, and topics that are compacted, are not missed. Waits for elections.
        """
        __tracebackhide__ = True
        self.host.gather()
        verdict, broken = self.run(examine(self, timeout))
        if broken:
            raise AcknowledgedRecordLost(explained(self, broken))
        return verdict

    def timeline(self, *, last: int | None = None) -> str:
        """What happened, one line an event: what the brokers logged, what the test did, high watermarks."""
        if self._host is not None:
            self._host.gather()
        return self.history.story(list(self.history.high_watermarks), last=last)

    def save_view(self, path: str | Path) -> None:
        """Writes what happened as the view of a cluster that can be scrubbed through: one HTML file, to be opened in a
        browser, which fetches nothing. Raises `OSError`."""
        from barnabas.web.assets import exported

        async def story() -> Iterator[bytes]:
            return exported(self.host.viewed(f"barnabas.testing, seed {self.seed}"))

        Path(path).write_bytes(b"".join(self.run(story())))


def _text(value: object) -> str:
    """A configuration's value as Kafka writes it."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(kind: Any, name: str, what: str) -> Any:
    try:
        return kind[name.upper()]
    except KeyError:
        near = difflib.get_close_matches(name.upper(), kind.__members__, n=1)
        raise ValueError(f"{name!r} is not {what}" + (f": did you mean {near[0]}?" if near else "")) from None
