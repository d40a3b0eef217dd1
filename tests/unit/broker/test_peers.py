"""Connections to other brokers: what those do that should not be."""

from __future__ import annotations

import asyncio

import pytest

from barnabas.broker.peers import Peers
from barnabas.client.connection import Connection
from barnabas.model.cluster import Endpoint
from barnabas.model.errors import ErrorCode
from barnabas.runtime.real import real_runtime
from barnabas.wire.frames import decode_request_header, encode_response
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.heartbeat import HeartbeatRequest


def test_one_that_refuses_to_tell_its_versions_cannot_be_reached() -> None:
    """No story of a broker expects another error here, and one that nobody expects halts the broker."""

    async def refuse(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        size = int.from_bytes(await reader.readexactly(4), "big")
        header, _ = decode_request_header(bytearray(await reader.readexactly(size)))
        refusal = ApiVersionsResponse(error_code=ErrorCode.INVALID_REQUEST)
        writer.writelines(encode_response(refusal, header.api_version, header.correlation_id))
        await writer.drain()
        writer.close()

    async def main() -> None:
        server = await asyncio.start_server(refuse, "127.0.0.1", 0)
        endpoint = Endpoint("PLAINTEXT", "127.0.0.1", server.sockets[0].getsockname()[1])
        peers = Peers(
            lambda to, client_id: Connection(real_runtime(), to.host, to.port, client_id),
            lambda broker_id: endpoint,
            "test",
            negotiate=True,
            request_timeout_ms=10_000,
        )
        with pytest.raises(ConnectionError, match="refused ApiVersions"):
            await peers.send(1, HeartbeatRequest())
        peers.close()
        server.close()

    asyncio.run(main())
