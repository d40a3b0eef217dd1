"""A driver's process that ends when it likes."""

from __future__ import annotations

import os
import sys

import pytest

from barnabas.judge.drivers.process import Driver, DriverError


def test_a_driver_that_ended_with_words_it_did_not_read_is_closed_without_an_error() -> None:
    """What stood in the pipe's buffer was written again at the end, and failed in whoever closed it."""
    driver = Driver("deaf", [sys.executable, "-c", "import os; os.close(0); print('ready deaf 1.0', flush=True)"])
    assert driver.version == "deaf 1.0"
    with pytest.raises(DriverError, match="the driver deaf has ended"):
        driver.client("c", lambda when, words: None, "producer", "localhost:1", "all")
    driver.close()


def test_what_interrupts_the_run_does_not_reach_its_drivers() -> None:
    program = "import os, sys; print('ready', os.getsid(0), flush=True); sys.stdin.read()"
    driver = Driver("alone", [sys.executable, "-c", program])
    try:
        assert int(driver.version) != os.getsid(0)
    finally:
        driver.close()
