"""``barnabas zk watch``: prints changes of znodes as they happen. Also keeps a session until the command is
interrupted."""

from __future__ import annotations

import asyncio
import signal
import sys
import time
from collections import deque
from datetime import UTC, datetime
from typing import Annotated, Any, Final

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import READER_CHECK_S, CommandError, Format, look_for_reader, print_json
from barnabas.cli.zk_tree import summary
from barnabas.cli.zookeeper import HERE, ZooKeeperReach, checked_path, data_fields, with_zookeeper
from barnabas.runtime import Condition
from barnabas.zk.client.client import ConnectionState, StateChangeHandler, ZooKeeperClient
from barnabas.zk.protocol.data import EventType, Stat
from barnabas.zk.protocol.errors import NoAuth, NoNode, SessionExpired, Unimplemented
from barnabas.zk.protocol.frames import WatchEvent

EVENTS_MAX: Final = 100_000
"""Events that may wait to be printed."""
_NAMES: Final = {
    EventType.NONE: "reconnected",
    EventType.NODE_CREATED: "created",
    EventType.NODE_DELETED: "deleted",
    EventType.NODE_DATA_CHANGED: "changed",
    EventType.NODE_CHILDREN_CHANGED: "children",
}


class Interrupt:
    """Waits for SIGINT and SIGTERM while a command runs."""

    def __init__(self) -> None:
        self.came = False
        self.changed = Condition()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGINT, signal.SIGTERM):
            loop.add_signal_handler(number, self._take)

    def _take(self) -> None:
        self.came = True
        self.changed.notify()


async def until_interrupted(client: ZooKeeperClient, interrupt: Interrupt) -> None:
    """Keeps the session until the interrupt. Raises `SessionExpired` if the server ends the session first."""
    expired = StateChangeHandler("barnabas zk", before_initializing_session=interrupt.changed.notify)
    client.register_state_change_handler(expired)
    session_id = client.session_id
    while not interrupt.came:
        if client.session_id != session_id or client.state is ConnectionState.EXPIRED:
            raise SessionExpired(None)
        await interrupt.changed


def watch(
    path: Annotated[str, Argument(metavar="[PATH]")] = "/",
    recursive: Annotated[bool, Option("-r", "--recursive", help="Also watch everything below it.")] = False,
    count: Annotated[int | None, Option("-n", "--count", metavar="N", help="Stop after N events.")] = None,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Print changes of a znode and its children as they happen, until the command is interrupted."""
    path = checked_path(path)

    async def story(client: ZooKeeperClient) -> None:
        events: deque[tuple[int, WatchEvent]] = deque()
        interrupt = Interrupt()

        def take(event: WatchEvent) -> None:
            events.append((time.time_ns() // 1_000_000, event))
            interrupt.changed.notify()

        try:
            await client.add_watch(path, take, recursive=recursive)
        except Unimplemented:
            raise CommandError(
                "This server has no persistent watches: they came with ZooKeeper 3.6. Look again with `barnabas zk ls`."
            ) from None
        shown = 0
        while not interrupt.came and (count is None or shown < count):
            if not events:
                look_for_reader()
                timer = asyncio.get_running_loop().call_later(READER_CHECK_S, interrupt.changed.notify)
                await interrupt.changed
                timer.cancel()
                continue
            if len(events) > EVENTS_MAX:
                raise CommandError(
                    f"More than {EVENTS_MAX} events wait to be printed: watch a smaller part of the tree."
                )
            happened_ms, event = events.popleft()
            await _show(client, happened_ms, event, output)
            shown += 1

    with_zookeeper(at.where(), story)


async def _show(client: ZooKeeperClient, happened_ms: int, event: WatchEvent, output: Format) -> None:
    """Prints one event with the znode's present data, which may be newer than the event."""
    data: bytes | None = None
    stat: Stat | None = None
    if event.type in (EventType.NODE_CREATED, EventType.NODE_DATA_CHANGED):
        try:
            data, stat = await client.get(event.path)
        except (NoNode, NoAuth):
            stat = None  # deleted by now, or not readable by us: the event is printed all the same
    when = datetime.fromtimestamp(happened_ms / 1000, UTC).isoformat(timespec="milliseconds")
    name = _NAMES.get(EventType(event.type), str(event.type))
    if output is Format.json:
        fields: dict[str, Any] = {"time": when, "event": name, "path": event.path}
        if stat is not None:
            fields |= {**data_fields(data), "version": stat.version}
        print_json(fields)
        sys.stdout.flush()
        return
    words = [when[11:23], f"{name:11}", event.path]
    if stat is not None:
        words.append(f"version {stat.version}")
        words.append(summary(event.path, data))
    if event.type == EventType.NONE:
        words.append("(changes in between are not shown)")
    print(" ".join(words).rstrip(), flush=True)
