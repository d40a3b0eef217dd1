"""A server's side of TLS between a TCP transport and a protocol, neither of which has to be changed for it.

Received bytes are decrypted straight into the protocol's own buffers (``asyncio.BufferedProtocol``), so that a large
request is copied no more often than without TLS. Written bytes are encrypted as the socket takes them: an answer to a
slow reader is held once, in plain, and bytes that are never read are never encrypted. (Decision 15 has the
alternatives.)

The protocol is connected when TCP is, so that it can count the connection and close it. `secured` tells it that the
handshake is done, and `insecure` that it failed and why; no byte is received or may be written before.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
from collections import deque
from collections.abc import Iterable
from typing import Any, Final, Protocol, cast

from barnabas.runtime.doors import Bytes, Clock

ARRIVED_BYTES: Final = 64 * 1024
ENCRYPTED_AT_ONCE: Final = 256 * 1024
"""How much is encrypted before a check whether the socket takes more."""
KEY_UPDATES_BYTES: Final = 16 * 1024
"""The bytes of answers that the peer may cause by key updates: each is answered, even if the peer does not read. That
is some six hundred updates; a peer needs the first after gigabytes with one key (RFC 8446, 5.5)."""
_HANDSHAKE_RECORD: Final = 0x16

_arrived: Final = bytearray(ARRIVED_BYTES)
_arrived_view: Final = memoryview(_arrived)


class SecuredProtocol(Protocol):
    """An ``asyncio.BufferedProtocol`` that is told of the TLS handshake."""

    def secured(self, certificate: bytes | None) -> None:
        """The handshake is done; `certificate` is the peer's, verified and in DER, if it showed one."""
        ...

    def insecure(self, reason: str) -> None:
        """The handshake failed, or a bad record arrived; the connection ends."""
        ...

    def connection_made(self, transport: asyncio.BaseTransport) -> None: ...
    def connection_lost(self, exc: Exception | None) -> None: ...
    def get_buffer(self, sizehint: int) -> memoryview: ...
    def buffer_updated(self, nbytes: int) -> None: ...
    def eof_received(self) -> bool | None: ...
    def pause_writing(self) -> None: ...
    def resume_writing(self) -> None: ...


class TlsTransport(asyncio.Transport, asyncio.BufferedProtocol):
    """The transport of `protocol`, and the protocol of a TCP transport.

    A client can resume its session of TLS 1.2, which Python's contexts always allow, and certificates are not
    checked again then. The session belongs to the same context, so a changed trust store ends it; and it lasts as
    long as its certificate, at most two hours.
    """

    def __init__(self, protocol: SecuredProtocol, context: ssl.SSLContext, clock: Clock) -> None:
        super().__init__()
        self._protocol = protocol
        self._clock = clock
        self._incoming = ssl.MemoryBIO()
        self._outgoing = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=True)
        self._raw: asyncio.Transport | None = None
        self._heard = False
        self._secured = False
        self._reading_paused = False
        self._writing_paused = False
        self._plain: deque[memoryview] = deque()
        self._plain_bytes = 0
        self._key_updates_bytes = 0
        self._closing = False

    # The protocol of the TCP transport

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._raw = cast(asyncio.Transport, transport)
        self._protocol.connection_made(self)

    def connection_lost(self, exc: Exception | None) -> None:
        self._closing = True
        self._plain.clear()
        self._protocol.connection_lost(exc)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _arrived_view

    def buffer_updated(self, nbytes: int) -> None:
        if self._closing:
            return
        if not self._heard:
            self._heard = True
            if _arrived[0] != _HANDSHAKE_RECORD:
                self._fail("it does not speak TLS, and this listener speaks nothing else")
                return
        self._incoming.write(_arrived_view[:nbytes])
        if self._secured or self._shake_hands():
            self._decrypt()

    def eof_received(self) -> bool:
        return bool(self._protocol.eof_received())

    def pause_writing(self) -> None:
        self._writing_paused = True
        self._protocol.pause_writing()

    def resume_writing(self) -> None:
        self._writing_paused = False
        self._encrypt()
        if not self._writing_paused:
            self._protocol.resume_writing()

    def _shake_hands(self) -> bool:
        try:
            self._tls.do_handshake()
        except ssl.SSLWantReadError:
            self._send()
            return False
        except ssl.SSLError as error:
            self._send()  # the alert for the other side
            self._fail(_reason(error))
            return False
        self._send()
        if self._tls.session_reused and self._has_expired():
            self._fail("its certificate has expired since its TLS session began")
            return False
        self._secured = True
        self._protocol.secured(self._tls.getpeercert(True))
        return not self._closing

    def _has_expired(self) -> bool:
        end = (self._tls.getpeercert() or {}).get("notAfter")
        return isinstance(end, str) and ssl.cert_time_to_seconds(end) * 1000 < self._clock.now_ms()

    def _decrypt(self) -> None:
        protocol, incoming, tls = self._protocol, self._incoming, self._tls
        try:
            while not (self._reading_paused or self._closing):
                buffer = protocol.get_buffer(-1)
                count = tls.read(len(buffer), cast(Any, buffer))
                if not count:  # the other side has closed TLS
                    if not protocol.eof_received():
                        self.close()
                    break
                protocol.buffer_updated(cast(int, count))
                if not (incoming.pending or tls.pending()):
                    break  # an exception here would take a fifth of a small request's time
        except ssl.SSLWantReadError:
            pass
        except ssl.SSLError as error:
            self._fail(_reason(error))
        if self._outgoing.pending:  # an alert, or key updates
            self._key_updates_bytes += self._outgoing.pending
            self._send()
            if self._key_updates_bytes > KEY_UPDATES_BYTES:
                self._fail("it updates its keys without end")

    def _fail(self, reason: str) -> None:
        if not self._closing:
            self._protocol.insecure(reason)
            self._closing = True
            self._plain.clear()
            assert self._raw is not None
            self._raw.close()

    def _encrypt(self) -> None:
        plain = self._plain
        while plain and not self._writing_paused:
            room = ENCRYPTED_AT_ONCE
            while plain and room > 0:
                view = plain[0]
                count = self._tls.write(view[:room])
                room -= count
                self._plain_bytes -= count
                if count == len(view):
                    plain.popleft()
                else:
                    plain[0] = view[count:]
            self._send()
        if self._closing and not plain:
            self._say_goodbye()

    def _send(self) -> None:
        if self._outgoing.pending:
            assert self._raw is not None
            self._raw.write(self._outgoing.read())

    def _say_goodbye(self) -> None:
        assert self._raw is not None
        # If a client of an older protocol takes no ticket, OpenSSL keeps the session of a connection that ended with a
        # close alert, up to 20,480 of them. Other sessions end with their connections in OpenSSL 3.0, but stay in 3.6.
        if self._secured and self._tls.version() == "TLSv1.3":
            with contextlib.suppress(ssl.SSLError):  # it waits for the other side's alert, which is not needed
                self._tls.unwrap()
            self._send()
        self._raw.close()

    # The transport of the protocol

    def write(self, data: Bytes) -> None:
        if self._closing or not len(data):
            return
        self._plain.append(memoryview(data))
        self._plain_bytes += len(data)
        self._encrypt()

    def writelines(self, list_of_data: Iterable[Bytes]) -> None:
        if self._closing:
            return
        for data in list_of_data:
            if len(data):
                self._plain.append(memoryview(data))
                self._plain_bytes += len(data)
        self._encrypt()

    def get_write_buffer_size(self) -> int:
        return self._plain_bytes + (0 if self._raw is None else self._raw.get_write_buffer_size())

    def pause_reading(self) -> None:
        self._reading_paused = True
        if self._raw is not None and not self._closing:
            self._raw.pause_reading()

    def resume_reading(self) -> None:
        self._reading_paused = False
        if self._raw is not None and not self._closing:
            self._raw.resume_reading()
            if self._secured:
                # Decrypts the bytes that arrived meanwhile, but not while the protocol's own call is running.
                asyncio.get_running_loop().call_soon(self._decrypt)

    def is_closing(self) -> bool:
        return self._closing

    def close(self) -> None:
        """Ends the connection after the written bytes are sent."""
        if not self._closing:
            self._closing = True
            if not self._plain:
                self._say_goodbye()

    def abort(self) -> None:
        self._closing = True
        self._plain.clear()
        if self._raw is not None:
            self._raw.abort()

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        if name == "sslcontext":
            return self._tls.context
        if name == "ssl_object":
            return self._tls
        return default if self._raw is None else self._raw.get_extra_info(name, default)


def _reason(error: ssl.SSLError) -> str:
    """The failure, for a line of the log."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    reason = (error.reason or str(error)).replace("_", " ").lower()
    for alert in ("tlsv1 alert ", "tlsv13 alert ", "sslv3 alert ", "ssl/tls alert "):
        if reason.startswith(alert):
            return f"TLS failed: it answered with the alert {reason.removeprefix(alert)!r}"
    return f"TLS failed: {reason}"
