"""The one cluster of both kinds of the tests here: its brokers are started once, and end with the last of them."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

import pytest
from apache import require
from mixed_brokers import BothKinds, both_kinds

_running = contextlib.ExitStack()


@pytest.fixture(scope="session")
def brokers(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[BothKinds]:
    """Its parameter is a `Shape`; those of 2 + 2 have Apache's brokers 0 and 1 and our 2 and 3."""
    require()
    with _running:
        yield _running.enter_context(both_kinds(tmp_path_factory.mktemp("both"), request.param))


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(nextitem: pytest.Item | None) -> None:
    """What runs after them, for a quarter of an hour, has the cores to itself."""
    if nextitem is None or nextitem.path.parent != Path(__file__).parent:
        _running.close()
