"""Handlers of ZooKeeper's events: of one znode, of its children, of the session."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import TypeAlias

from barnabas.zk.protocol.frames import WatchEvent

Hook: TypeAlias = Callable[[], "Awaitable[None] | None"]
PersistentWatcher: TypeAlias = Callable[[WatchEvent], None]


def nothing() -> None:
    """The default for events that do not matter to a handler."""


@dataclass(frozen=True, slots=True)
class ZNodeChangeHandler:
    """Called when the znode at `path` is created, deleted or rewritten."""

    path: str
    handle_creation: Callable[[], None] = nothing
    handle_deletion: Callable[[], None] = nothing
    handle_data_change: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True)
class ZNodeChildChangeHandler:
    """Called when a child of `path` is created or deleted."""

    path: str
    handle_child_change: Callable[[], None] = nothing


@dataclass(frozen=True, slots=True)
class StateChangeHandler:
    """Called when a session has ended, before and after a new one is established, and when the servers refuse the
    login.

    Hooks may be coroutine functions; each is awaited before the next one is called.
    """

    name: str
    before_initializing_session: Hook = nothing
    after_initializing_session: Hook = nothing
    on_auth_failure: Hook = nothing
