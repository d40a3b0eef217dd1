"""Runs one broker of a test's cluster as a process: ``python -m barnabas.testing.node PROPERTIES READY ACKNOWLEDGED``.

It ends together with the process that started it.
"""

from __future__ import annotations

import asyncio
import ctypes
import logging
import os
import signal
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from barnabas.broker.server import Broker
from barnabas.model.config import broker_config, parse_properties
from barnabas.runtime.event_loop import fastest_loop
from barnabas.runtime.real import real_runtime
from barnabas.testing.injection import Injections, instrument
from barnabas.testing.network import Links
from barnabas.testing.processes import WrittenHistory

_PR_SET_PDEATHSIG: Final = 1


def end_with_parent() -> None:
    """Lets the kernel end this process with its parent (on Linux): a paused process would not notice its parent's
    death."""
    if sys.platform == "linux":
        ctypes.CDLL(None).prctl(_PR_SET_PDEATHSIG, ctypes.c_ulong(signal.SIGKILL))


async def run(values: Mapping[str, str], ready: str, acknowledged: str) -> int:
    loop = asyncio.get_running_loop()
    over: asyncio.Future[None] = loop.create_future()

    def end(_: object = None) -> None:
        if not over.done():
            over.set_result(None)

    loop.add_signal_handler(signal.SIGTERM, end)
    parent = os.getppid()
    broker = Broker(real_runtime(), broker_config(values))
    instrument(broker, Injections(Links()), WrittenHistory(acknowledged))
    broker.failed.add_done_callback(end)
    await broker.startup()
    os.close(os.open(ready, os.O_CREAT | os.O_WRONLY))

    async def watch_parent() -> None:
        while os.getppid() == parent:  # noqa: ASYNC110
            await asyncio.sleep(0.5)
        os._exit(1)

    watching = loop.create_task(watch_parent())
    await over
    watching.cancel()
    if broker.failed.done():
        await broker.abort()
        return 1
    await broker.shutdown()
    return 0


def main(properties: str, ready: str, acknowledged: str) -> int:
    logging.basicConfig(stream=sys.stderr, level=logging.INFO, format="%(created).3f %(message)s")
    end_with_parent()
    values = parse_properties(Path(properties).read_text())
    with asyncio.Runner(loop_factory=fastest_loop()) as runner:
        return runner.run(run(values, ready, acknowledged))


if __name__ == "__main__":
    sys.exit(main(*sys.argv[1:]))
