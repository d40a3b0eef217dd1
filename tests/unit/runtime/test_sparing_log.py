"""What whoever is outside can repeat is one line a minute, with a count."""

from __future__ import annotations

import asyncio
import logging
import weakref

import pytest
from turns import until

from barnabas.runtime import sparing_log
from barnabas.runtime.sparing_log import SparingLog


def test_the_first_line_of_a_cause_is_written_and_those_of_the_minute_behind_it_are_counted(
    caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sparing_log, "INTERVAL_S", 0.01)

    async def main() -> None:
        log = SparingLog(logging.getLogger("test"))
        for number in range(5):
            log.log("many", "number %d", number)
        log.log("one", "alone")
        assert [each.getMessage() for each in caplog.records] == ["number 0", "alone"]
        await asyncio.wait_for(until(lambda: len(caplog.records) == 3 and not log._counted), 20)
        log.log("many", "again")

    with caplog.at_level(logging.INFO):
        asyncio.run(main())
    said = [each.getMessage() for each in caplog.records]
    assert said == ["number 0", "alone", "number 4 (the last of 4 such within 0 s)", "again"]


class Held:
    """Stands for what a request made."""


def test_a_counted_line_keeps_nothing_of_the_request_it_tells_of() -> None:
    async def main() -> None:
        logger = logging.Logger("alone")  # below no handler that keeps the lines for a test to look at
        log = SparingLog(logger)

        def refuse() -> weakref.ref[Held]:
            made = Held()
            try:
                raise ValueError("refused")
            except ValueError as error:
                log.log("many", "not done: %s", error)
            return weakref.ref(made)

        assert [refuse()() for _ in range(3)] == [None, None, None]

    asyncio.run(main())
