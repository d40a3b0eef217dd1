"""A server's sessions: their ids, their timeouts, and the connection of each.

Pure: the caller gives the monotonic time. Only this module's timeout ends a session; a broken connection does not. A
session outlives the server as well: recovery restores it, and its timeout begins anew.
"""

from __future__ import annotations

from typing import Generic, TypeVar

C = TypeVar("C")


class Session(Generic[C]):
    __slots__ = ("connection", "heard_ms", "id", "password", "timeout_ms")

    def __init__(self, session_id: int, password: bytes, timeout_ms: int, now_ms: int) -> None:
        self.id = session_id
        self.password = password
        self.timeout_ms = timeout_ms
        self.heard_ms = now_ms
        """When its client sent something last."""
        self.connection: C | None = None

    @property
    def expires_ms(self) -> int:
        return self.heard_ms + self.timeout_ms


class Sessions(Generic[C]):
    def __init__(self, *, timeout_min_ms: int, timeout_max_ms: int) -> None:
        assert 0 < timeout_min_ms <= timeout_max_ms
        self.timeout_min_ms = timeout_min_ms
        self.timeout_max_ms = timeout_max_ms
        self.live: dict[int, Session[C]] = {}
        self.last_id = 0

    def __len__(self) -> int:
        return len(self.live)

    def negotiate(self, timeout_ms: int) -> int:
        """The timeout that a client gets, given the one it asks for."""
        return min(max(timeout_ms, self.timeout_min_ms), self.timeout_max_ms)

    def next_id(self, wall_clock_ms: int) -> int:
        """A session id that was never given before, even across restarts and after the wall clock went back."""
        return max(self.last_id + 1, 1 << 56 | (wall_clock_ms & 0xFFFFFFFFFF) << 16)

    def open(self, session_id: int, password: bytes, timeout_ms: int, now_ms: int) -> Session[C]:
        session: Session[C] = Session(session_id, password, timeout_ms, now_ms)
        self.live[session_id] = session
        self.last_id = max(self.last_id, session_id)
        return session

    def reopen(self, session_id: int, password: bytes, timeout_ms: int, now_ms: int) -> Session[C] | None:
        """The session of a client that reconnects; None if it has expired or the password is wrong."""
        from hmac import compare_digest  # only a reconnect needs it, and a start is quicker without

        session = self.live.get(session_id)
        if session is None or not compare_digest(session.password, password):
            return None
        session.timeout_ms = self.negotiate(timeout_ms)
        session.heard_ms = now_ms
        return session

    def close(self, session_id: int) -> Session[C] | None:
        return self.live.pop(session_id, None)

    def expired(self, now_ms: int) -> list[Session[C]]:
        """The sessions silent for longer than their timeout, in the order in which they were opened."""
        return [session for session in self.live.values() if session.heard_ms + session.timeout_ms <= now_ms]

    def next_expiry_ms(self) -> int | None:
        """When the next session expires if its client stays silent."""
        return min((session.expires_ms for session in self.live.values()), default=None)

    def forgive(self, lost_ms: int) -> None:
        """Extends all sessions by a pause of the server itself: it has not read what clients sent meanwhile."""
        for session in self.live.values():
            session.heard_ms += lost_ms
