"""One broker as a process in the foreground: it starts, logs its addresses, and stops by a signal."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any, Final

from barnabas.broker.server import Broker
from barnabas.model.config import Config
from barnabas.runtime import Runtime, ended
from barnabas.wire.kernel import kernel

logger = logging.getLogger(__name__)

Notice = dict[str, Any]
STATUS_INTERVAL_S: Final = 1.0


class BrokerHalted(Exception):
    """The broker could not go on; the text says what failed."""


def ready_notice(broker: Broker) -> Notice:
    """Reports to the process that started the broker the broker's id and addresses."""
    return {
        "id": broker.broker_id,
        "cluster_id": broker.cluster_id,
        "epoch": broker.broker_epoch,
        "controller": broker.controller.is_active,
        "listeners": [str(endpoint) for endpoint in broker.listeners.advertised],
        "host": broker.listeners.advertised[0].host,
        "port": broker.listeners.advertised[0].port,
        "log_dirs": list(broker.log_dirs.paths),
    }


async def run_broker(
    runtime: Runtime,
    config: Config,
    stop: asyncio.Future[Any],
    *,
    on_ready: Callable[[Notice], None] | None = None,
    on_status: Callable[[dict[str, Any]], None] | None = None,
    beside: Callable[[Broker], Awaitable[Callable[[], None]]] | None = None,
    host_name: str = "localhost",
) -> None:
    """Runs one broker until `stop` is done, then shuts it down in order. Raises `BrokerHalted` when the broker fails.

    `on_status` gets changes of `Broker.status`, from the start's beginning and about once a second. `beside` starts
    tasks beside the started broker, and returns a function that ends them. An exception in `stop` means that an orderly
    end is impossible: the broker is ended, and the exception raised.
    """
    for name, near in config.unknown():
        hint = f" (did you mean {near}?)" if near else ""
        logger.warning("unknown configuration %s is not used%s", name, hint)
    broker = Broker(runtime, config, host_name=host_name)
    if kernel is not None:
        broker.request_channel.long_requests.turns.mark_passing = kernel.made_for
    if on_status is not None:
        broker.tasks.begin(_tell_status(broker, on_status), "status")
    if not await _started(broker, stop):
        return
    try:
        end_beside = None if beside is None else await beside(broker)
    except BaseException:
        await broker.shutdown()
        raise
    if on_status is not None:
        on_status(broker.status())
    if on_ready is not None:
        on_ready(ready_notice(broker))
    over: asyncio.Future[None] = asyncio.get_running_loop().create_future()

    def wake(_: object) -> None:
        if not over.done():
            over.set_result(None)

    stop.add_done_callback(wake)
    broker.failed.add_done_callback(wake)
    try:
        await over
    finally:
        stop.remove_done_callback(wake)
        if end_beside is not None:
            end_beside()
    if broker.failed.done():
        await broker.abort()
        raise BrokerHalted(f"Broker {broker.broker_id} halted: {broker.failed.result()!r}")
    error = stop.exception()
    if error is not None:
        await broker.abort()
        raise error
    if on_status is not None:
        on_status({**broker.status(), "state": "SHUTTING_DOWN"})  # at once, for a process that starts it again
    await broker.shutdown()


async def _started(broker: Broker, stop: asyncio.Future[Any]) -> bool:
    """Starts the broker; False if it was stopped before the start was complete. A start may wait for minutes."""
    starting = asyncio.get_running_loop().create_task(broker.startup(), name="startup")

    def give_up(_: object) -> None:
        starting.cancel()

    stop.add_done_callback(give_up)
    try:
        await ended(starting)
    finally:
        stop.remove_done_callback(give_up)
    if starting.cancelled():
        logger.info("[broker %d] stopped before it had started", broker.broker_id)
        error = stop.exception()
        if error is not None:
            raise error
        return False
    starting.result()
    return True


async def _tell_status(broker: Broker, on_status: Callable[[dict[str, Any]], None]) -> None:
    told: dict[str, Any] | None = None
    while True:
        status = broker.status()
        if status != told:
            told = status
            on_status(status)
        await asyncio.sleep(STATUS_INTERVAL_S)
