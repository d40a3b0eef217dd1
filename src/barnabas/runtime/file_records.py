"""Records that go from their file to a client's socket without passing through this process (``sendfile``)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.runtime.doors import Bytes, File

logger = logging.getLogger(__name__)

FILE_RECORDS_BYTES: Final = 64 * 1024
"""Fewer bytes than this are read, which costs less than sending them from the file."""
PIECE_BYTES: Final = 256 * 1024
"""How much of what the socket does not take is read and left to the transport, which tells when it is gone. It is more
than a transport takes silently (64 KiB)."""
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
"""Makes Linux send the head in one packet with what comes next; elsewhere the head may leave alone."""


class InFile(Protocol):
    """A segment, which opens its file again when it was closed meanwhile."""

    cuts: int
    """How often it was cut: other bytes may stand there since."""

    @property
    def file(self) -> File: ...


class FileRecords:
    """A part of a segment's file, as Kafka's class of that name. Its ``len`` is that of the part.

    A truncation may take the part away once the loop does something else; `read` then raises.
    """

    __slots__ = ("_cuts", "_length", "_segment", "position")

    def __init__(self, segment: InFile, position: int, length: int) -> None:
        self._segment = segment
        self._cuts = segment.cuts
        self.position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    @property
    def file(self) -> File:
        """Raises ``OSError``, ``EOFError`` where its segment was cut meanwhile."""
        if self._segment.cuts != self._cuts:
            raise EOFError(f"{self._segment.file.path} was cut while it was sent")
        return self._segment.file

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, `size` of them at most. Raises ``OSError``, ``EOFError`` where the file has become
        shorter."""
        size = self._length - start if size is None else min(size, self._length - start)
        data = self.file.pread(size, self.position + start)
        if len(data) != size:
            raise EOFError(f"{self.file.path} was cut at {self.position + start + len(data)} while it was sent")
        return data


class FileSender:
    """Sends parts of files over one plain TCP connection, past its transport while that has nothing to send.

    What the socket does not take stays in its file: a client that asks for fifty megabytes and reads none of them costs
    `PIECE_BYTES`. The protocol calls `go_on` when the transport has room again (``resume_writing``), and writes nothing
    past this while it `waits`.
    """

    __slots__ = ("_parts", "_sent", "_socket", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # A socket of its own: the one that a transport shows refuses to send.
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._parts: deque[Bytes | FileRecords] = deque()
        self._sent = 0
        """How many bytes of the first part are sent, where that is in a file."""

    @staticmethod
    def can_send_over(transport: asyncio.BaseTransport) -> bool:
        """Whether files can be sent: not with TLS or without a socket, where bytes pass through this process."""
        connected = transport.get_extra_info("socket") is not None and transport.get_extra_info("sslcontext") is None
        return connected and hasattr(os, "sendfile")

    @property
    def waits(self) -> bool:
        """Whether something is left that neither the socket nor the transport has taken."""
        return bool(self._parts)

    def send(self, parts: Sequence[Bytes | FileRecords]) -> None:
        """Sends them in their order.

        The connection ends where a file fails or has become shorter: the answer's size is already sent.
        """
        self._parts += parts
        self.go_on()

    def go_on(self) -> None:
        """Sends until all is sent, or the transport has a piece and will tell when that is gone."""
        transport, parts = self._transport, self._parts
        try:
            while parts and transport.get_write_buffer_size() < PIECE_BYTES:
                first = parts[0]
                if isinstance(first, FileRecords):
                    self._send_some(first)
                    if self._sent < len(first):
                        continue
                    self._sent = 0
                elif not self._send_head(first):
                    transport.write(first)
                parts.popleft()
        except (OSError, EOFError) as error:
            logger.warning("a connection is ended in the midst of an answer: %s", error)
            parts.clear()
            transport.abort()

    def _send_head(self, head: Bytes) -> bool:
        """Sends what comes before records in a file, in one packet with them; returns whether the socket took it."""
        if self._transport.get_write_buffer_size() or len(self._parts) < 2:
            return False
        try:
            sent = self._socket.send(head, _MORE)
        except OSError:  # the socket is full, or the transport will meet it as well, and tell
            return False
        if sent < len(head):
            self._transport.write(memoryview(head)[sent:])
        return True

    def _send_some(self, records: FileRecords) -> None:
        file, left = records.file, len(records) - self._sent
        if not self._transport.get_write_buffer_size():
            try:
                sent = os.sendfile(self._socket.fileno(), file.fileno(), records.position + self._sent, left)
            except BlockingIOError:
                pass  # the socket is full
            except OSError as error:
                logger.debug("not sent from the file: %s", error)  # the transport will meet it as well, and tell
            else:
                self._sent += sent
                if sent:
                    return
        piece = records.read(self._sent, PIECE_BYTES)
        if piece:
            self._transport.write(piece)
            self._sent += len(piece)

    def close(self) -> None:
        self._parts.clear()
        self._socket.close()
