"""Handles for coroutines: the same methods are awaited, and the test's own loop goes on meanwhile."""

from __future__ import annotations

import functools
from collections.abc import Callable, Coroutine
from typing import Any, Concatenate, Generic, ParamSpec, TypeVar

from barnabas.security.keyring import MECHANISM
from barnabas.testing.handles import BrokerHandle, GroupHandle, PartitionHandle, TopicHandle
from barnabas.testing.keys import TOKEN_LIFE_S
from barnabas.testing.loop import background
from barnabas.testing.users import UserHandle

P = ParamSpec("P")
S = TypeVar("S")
T = TypeVar("T")
U = TypeVar("U")


class AsyncHandle(Generic[S]):
    """A handle whose methods are awaited; `plain` is the same handle for plain code."""

    def __init__(self, plain: S) -> None:
        self.plain = plain


def waits(method: Callable[Concatenate[S, P], T]) -> Callable[Concatenate[AsyncHandle[S], P], Coroutine[Any, Any, T]]:
    """Makes a method's counterpart for coroutines: the test's own loop goes on meanwhile."""
    return waits_and(method, lambda result: result)


def waits_and(
    method: Callable[Concatenate[S, P], T], gives: Callable[[T], U]
) -> Callable[Concatenate[AsyncHandle[S], P], Coroutine[Any, Any, U]]:
    """As `waits`, but converts the result for coroutines."""

    async def waiting(self: AsyncHandle[S], /, *args: P.args, **kwargs: P.kwargs) -> U:
        return gives(await background().awaited(lambda: method(self.plain, *args, **kwargs)))

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

    @property
    def address(self) -> str:
        return self.plain.address

    @property
    def state(self) -> str:
        return self.plain.state

    async def is_controller(self) -> bool:
        return await background().awaited(lambda: self.plain.is_controller)

    kill = waits(BrokerHandle.kill)
    stop = waits(BrokerHandle.stop)
    start = waits(BrokerHandle.start)
    restart = waits(BrokerHandle.restart)
    pause = waits(BrokerHandle.pause)
    resume = waits(BrokerHandle.resume)
    fill_disk = waits(BrokerHandle.fill_disk)
    empty_disk = waits(BrokerHandle.empty_disk)
    partition = waits(BrokerHandle.partition)
    heal = waits(BrokerHandle.heal)


class AsyncPartition(AsyncHandle[PartitionHandle]):
    async def leader(self) -> AsyncBroker:
        return AsyncBroker(await background().awaited(lambda: self.plain.leader))

    async def isr(self) -> set[int]:
        return {broker.id for broker in await background().awaited(lambda: self.plain.isr)}

    async def leader_epoch(self) -> int:
        return await background().awaited(lambda: self.plain.leader_epoch)

    async def replicas(self) -> list[AsyncBroker]:
        return [AsyncBroker(broker) for broker in await background().awaited(lambda: self.plain.replicas)]

    async def followers(self) -> list[AsyncBroker]:
        return [AsyncBroker(broker) for broker in await background().awaited(lambda: self.plain.followers)]

    async def high_watermark(self) -> int:
        return await background().awaited(lambda: self.plain.high_watermark)

    wait = waits(PartitionHandle.wait)


class AsyncTopic(AsyncHandle[TopicHandle]):
    @property
    def name(self) -> str:
        return self.plain.name

    def partition(self, number: int) -> AsyncPartition:
        return AsyncPartition(self.plain.partition(number))

    async def partitions(self) -> list[AsyncPartition]:
        return [AsyncPartition(partition) for partition in await background().awaited(lambda: self.plain.partitions)]

    consumed_by = waits(TopicHandle.consumed_by)
    records = waits(TopicHandle.records)


class AsyncGroup(AsyncHandle[GroupHandle]):
    @property
    def name(self) -> str:
        return self.plain.name

    async def state(self) -> str:
        return await background().awaited(lambda: self.plain.state)

    async def members(self) -> list[str]:
        return await background().awaited(lambda: self.plain.members)

    stable = waits(GroupHandle.stable)
    committed = waits(GroupHandle.committed)


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

    allow = waits(UserHandle.allow)
    deny = waits(UserHandle.deny)
    revoke = waits(UserHandle.revoke)
    change_password = waits(UserHandle.change_password)
    delete = waits(UserHandle.delete)
