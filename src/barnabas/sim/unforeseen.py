"""S4: exceptions that the product caught, logged as an error, and did not foresee. It goes on, so nobody else would
notice."""

from __future__ import annotations

import logging
from types import TracebackType
from typing import Final, Self

from barnabas.model.errors import ConfigError, KafkaError
from barnabas.sim.world.probes import node
from barnabas.sim.world.world import World
from barnabas.zk.protocol.errors import ZooKeeperError

_FORESEEN: Final = (KafkaError, OSError, ConfigError)


def _is_foreseen(error: Exception) -> bool:
    """ZooKeeper may not answer. An answer that the operation is impossible means that the product asked for the wrong
    thing."""
    return error.passing if isinstance(error, ZooKeeperError) else isinstance(error, _FORESEEN)


class Unforeseen(logging.Handler):
    """While entered, looks at every error that is logged with its exception; nothing else is logged for it."""

    def __init__(self, world: World) -> None:
        super().__init__(logging.ERROR)
        self.world = world
        self._disabled = 0
        self._handlers: list[logging.Handler] = []

    def __enter__(self) -> Self:
        root = logging.getLogger()
        self._disabled, self._handlers = root.manager.disable, root.handlers[:]
        if self._disabled >= logging.ERROR:  # the caller wants to see no log
            logging.disable(logging.WARNING)
            root.handlers.clear()
        root.addHandler(self)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        logging.getLogger().handlers[:] = self._handlers
        logging.disable(self._disabled)

    def emit(self, record: logging.LogRecord) -> None:
        error = record.exc_info[1] if record.exc_info else None
        if error is None or not isinstance(error, Exception) or _is_foreseen(error):
            return
        name, world = node(), self.world
        sentence = f"{name} logged: {record.getMessage()}: {error!r}"
        if world.faults.get("bit-rot"):
            world.excuse("S4", sentence, node=name)  # what cannot be read is told of, and left as it is
        else:
            world.violated("S4", sentence, node=name)
