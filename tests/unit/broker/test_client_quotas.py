"""Filters and names of quota entities, and numbers as Java prints them."""

from __future__ import annotations

import pytest

from barnabas.broker.client_quotas import CLIENT_ID, IP, USER, components_of, matches
from barnabas.model.config import java_double
from barnabas.model.errors import ErrorCode, KafkaError

EXACT, DEFAULT, ANY = 0, 1, 2


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (0.0, "0.0"),
        (50.0, "50.0"),
        (0.001, "0.001"),
        (0.00012, "1.2E-4"),
        (9999999.5, "9999999.5"),
        (1e7, "1.0E7"),
        (-123456789.0, "-1.23456789E8"),
        (1.7976931348623157e308, "1.7976931348623157E308"),
        (float("inf"), "Infinity"),
    ],
)
def test_numbers_are_written_as_java_writes_them(value: float, text: str) -> None:
    assert java_double(value) == text


def test_a_filter_takes_names_defaults_and_anybody() -> None:
    kate, anybody, default = (
        components_of([part]) for part in ((USER, EXACT, "kate"), (USER, ANY, None), (USER, DEFAULT, None))
    )
    assert matches({USER: "kate"}, kate, strict=True)
    assert not matches({USER: None}, kate, strict=False)
    assert matches({USER: "kate", CLIENT_ID: "app"}, kate, strict=False)
    assert not matches({USER: "kate", CLIENT_ID: "app"}, kate, strict=True)
    assert matches({USER: None}, anybody, strict=True)
    assert matches({USER: None}, default, strict=True)
    assert not matches({USER: "kate"}, default, strict=True)
    assert not matches({CLIENT_ID: "app"}, anybody, strict=False)


@pytest.mark.parametrize(
    ("parts", "code"),
    [
        ([("", EXACT, "x")], ErrorCode.INVALID_REQUEST),
        ([("country", EXACT, "x")], ErrorCode.UNSUPPORTED_VERSION),
        ([(USER, EXACT, "a"), (USER, EXACT, "b")], ErrorCode.INVALID_REQUEST),
        ([(USER, EXACT, "a"), (IP, EXACT, "127.0.0.1")], ErrorCode.INVALID_REQUEST),
        ([(USER, 7, "a")], ErrorCode.INVALID_REQUEST),
    ],
)
def test_a_filter_that_means_nothing_is_refused(parts: list[tuple[str, int, str]], code: ErrorCode) -> None:
    with pytest.raises(KafkaError) as refused:
        components_of(parts)
    assert refused.value.code is code
