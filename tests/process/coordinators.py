"""The coordinator as a process of its own, for tests."""

from __future__ import annotations

import contextlib
import socket
import struct
from pathlib import Path
from typing import Any

from kazoo.client import KazooClient
from processes import Process, eventually

from barnabas.bench.apache import free_port
from barnabas.zk.protocol.frames import ConnectRequest, ConnectResponse, decode_reply_header, encode_request, framed
from barnabas.zk.protocol.ops import ZkOperation


class Coordinator(Process):
    def __init__(self, directory: Path, *options: str, name: str = "coordinator") -> None:
        self.port = free_port()
        data = str(directory / "data")
        super().__init__(name, directory, "coordinator", "--port", str(self.port), "--dir", data, *options)
        self.clients: list[KazooClient] = []

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def up(self) -> None:
        self.start()
        eventually(lambda: self.word("isro") == "rw", what="the coordinator answers")

    def word(self, word: str) -> str:
        with socket.create_connection(("127.0.0.1", self.port), timeout=60) as connection:
            connection.sendall(word.encode())
            return b"".join(iter(lambda: connection.recv(65536), b"")).decode()

    def client(self, timeout: float = 30.0, **options: Any) -> KazooClient:
        client = KazooClient(options.pop("hosts", self.address), timeout=timeout, **options)
        client.start(60)
        self.clients.append(client)
        return client

    def close(self) -> None:
        for client in self.clients:
            with contextlib.suppress(Exception):
                client.stop()
                client.close()
        if self.running:
            self.kill()


class Wire:
    """A client by hand: says exactly what a test wants, and goes without a word."""

    def __init__(
        self, coordinator: Coordinator, timeout_ms: int = 30_000, session: tuple[int, bytes] = (0, bytes(16))
    ) -> None:
        self.socket = socket.create_connection(("127.0.0.1", coordinator.port), timeout=60)
        self.socket.sendall(framed(ConnectRequest(timeout_ms, *session).encode()))
        self.connected = ConnectResponse.decode(self.frame())
        self.session = self.connected.session_id, self.connected.password

    def bytes(self, length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = self.socket.recv(length - len(data))
            assert part, "the coordinator closed the connection"
            data += part
        return data

    def frame(self) -> bytes:
        return self.bytes(*struct.unpack(">i", self.bytes(4)))

    def send(self, operation: ZkOperation[Any], xid: int = 1) -> None:
        self.socket.sendall(encode_request(xid, operation))

    def call(self, operation: ZkOperation[Any], xid: int = 1) -> tuple[int, int]:
        """(xid, error code) of the next frame, which need not be the answer."""
        self.send(operation, xid)
        return self.header()

    def header(self) -> tuple[int, int]:
        header = decode_reply_header(self.frame())
        return header.xid, header.code

    def closed(self) -> bool:
        with contextlib.suppress(ConnectionResetError):
            return self.socket.recv(1) == b""
        return True

    def __enter__(self) -> Wire:
        return self

    def __exit__(self, *_: object) -> None:
        self.socket.close()
