"""`KafkaCluster`: a replicated cluster for tests.

Every method may be called from the test's thread. In a coroutine, `async with KafkaCluster(..) as cluster` gives a
cluster whose waiting methods are coroutines (`AsyncKafkaCluster`).
"""

from __future__ import annotations

import asyncio
import difflib
import random
import secrets
import warnings
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any, Self

from barnabas.client.admin import Admin, NewTopic
from barnabas.client.cluster import ClusterClient
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError, ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.testing import history as histories
from barnabas.testing.awaited import (
    AsyncBroker,
    AsyncGroup,
    AsyncHandle,
    AsyncPartition,
    AsyncTopic,
    AsyncUser,
    waits,
    waits_and,
)
from barnabas.testing.handles import BrokerHandle, Ends, GroupHandle, PartitionHandle, Record, TopicHandle
from barnabas.testing.history import ClusterHistory
from barnabas.testing.host import SESSION_TIMEOUT_MS, Host, InProcessHost
from barnabas.testing.injection import Injection
from barnabas.testing.keys import ClusterKeys, passwords_of
from barnabas.testing.life import ClusterError
from barnabas.testing.loop import background
from barnabas.testing.network import CLIENT
from barnabas.testing.processes import SESSION_TIMEOUT_MS as SESSION_TIMEOUT_OF_PROCESSES_MS
from barnabas.testing.processes import ProcessHost
from barnabas.testing.promises import AcknowledgedRecordLost, Verdict, examine, explained
from barnabas.testing.running import TIMEOUT, RunningCluster
from barnabas.testing.temporary import TemporaryDirectory
from barnabas.testing.users import UserHandle, show_certificate
from barnabas.wire.api import ApiKey


class KafkaCluster(RunningCluster):
    """A cluster for tests that break it. ``with KafkaCluster() as cluster: ...``; any client takes `bootstrap`.

    `brokers`: the number of brokers; their ids start at 0. `config`: broker configuration by Kafka's names; it
    overrides the defaults (`barnabas.testing.DEFAULTS`). `directory`: where brokers and coordinator keep their files;
    by default the disks are in memory. A new cluster over the same directory continues from it. `processes`: each
    broker is a process of its own. `seed`: the seed of all random choices of brokers, and of `random`.
    `session_timeout`: after this many seconds of silence a broker counts as dead.

    `users`: names, or passwords by name. With users the cluster is secured as by ``barnabas up --secure``: clients
    connect over TLS, with the properties that `user` gives; a user has no rights until it gets some. It needs
    ``barnabas[tls]``.
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
        super().__init__(brokers, secrets.randbelow(1 << 32) if seed is None else seed)
        self.random = random.Random(self.seed)
        """Random numbers from `seed`: a test that chooses its faults by them has the same faults for the same seed."""
        self._config = {key: _text(value) for key, value in (config or {}).items()}
        for name, near in broker_config(self._config).unknown():
            hint = f": did you mean {near}?" if near else ""
            warnings.warn(f"{name} is not a configuration that a broker knows{hint}", stacklevel=2)
        self._directory = None if directory is None else Path(directory).absolute()
        self._temporary: TemporaryDirectory | None = None
        self._processes = processes
        self._session_timeout = session_timeout
        self._passwords = passwords_of(users)

    # ---- life

    def start(self) -> Self:
        """Returns when every broker serves and knows every other and the controller."""
        if self._host is not None:
            return self
        if self._directory is None:
            self.history = ClusterHistory()  # disks in memory start empty, so earlier promises are void
        histories.listen(self)
        self.history.note("cluster", f"{self._count} brokers, seed {self.seed}")
        try:
            self._host = self._new_host()
            self.run(self.host.start())
            # It must be made on the loop that uses it.
            self._client = self.run(self._new_client())
            for user in self._passwords:
                self.run(self.user(user).make())
        except BaseException:
            self.close()
            raise
        return self

    def _new_host(self) -> Host:
        kind: Callable[..., Host] = InProcessHost
        session_timeout_ms = SESSION_TIMEOUT_MS
        directory = self._directory
        if directory is None and (self._processes or self._passwords):
            self._temporary = TemporaryDirectory()
        keys = self._new_keys() if self._passwords else None
        if self._processes:
            kind, session_timeout_ms = ProcessHost, SESSION_TIMEOUT_OF_PROCESSES_MS
            if self._temporary is not None:
                kind, directory = partial(ProcessHost, held=[self._temporary.held]), self._temporary.place
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
        place = self._directory if self._temporary is None else self._temporary.place
        assert place is not None
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
        """Ends all processes, as a kill would; the files in a `directory` stay."""
        if self._is_a_forks:
            return
        host, self._host = self._host, None
        client, self._client = self._client, None
        if client is not None:
            background().run(client.close())
        if host is not None:
            background().run(host.close())
        histories.forget(self)
        if self._temporary is not None:
            self._temporary.remove()
            self._temporary = None

    def __enter__(self) -> Self:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.close()

    async def __aenter__(self) -> AsyncKafkaCluster:
        try:
            await background().awaited(self.start)
        except asyncio.CancelledError:
            await asyncio.to_thread(self.close)  # the start may have finished all the same
            raise
        return AsyncKafkaCluster(self)

    async def __aexit__(self, *_: object) -> None:
        await asyncio.to_thread(self.close)

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
        return [BrokerHandle(self, broker_id) for broker_id in self.broker_ids]

    def broker(self, broker_id: int) -> BrokerHandle:
        return BrokerHandle(self, self.known(broker_id))

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
        """One of the cluster's `users`. Raises ``ValueError`` for any other name."""
        keys = self.host.keys
        if keys is None:
            raise ClusterError(f"This cluster has no users: make it by KafkaCluster(users=[{name!r}]).")
        if name not in keys.users:
            near = difflib.get_close_matches(name, keys.users, n=1)
            hint = f"did you mean {near[0]}?" if near else f"it has {', '.join(keys.users)}"
            raise ValueError(f"the cluster was not made with a user {name!r}: {hint}")
        return UserHandle(self, keys, name)

    def change_certificates(self, *, valid_for: float | None = None) -> None:
        """Gives every running broker another certificate for clients, valid for this many seconds: ``-1`` has expired.
        Open connections stay, as in Kafka; connections between brokers keep their certificate. Returns when clients get
        the new one.
        """
        keys = self.host.keys
        if keys is None:
            raise ClusterError("This cluster has no certificates: make it by KafkaCluster(users=[..]).")
        store = keys.certify_brokers(valid_for)
        self.run(show_certificate(self, store, Path(store).read_text()))

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
        """Creates a topic. Returns when every partition has a leader and its whole ISR, and every broker's metadata
        show it. The replication factor is 3, or the number of brokers if that is less. `assignment` gives each
        partition's replicas, the preferred leader first. Raises `KafkaError`.
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
                    partial(self.host.view, TopicPartition(name, number)),
                    f"{name}-{number} has a leader and its whole ISR",
                    TIMEOUT,
                )

        self.run(create())
        return self.topic(name)

    def records(self, topic: str, *, timeout: float = TIMEOUT) -> list[Record]:
        """Every record of the topic that a consumer may read now, by partition and offset."""
        return self.topic(topic).records(timeout=timeout)

    # ---- faults

    def heal(self) -> None:
        """Heals every cut or slow link. Returns when the running brokers are registered, know each other, and are in
        the ISR of all their partitions. Raises `ClusterError` after 30 s; it names what is missing."""
        self._heal_all_links()
        self.run(self.host.until_back(self.broker_ids))

    def _heal_all_links(self) -> None:
        self.history.note("network", "every link is healed")
        self.on_loop(lambda: self.host.links.heal())

    def latency(self, seconds: float, *, from_: Ends = CLIENT, to: Ends = "brokers", both: bool = True) -> None:
        """Delays every byte on the links from `from_` to `to` by this many seconds; with `both` also on the way back. 0
        ends the delay."""
        if not seconds >= 0:
            raise ValueError(f"a latency cannot be {seconds:g} s; 0 ends an earlier one")
        for source in self.ends(from_):
            for target in self.ends(to):
                if source == target:
                    continue
                self.history.note("network", f"{source} to {target} takes {seconds:g} s")
                self.on_loop(partial(self.host.links.set_latency, source, target, seconds))
                if both:
                    self.on_loop(partial(self.host.links.set_latency, target, source, seconds))

    def fail(
        self,
        api: str,
        error: str,
        *,
        times: int | None = 1,
        broker: BrokerHandle | int | None = None,
        from_: Ends = CLIENT,
        applied: bool = False,
    ) -> Injection:
        """Answers the next `times` requests (None: every one) with `error`, such as ``NOT_LEADER_OR_FOLLOWER``. APIs
        and errors have the names of Kafka's protocol guide. Only clients' requests fail, unless `from_` names brokers.
        With `applied` the broker carries the request out first, so that the error is wrong. The returned injection
        counts its `hits` and can be stopped.
        """
        return self._inject(api, error, times, broker, from_, applied, None)

    def disconnect(
        self,
        api: str,
        *,
        times: int | None = 1,
        broker: BrokerHandle | int | None = None,
        from_: Ends = CLIENT,
        applied: bool = False,
    ) -> Injection:
        """Closes the connection in place of an answer; with `applied` the broker carries the request out first."""
        return self._inject(api, None, times, broker, from_, applied, None)

    def delay(
        self,
        api: str,
        seconds: float,
        *,
        times: int | None = 1,
        broker: BrokerHandle | int | None = None,
        from_: Ends = CLIENT,
    ) -> Injection:
        """Carries the next `times` requests out this many seconds late."""
        return self._inject(api, None, times, broker, from_, False, seconds)

    def _inject(
        self,
        api: str,
        error: str | None,
        times: int | None,
        broker: BrokerHandle | int | None,
        from_: Ends,
        applied: bool,
        delay: float | None,
    ) -> Injection:
        rule = Injection(
            _named(ApiKey, api, "an API"),
            None if error is None else _named(ErrorCode, error, "an error"),
            times,
            None if broker is None else self.known(int(broker)),
            frozenset(self.ends(from_)),
            applied,
            delay,
        )
        self.on_loop(lambda: self.host.injections.add(rule))
        return rule

    def clear_faults(self) -> None:
        """Ends all injected failures of requests, and heals every link."""
        self.on_loop(lambda: self.host.injections.clear())
        self.heal()

    def recover(self) -> None:
        """Ends every fault: all brokers run, no link is cut, no request fails. Returns when the brokers know each other
        and are in the ISR of all their partitions."""
        if isinstance(self.host, InProcessHost):
            self.on_loop(lambda: self.host.injections.clear())
            self._heal_all_links()
        for broker in self.brokers:
            if self.host.is_full(broker.id):
                broker.empty_disk()
            if broker.state == "paused":
                broker.resume()
            broker.start()
        self.run(self.host.until_back(self.broker_ids))

    # ---- the verdict

    def verify(self, *, timeout: float = TIMEOUT) -> Verdict:
        """Checks that the cluster kept its promises; raises `AcknowledgedRecordLost` with a timeline if it broke one.

        The promises: each batch acknowledged with acks=all is in its leader's files, at the acknowledged offset and
        with the same bytes. Each batch that a consumer received is still there unchanged. Below the high watermark the
        files of all in-sync replicas are the same. No broker halted by itself. Batches deleted by retention, by
        DeleteRecords or with their topic are left out, and so are compacted topics. Waits for elections.
        """
        __tracebackhide__ = True
        self.host.gather()
        verdict, broken = self.run(examine(self, timeout))
        if broken:
            raise AcknowledgedRecordLost(explained(self, broken))
        return verdict

    def timeline(self, *, last: int | None = None) -> str:
        """The events of the cluster, one line each: the brokers' log, the test's faults, changes of high watermarks."""
        if self._host is not None:
            self._host.gather()
        return self.history.story(list(self.history.high_watermarks), last=last)

    def save_view(self, path: str | Path) -> None:
        """Writes the cluster's history as the cluster view with a slider: one HTML file, which loads nothing from
        elsewhere. Raises `OSError`."""
        from barnabas.web.assets import exported

        async def story() -> Iterator[bytes]:
            return exported(self.host.viewed(f"barnabas.testing, seed {self.seed}"))

        Path(path).write_bytes(b"".join(self.run(story())))


class AsyncKafkaCluster(AsyncHandle[KafkaCluster]):
    """`KafkaCluster` for coroutines: its waiting methods are coroutines. ``async with KafkaCluster() as cluster``."""

    @property
    def bootstrap(self) -> str:
        return self.plain.bootstrap

    @property
    def bootstrap_servers(self) -> list[str]:
        return self.plain.bootstrap_servers

    @property
    def zookeeper(self) -> str:
        return self.plain.zookeeper

    @property
    def seed(self) -> int:
        return self.plain.seed

    @property
    def random(self) -> random.Random:
        return self.plain.random

    @property
    def brokers(self) -> list[AsyncBroker]:
        return [AsyncBroker(broker) for broker in self.plain.brokers]

    def broker(self, broker_id: int) -> AsyncBroker:
        return AsyncBroker(self.plain.broker(broker_id))

    def partition(self, topic: str, number: int) -> AsyncPartition:
        return AsyncPartition(self.plain.partition(topic, number))

    def topic(self, name: str) -> AsyncTopic:
        return AsyncTopic(self.plain.topic(name))

    def group(self, name: str) -> AsyncGroup:
        return AsyncGroup(self.plain.group(name))

    def user(self, name: str) -> AsyncUser:
        return AsyncUser(self.plain.user(name))

    async def controller(self) -> AsyncBroker:
        return AsyncBroker(await background().awaited(lambda: self.plain.controller))

    create_topic = waits_and(KafkaCluster.create_topic, AsyncTopic)
    records = waits(KafkaCluster.records)
    heal = waits(KafkaCluster.heal)
    latency = waits(KafkaCluster.latency)
    fail = waits(KafkaCluster.fail)
    disconnect = waits(KafkaCluster.disconnect)
    delay = waits(KafkaCluster.delay)
    recover = waits(KafkaCluster.recover)
    clear_faults = waits(KafkaCluster.clear_faults)
    change_certificates = waits(KafkaCluster.change_certificates)
    verify = waits(KafkaCluster.verify)
    timeline = waits(KafkaCluster.timeline)
    save_view = waits(KafkaCluster.save_view)


def _text(value: object) -> str:
    """A configuration's value in Kafka's notation."""
    return str(value).lower() if isinstance(value, bool) else str(value)


def _named(kind: Any, name: str, what: str) -> Any:
    try:
        return kind[name.upper()]
    except KeyError:
        near = difflib.get_close_matches(name.upper(), kind.__members__, n=1)
        raise ValueError(f"{name!r} is not {what}" + (f": did you mean {near[0]}?" if near else "")) from None
