"""A run on a cluster that ``barnabas up --secure`` has made: its clients come in by what its administrator has."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from cluster import barnabas

from barnabas.cli.app import run as command
from barnabas.judge.check import check
from barnabas.judge.client_config import FILES
from barnabas.judge.drivers.process import Driver
from barnabas.judge.drivers.programs import PROGRAMS, DriverUnavailable
from barnabas.judge.history import Op, Status, read
from barnabas.model.config import parse_properties

pytestmark = pytest.mark.long(2)


@pytest.fixture(scope="module")
def place(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Where the cluster is."""
    place = tmp_path_factory.mktemp("secured") / "c"
    done = barnabas("up", "-n", "1", "--secure", "--dir", str(place))
    assert done.returncode == 0, done.stderr
    yield place
    barnabas("down", "--kill", "--dir", str(place))


def test_clients_log_in_over_tls_and_what_they_see_is_judged(place: Path, tmp_path: Path) -> None:
    history = tmp_path / "history.parquet"
    words = ("--minutes", "0.2", "--clients", "1", "--driver", "barnabas.client,librdkafka", "--dir", str(place))
    assert command(["judge", "run", *words, "--history", str(history)]) == 0
    verdict = check(read(history))
    sent = verdict.history.rows(Op.SEND)
    drivers = {
        verdict.history.context.clients[process].driver
        for process in verdict.history.process[sent[verdict.history.status[sent] == Status.OK]]
    }
    assert drivers == {"barnabas.client", "librdkafka"}


@pytest.mark.parametrize("name", PROGRAMS)
def test_a_driver_is_given_what_it_logs_in_with(place: Path, name: str) -> None:
    settings = parse_properties((place / "security" / "admin.properties").read_text())
    try:
        driver = Driver(name, PROGRAMS[name](), FILES[name](settings))
    except DriverUnavailable as error:
        pytest.skip(str(error))
    try:
        heard: list[list[str]] = []
        port = json.loads((place / "cluster.json").read_text())["brokers"][0]["port"]
        bootstrap = f"127.0.0.1:{port}"
        made = barnabas("topic", "create", f"t-{name}", "--partitions", "1", "--dir", str(place))
        assert made.returncode == 0, made.stderr
        client = driver.client("c", lambda when, words: heard.append(words), "producer", bootstrap, "all")
        client.tell("send", f"t-{name}", 0, "-", 7)
        assert client.ask("close") == ["ok"]
        client.listen()
        assert heard == [["sent", "7", "ok", "0"]]
    finally:
        driver.close()
