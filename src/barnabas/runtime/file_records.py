"""Records that go from their file to a client's socket without passing through this process (``sendfile``)."""

from __future__ import annotations

import asyncio
import logging
import os
import socket
from typing import Final, Protocol

from barnabas.runtime.doors import Bytes, File

logger = logging.getLogger(__name__)

FILE_RECORDS_BYTES: Final = 64 * 1024
"""Fewer bytes than this are read: what it costs to send them from the file would be more."""
_MORE: Final[int] = getattr(socket, "MSG_MORE", 0)
"""Linux keeps the head for the packet of what comes next; elsewhere it may leave alone."""


class InFile(Protocol):
    """A segment, which opens its file again when it was closed meanwhile."""

    @property
    def file(self) -> File: ...


class FileRecords:
    """A part of a segment's file, as Kafka's class of that name. Its length is that of the part.

    A truncation may take it away once the loop does something else, which `read` then tells.
    """

    __slots__ = ("_length", "_segment", "position")

    def __init__(self, segment: InFile, position: int, length: int) -> None:
        self._segment = segment
        self.position = position
        self._length = length

    def __len__(self) -> int:
        return self._length

    @property
    def file(self) -> File:
        return self._segment.file

    def read(self, start: int = 0) -> bytes:
        """All from `start` on. Raises ``OSError``, ``EOFError`` where the file has no longer so much."""
        data = self.file.pread(self._length - start, self.position + start)
        if len(data) != self._length - start:
            raise EOFError(f"{self.file.path} was cut at {self.position + start + len(data)} while it was sent")
        return data


class FileSender:
    """Sends parts of files over one plain TCP connection, past its transport while that has nothing to send."""

    __slots__ = ("_socket", "_transport")

    def __init__(self, transport: asyncio.Transport) -> None:
        self._transport = transport
        # One of its own: what a transport shows of its socket refuses to send.
        self._socket = socket.socket(fileno=os.dup(transport.get_extra_info("socket").fileno()))

    @staticmethod
    def can_send_over(transport: asyncio.BaseTransport) -> bool:
        """Not with TLS, and not where there is no socket: there bytes have to pass through this process."""
        connected = transport.get_extra_info("socket") is not None and transport.get_extra_info("sslcontext") is None
        return connected and hasattr(os, "sendfile")

    def send(self, head: Bytes, records: FileRecords) -> None:
        """Sends both; what the socket does not take at once is read, and left to the transport.

        The connection ends where the file fails or is shorter than it was: the size of the answer is already told.
        """
        transport, sent = self._transport, 0
        try:
            if not transport.get_write_buffer_size():
                head = memoryview(head)[self._socket.send(head, _MORE) :]
                if not head:
                    sent = os.sendfile(self._socket.fileno(), records.file.fileno(), records.position, len(records))
        except BlockingIOError:
            pass  # the socket is full
        except OSError as error:
            logger.debug("not sent from the file: %s", error)  # the transport will meet it as well, and tell
        if head:
            transport.write(head)
        if sent < len(records):
            try:
                transport.write(records.read(sent))
            except (OSError, EOFError) as error:
                logger.warning("a connection is ended in the midst of an answer: %s", error)
                transport.abort()

    def close(self) -> None:
        self._socket.close()
