"""The sizes of a connection's buffers in the kernel, for sending and for receiving."""

from __future__ import annotations

import asyncio
import socket
from typing import NamedTuple


class SocketBuffers(NamedTuple):
    """Bytes; -1 leaves the size to the kernel."""

    send: int = -1
    receive: int = -1

    def size(self, transport: asyncio.BaseTransport) -> None:
        """Does nothing if `transport` has no socket."""
        connected = transport.get_extra_info("socket")
        if connected is not None:
            for option, size in ((socket.SO_SNDBUF, self.send), (socket.SO_RCVBUF, self.receive)):
                if size != -1:
                    connected.setsockopt(socket.SOL_SOCKET, option, size)
