"""The cluster for coroutines: the same methods, awaited; the test's own loop goes on meanwhile."""

from __future__ import annotations

import asyncio
import functools
import random
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from barnabas.security.keyring import MECHANISM
from barnabas.testing.cluster import KafkaCluster
from barnabas.testing.handles import BrokerHandle, GroupHandle, PartitionHandle, TopicHandle
from barnabas.testing.keys import TOKEN_LIFE_S
from barnabas.testing.users import UserHandle

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")


class AsyncHandle(Generic[S]):
    """A handle whose methods are awaited; `plain` is the same for plain code."""

    def __init__(self, plain: S) -> None:
        self.plain = plain


def _waits(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[AsyncHandle[S], P], Coroutine[Any, Any, T]]:
    """The same method, for a coroutine: the test's own loop goes on meanwhile."""

    async def waiting(self: AsyncHandle[S], /, *args: P.args, **kwargs: P.kwargs) -> T:
        return await asyncio.to_thread(method, self.plain, *args, **kwargs)

    functools.update_wrapper(waiting, method)
    return waiting


class AsyncBroker(AsyncHandle[BrokerHandle]):
    @property
    def id(self) -> int:
        return self.plain.id

    def __int__(self) -> int:
        return self.plain.id

    def __eq__(self, other: object) -> bool:
        return int(other) == self.plain.id if isinstance(other, AsyncBroker | BrokerHandle | int) else NotImplemented

    def __hash__(self) -> int:
        return hash(self.plain.id)

    def __repr__(self) -> str:
        return repr(self.plain)

    kill = _waits(BrokerHandle.kill)
    stop = _waits(BrokerHandle.stop)
    start = _waits(BrokerHandle.start)
    restart = _waits(BrokerHandle.restart)
    pause = _waits(BrokerHandle.pause)
    resume = _waits(BrokerHandle.resume)
    fill_disk = _waits(BrokerHandle.fill_disk)
    empty_disk = _waits(BrokerHandle.empty_disk)
    partition = _waits(BrokerHandle.partition)
    heal = _waits(BrokerHandle.heal)


class AsyncPartition(AsyncHandle[PartitionHandle]):
    async def leader(self) -> AsyncBroker:
        return AsyncBroker(await asyncio.to_thread(lambda: self.plain.leader))

    async def isr(self) -> set[int]:
        return {broker.id for broker in await asyncio.to_thread(lambda: self.plain.isr)}

    wait = _waits(PartitionHandle.wait)


class AsyncTopic(AsyncHandle[TopicHandle]):
    consumed_by = _waits(TopicHandle.consumed_by)
    records = _waits(TopicHandle.records)


class AsyncGroup(AsyncHandle[GroupHandle]):
    stable = _waits(GroupHandle.stable)
    committed = _waits(GroupHandle.committed)


class AsyncUser(AsyncHandle[UserHandle]):
    @property
    def name(self) -> str:
        return self.plain.name

    @property
    def password(self) -> str:
        return self.plain.password

    def client_config(self, mechanism: str = MECHANISM) -> dict[str, Any]:
        return self.plain.client_config(mechanism)

    def properties(self, mechanism: str = MECHANISM, *, prefix: str = "") -> dict[str, str]:
        return self.plain.properties(mechanism, prefix=prefix)

    def token(self, *, valid_for: float = TOKEN_LIFE_S) -> str:
        return self.plain.token(valid_for=valid_for)

    def certify(self, *, valid_for: float | None = None) -> str:
        return self.plain.certify(valid_for=valid_for)

    allow = _waits(UserHandle.allow)
    deny = _waits(UserHandle.deny)
    revoke = _waits(UserHandle.revoke)
    change_password = _waits(UserHandle.change_password)
    delete = _waits(UserHandle.delete)


class AsyncKafkaCluster(AsyncHandle[KafkaCluster]):
    """`KafkaCluster` for coroutines: what waits is awaited. ``async with KafkaCluster() as cluster``."""

    @property
    def bootstrap(self) -> str:
        return self.plain.bootstrap

    @property
    def bootstrap_servers(self) -> list[str]:
        return self.plain.bootstrap_servers

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
        return AsyncBroker(await asyncio.to_thread(lambda: self.plain.controller))

    create_topic = _waits(KafkaCluster.create_topic)
    records = _waits(KafkaCluster.records)
    heal = _waits(KafkaCluster.heal)
    latency = _waits(KafkaCluster.latency)
    fail = _waits(KafkaCluster.fail)
    disconnect = _waits(KafkaCluster.disconnect)
    delay = _waits(KafkaCluster.delay)
    recover = _waits(KafkaCluster.recover)
    clear_faults = _waits(KafkaCluster.clear_faults)
    change_certificates = _waits(KafkaCluster.change_certificates)
    verify = _waits(KafkaCluster.verify)
    timeline = _waits(KafkaCluster.timeline)
    save_view = _waits(KafkaCluster.save_view)
