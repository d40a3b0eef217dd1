from __future__ import annotations

from barnabas.zk.server.sessions import Sessions

PASSWORD = b"p" * 16


def sessions() -> Sessions[str]:
    return Sessions(timeout_min_ms=1_000, timeout_max_ms=40_000)


def test_a_timeout_is_negotiated_within_the_bounds() -> None:
    bounds = sessions()
    assert [bounds.negotiate(asked) for asked in (-1, 500, 18_000, 90_000)] == [1_000, 1_000, 18_000, 40_000]


def test_a_session_expires_after_its_own_silence() -> None:
    live = sessions()
    live.open(1, PASSWORD, 5_000, 0)
    live.open(2, PASSWORD, 9_000, 0)
    live.live[1].heard_ms = 3_000
    assert live.next_expiry_ms() == 8_000
    assert [session.id for session in live.expired(7_999)] == []
    assert [session.id for session in live.expired(8_000)] == [1]
    assert [session.id for session in live.expired(9_000)] == [1, 2]


def test_a_client_gets_its_session_back_only_with_the_password() -> None:
    live = sessions()
    live.open(1, PASSWORD, 5_000, 0)
    assert live.reopen(1, b"q" * 16, 5_000, 100) is None
    assert live.reopen(2, PASSWORD, 5_000, 100) is None
    back = live.reopen(1, PASSWORD, 6_000, 100)
    assert back is live.live[1]
    assert back.expires_ms == 6_100


def test_a_closed_session_never_comes_back() -> None:
    live = sessions()
    live.open(1, PASSWORD, 5_000, 0)
    assert live.close(1) is not None
    assert live.reopen(1, PASSWORD, 5_000, 100) is None
    assert live.close(1) is None


def test_session_ids_rise_even_when_the_wall_clock_goes_back() -> None:
    live = sessions()
    first = live.next_id(1_800_000_000_000)
    live.open(first, PASSWORD, 5_000, 0)
    live.close(first)
    assert live.next_id(1_700_000_000_000) == first + 1


def test_time_in_which_the_server_stood_still_counts_against_nobody() -> None:
    live = sessions()
    live.open(1, PASSWORD, 5_000, 0)
    live.forgive(60_000)
    assert live.expired(64_999) == []
    assert [session.id for session in live.expired(65_000)] == [1]
