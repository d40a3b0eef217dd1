"""Records that stay in their file until a client's socket takes them: by ``sendfile``, or with TLS piece by piece."""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import socket
from collections import deque
from collections.abc import Sequence
from typing import Final, Protocol

from barnabas.runtime.doors import Bytes, File

logger = logging.getLogger(__name__)

FILE_RECORDS_BYTES: Final = 64 * 1024
"""Fewer bytes than this are read: that takes less time than to send them from the file."""
PIECE_BYTES: Final = 32 * 1024
"""The size of a piece that the transport gets if the kernel cannot send a file: it stays in a core's cache until it is
encrypted and sent."""
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
"""Makes Linux send the head in one packet with the next bytes; elsewhere the head may go out alone."""


class InFile(Protocol):
    """A segment, which opens its file again if it was closed meanwhile."""

    cuts: int
    """How often it was truncated: the file may have other bytes after that."""

    @property
    def file(self) -> File: ...


class FileRecords:
    """A part of a segment's file, as Kafka's class of that name. Its ``len`` is that of the part.

    A truncation may remove the part as soon as the loop runs other code; `read` then raises.
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
        """The segment's file. Raises ``OSError``, ``EOFError`` if the segment was truncated meanwhile."""
        if self._segment.cuts != self._cuts:
            raise EOFError(f"{self._segment.file.path} was cut while it was sent")
        return self._segment.file

    def read(self, start: int = 0, size: int | None = None) -> bytes:
        """The bytes from `start` on, `size` of them at most. Raises ``OSError``, ``EOFError`` if the file has become
        shorter."""
        size = self._length - start if size is None else min(size, self._length - start)
        data = self.file.pread(size, self.position + start)
        if len(data) != size:
            raise EOFError(f"{self.file.path} was cut at {self.position + start + len(data)} while it was sent")
        return data


class SendsFiles(Protocol):
    """An owner of file parts that wait for a slowly reading client."""

    def files_wait(self) -> None:
        """The socket is full: the next bytes have to be sent through here as well, to keep their order."""
        ...

    def files_sent(self) -> None:
        """All waiting parts are sent."""
        ...


class FileSender:
    """Sends parts of files over one TCP connection: directly to the socket while the transport has nothing to send;
    with TLS through the transport, in pieces.

    Bytes that the socket does not accept stay in their file and are sent piece by piece as the client reads. The
    protocol writes nothing else while this `waits`.
    """

    __slots__ = ("_by_kernel", "_loop", "_owner", "_parts", "_sent", "_socket", "_transport", "waits")

    def __init__(self, transport: asyncio.Transport, owner: SendsFiles) -> None:
        self._transport = transport
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        # A duplicate of the socket: the one that a transport exposes refuses to send.
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))
        self._by_kernel = hasattr(os, "sendfile") and transport.get_extra_info("sslcontext") is None
        self._parts: deque[Bytes | FileRecords] = deque()
        self._sent = 0
        """How many bytes of the first part are sent, if that is in a file."""
        self.waits = False
        """Whether parts wait until the socket has room."""

    @staticmethod
    def can_send_over(transport: asyncio.BaseTransport) -> bool:
        """Whether the transport has a socket, which signals when it has room."""
        return transport.get_extra_info("socket") is not None

    @property
    def unsent_bytes(self) -> int:
        return sum(map(len, self._parts)) - self._sent

    def send(self, parts: Sequence[Bytes | FileRecords]) -> None:
        """Sends the parts in order.

        The connection ends if a file fails or has become shorter: the answer's size is already sent.
        """
        self._parts += parts
        if not self.waits and not self._take_all():
            self.waits = True
            self._loop.add_writer(self._socket.fileno(), self._go_on)
            self._owner.files_wait()

    def _go_on(self) -> None:
        if self._take_all() and self.waits:
            self._wait_no_more()
            self._owner.files_sent()

    def _wait_no_more(self) -> None:
        if self.waits:
            self.waits = False
            self._loop.remove_writer(self._socket.fileno())

    def _take_all(self) -> bool:
        """Sends until no part is left; False if the socket is full before that."""
        transport, parts = self._transport, self._parts
        try:
            while parts:
                first = parts[0]
                # The transport's own buffer goes first; it is written, too, when the socket has room.
                if transport.get_write_buffer_size():
                    return False
                if not isinstance(first, FileRecords):
                    self._send_head(first)
                elif not self._send_some(first):
                    return False
                self._sent = 0
                parts.popleft()
        except (OSError, EOFError) as error:
            logger.warning("a connection is ended in the midst of an answer: %s", error)
            parts.clear()
            self._wait_no_more()
            transport.abort()
        return True

    def _send_head(self, head: Bytes) -> None:
        """Sends bytes; bytes before records in a file go in one packet with them. The transport gets the rest."""
        sent = 0
        if self._by_kernel and len(self._parts) > 1:
            with contextlib.suppress(OSError):  # the socket is full, or the transport will get and report the error
                sent = self._socket.send(head, _MORE)
        if sent < len(head):
            self._transport.write(memoryview(head)[sent:])

    def _send_some(self, records: FileRecords) -> bool:
        """Sends as much of a part in a file as the socket takes; False if that is not all."""
        left = len(records) - self._sent
        try:
            sent = self._send_by_kernel(records, left) if self._by_kernel else 0
        except BlockingIOError:
            return False
        if not sent:
            piece = records.read(self._sent, PIECE_BYTES)
            self._transport.write(piece)
            sent = len(piece)
        self._sent += sent
        return sent == left

    def _send_by_kernel(self, records: FileRecords, left: int) -> int:
        """How many bytes the socket took; 0 if it takes none from a file."""
        file = records.file
        try:
            return os.sendfile(self._socket.fileno(), file.fileno(), records.position + self._sent, left)
        except BlockingIOError:
            raise
        except OSError as error:
            logger.debug("not sent from the file: %s", error)  # the transport will get and report it
            return 0

    def close(self) -> None:
        self._parts.clear()
        self._wait_no_more()
        self._socket.close()
