"""Long plays take turns: of the tests marked ``long``, ``--long=2/4`` runs the second of four shares.

``long(2)`` puts a module's tests, or one test, into one share, the third; tests that share a cluster or a Spark session
have one number. ``long`` alone spreads the cases of a test over all shares.
"""

from __future__ import annotations

from collections import Counter

import pytest
from shares import place

WAITING = pytest.StashKey[int]()


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--long", default="1/1", metavar="SHARE", help="which share of the long plays: 2/4, or head/4")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    first, of = place(config.getoption("--long"))
    seen = Counter[str]()
    taken, waiting = [], []
    for item in items:
        marker = item.get_closest_marker("long")
        number = first
        if marker is not None:
            test = item.nodeid.partition("[")[0]
            number = marker.args[0] if marker.args else seen[test]
            seen[test] += 1
        (taken if number % of == first else waiting).append(item)
    items[:] = taken
    config.stash[WAITING] = len(waiting)
    if waiting:
        config.hook.pytest_deselected(items=waiting)


def pytest_sessionfinish(session: pytest.Session, exitstatus: int) -> None:
    if exitstatus == pytest.ExitCode.NO_TESTS_COLLECTED and session.config.stash.get(WAITING, 0):
        session.exitstatus = pytest.ExitCode.OK


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter, config: pytest.Config) -> None:
    if config.stash.get(WAITING, 0):
        terminalreporter.write_line(
            f"{config.stash[WAITING]} tests of long plays are in other shares than {config.getoption('--long')};"
            " make test LONG=1/1 runs them as well"
        )
