"""A driver's process, and the clients in it. Each line begins with a client's name; words have no spaces.

The lines to the driver and its answers:

- ``NAME producer BOOTSTRAP ACKS``, ``NAME transactor BOOTSTRAP ID TIMEOUT_MS`` and ``NAME consumer BOOTSTRAP GROUP
  TOPIC ISOLATION`` begin a client: a producer (idempotent with acks ``all``), one of transactions, a group's member.
  ``NAME copier BOOTSTRAP ID TIMEOUT_MS GROUP TOPIC`` begins one that is the last two in one.
- ``send TOPIC PARTITION KEY VALUE`` (``-``: no key) is answered by ``sent VALUE ok OFFSET``, with offset -1 where the
  client was not told, or by ``sent VALUE failed|unknown ERROR``, in any order.
- ``init``, ``begin``, ``flush``, ``commit``, ``abort``, ``poll MS``, ``commit-offsets`` and ``close`` are done one
  after another. Each ends with ``done ok``, or with ``done failed|unknown NEXT ERROR``, where NEXT is ``again`` (the
  same word may be said again), ``abort``, or ``over`` (this client is of no more use).

A copier's ``send-offsets`` commits, in its transaction, what its last poll has come to; its ``rewind`` goes back to
where that began, and says ``rewound TOPIC PARTITION OFFSET`` for each partition that it still has.

A consumer says ``assigning`` before it asks where its group is, and waits for ``go``; then ``assigned TOPIC PARTITION
OFFSET`` (-1: nothing is committed, ``?``: not known), ``read TOPIC PARTITION OFFSET KEY VALUE`` for each record of a
poll, and ``committed TOPIC PARTITION OFFSET ok|failed|unknown ERROR``.

``failed`` certainly did not happen, and will not. Times are taken here: a word's before it is said, a line's when it
has come, so that an operation lies within the times of its row.
"""

from __future__ import annotations

import queue
import subprocess
import tempfile
import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Final

from barnabas.judge.journal import now

SILENT_S: Final = 90
"""How long a client may take for a command; after that the outcome is unknown, and the client is given up."""
_START_S: Final = 120
_END_S: Final = 10

Hear = Callable[[int, list[str]], None]


class DriverError(Exception):
    """The driver did not start, or it ended; that is not a broker's fault."""


class Driver:
    """Starts the process. Threads may share it; each client belongs to one thread. Raises `DriverError`."""

    def __init__(self, name: str, command: Sequence[str], config: str | None = None) -> None:
        """`config` is the text of a file, named to the program, with the settings that secure connections."""
        self.name = name
        self._errors = tempfile.TemporaryFile()  # noqa: SIM115
        self._config = tempfile.NamedTemporaryFile("w", encoding="utf-8")  # noqa: SIM115 - its owner's alone
        if config is not None:
            self._config.write(config)
            self._config.flush()
            command = [*command, self._config.name]
        try:
            # In a session of its own, so that Ctrl-C does not reach it: it ends the run, and the run ends the driver's
            # clients.
            self._process = subprocess.Popen(
                command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=self._errors, text=True, bufsize=1,
                start_new_session=True,
            )  # fmt: skip
        except OSError as error:
            raise DriverError(f"the driver {name} does not start: {error}") from None
        self._clients: dict[str, Speaker] = {}
        self._lock = threading.Lock()
        self._ready = threading.Event()
        self.version = ""
        """The client's name and version, by the driver."""
        self._reader = threading.Thread(target=self._read, daemon=True)
        self._reader.start()
        if not self._ready.wait(_START_S) or not self.version:
            self.close()
            raise DriverError(f"the driver {name} did not start: {self._said()}")

    def client(self, name: str, hear: Hear, *begin: object) -> Speaker:
        """Starts a client. For each of its lines except ``done``, calls `hear` with the time of arrival and the
        words."""
        with self._lock:
            once = f"{name}.{len(self._clients)}"
            made = self._clients[once] = Speaker(self, once, hear)
        made.tell(*begin)
        return made

    def write(self, line: str) -> None:
        assert self._process.stdin is not None
        try:
            with self._lock:
                self._process.stdin.write(line)
                self._process.stdin.flush()
        except (OSError, ValueError):
            raise DriverError(self.ended()) from None

    def ended(self) -> str:
        return f"the driver {self.name} has ended: {self._said()}"

    def kill(self) -> None:
        self._process.kill()

    def close(self) -> None:
        if self._process.stdin is not None:
            with suppress(BrokenPipeError):  # of words that an ended driver did not read
                self._process.stdin.close()
        try:
            self._process.wait(_END_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_END_S)
        self._config.close()

    def _said(self) -> str:
        self._errors.seek(0)
        return self._errors.read().decode(errors="replace").strip()[-800:] or "it said nothing"

    def _read(self) -> None:
        assert self._process.stdout is not None
        for line in self._process.stdout:
            when = now()
            name, _, rest = line.rstrip("\n").partition(" ")
            if name == "ready":
                self.version = rest
                self._ready.set()
            else:
                self._clients[name].lines.put((when, rest.split(" ")))
        self._ready.set()
        with self._lock:
            for speaker in self._clients.values():
                speaker.lines.put(None)


class Speaker:
    """One client of a driver, for the thread that controls it."""

    def __init__(self, driver: Driver, name: str, hear: Hear) -> None:
        self._driver, self._name, self._hear = driver, name, hear
        self.lines: queue.SimpleQueue[tuple[int, list[str]] | None] = queue.SimpleQueue()
        self._silent = False

    def tell(self, *words: object) -> None:
        self._driver.write(f"{self._name} {' '.join(map(str, words))}\n")

    def ask(self, *words: object) -> list[str]:
        """Sends a command; returns the words after ``done``. A client that was silent once is not waited for again.
        Raises `DriverError`."""
        self.tell(*words)
        while not self._silent:
            try:
                line = self.lines.get(timeout=SILENT_S)
            except queue.Empty:
                self._silent = True
            else:
                if (said := self._taken(line)) is not None:
                    return said
        return ["unknown", "over", "SILENT"]

    def listen(self) -> None:
        """Handles the lines that have arrived, without waiting."""
        while not self.lines.empty():
            self._taken(self.lines.get())

    def _taken(self, line: tuple[int, list[str]] | None) -> list[str] | None:
        if line is None:
            raise DriverError(self._driver.ended())
        when, words = line
        if words[0] == "done":
            return words[1:]
        self._hear(when, words)
        return None
