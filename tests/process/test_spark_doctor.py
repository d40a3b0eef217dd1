"""``barnabas spark doctor`` on living clusters: each option that its help has, once at least."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from cluster import barnabas

from barnabas.cli.app import run
from barnabas.cli.local_state import STATE_FILE, BrokerState, ClusterState
from barnabas.testing import KafkaCluster

pytest.importorskip("pyspark")
pytestmark = pytest.mark.spark

PASSWORDS = {"etl": "of the source", "reader": "may not write"}
ON_SPARK = ["--master", "local[2]"]
for _each in ("spark.sql.shuffle.partitions=2", "spark.sql.codegen.wholeStage=false"):  # compiling takes most of it
    ON_SPARK += ["--conf", _each]
STAGES = re.compile(r"\w+: \d+ of \d+ tasks, ")
OPTION = re.compile(r"^  (-\S.*?)(?: [A-Z][^ a-z]*| text\|json| TEXT)?(?:  |$)", re.MULTILINE)


class Ran(NamedTuple):
    code: int
    out: str
    err: str


class Clusters(NamedTuple):
    """Of one broker each; the one with users has files of client properties for them."""

    secured: KafkaCluster
    plain: KafkaCluster
    directory: Path

    def login(self, user: str) -> str:
        return str(self.directory / f"{user}.properties")


Doctor = Callable[..., Ran]
_used: set[str] = set()
"""The options that tests here have given."""


@pytest.fixture(scope="module")
def clusters(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Clusters]:
    directory = tmp_path_factory.mktemp("clusters")
    with KafkaCluster(1, users=PASSWORDS) as secured, KafkaCluster(1) as plain:
        for cluster in (secured, plain):
            cluster.create_topic("orders", partitions=2)
        secured.user("etl").allow()
        secured.user("etl").allow("cluster")
        secured.user("reader").allow("topic:orders", "read", "describe")
        for user in PASSWORDS:
            properties = secured.user(user).properties()
            file = directory / f"{user}.properties"
            file.write_text("".join(f"{name}={value}\n" for name, value in properties.items()))
        yield Clusters(secured, plain, directory)


@pytest.fixture
def doctor(capsys: pytest.CaptureFixture[str]) -> Doctor:
    def command(*words: str | Path) -> Ran:
        given = [*map(str, words)]
        _used.update(word for word in given if word.startswith("-"))
        code = run(["spark", "doctor", *given])
        out, err = capsys.readouterr()
        return Ran(code, out, "".join(line for line in err.splitlines(keepends=True) if not STAGES.match(line)))

    return command


def findings(ran: Ran) -> dict[str, dict[str, Any]]:
    return {each["what"]: each for each in json.loads(ran.out)}


def test_doctor_looks_from_here_and_from_the_executors(doctor: Doctor, clusters: Clusters) -> None:
    words = ["-b", clusters.secured.bootstrap, "--topic", "orders", "--topic", "nope", "--format", "json"]
    ill = doctor(*words, "--command-config", clusters.login("etl"), *ON_SPARK)
    assert (ill.code, ill.err) == (1, "")
    found = findings(ill)
    assert found["topic orders"]["says"] == "2 partitions, may be read and written"
    assert (found["topic nope"]["state"], found["topic nope"]["do"][:9]) == ("wrong", "create it")
    (executor,) = [each for what, each in found.items() if what.startswith("executor ")]
    assert (executor["state"], "reaches 1 brokers" in executor["says"]) == ("ok", True)
    well = doctor("--bootstrap", clusters.plain.bootstrap, "--topic", "orders", *ON_SPARK)
    assert (well.code, well.err) == (0, "")
    assert "may be read and written" in well.out


def test_doctor_says_what_a_user_may_not_do_and_starts_no_jvm_where_it_is_told(
    doctor: Doctor, clusters: Clusters
) -> None:
    login = [word for pair in clusters.secured.user("reader").properties().items() for word in ("-X", "=".join(pair))]
    seen = doctor("-b", clusters.secured.bootstrap, "--topic", "orders", "--without-spark", "--format", "json", *login)
    assert seen.err == ""
    found = findings(seen)
    assert (found["topic orders"]["state"], found["topic orders"]["says"]) == (
        "note",
        "this user may read it, not write it",
    )
    assert not any(what.startswith("executor") for what in found)
    # It may not look at the brokers' configurations either.
    assert (seen.code, found["transactions"]["state"]) == (2, "unseen")
    stranger = doctor("-b", clusters.secured.bootstrap, "--without-spark", "--format", "json")
    assert (stranger.code, findings(stranger)["brokers"]["state"]) == (1, "wrong")


def test_it_finds_the_cluster_of_a_directory(doctor: Doctor, clusters: Clusters) -> None:
    directory = clusters.directory / "up"
    directory.mkdir()
    port = int(clusters.plain.bootstrap.rpartition(":")[2])
    state = ClusterState(brokers=[BrokerState(id=0, port=port)])
    (directory / STATE_FILE).write_text(json.dumps(asdict(state)))
    well = doctor("--dir", directory, "--without-spark", "--format", "json")
    assert (well.code, findings(well)["brokers"]["state"]) == (0, "ok")


def test_each_option_of_the_help_was_given() -> None:
    shown = barnabas("spark", "doctor", "--help").stdout
    options = {tuple(re.findall(r"--?[\w-]+", names)) for names in OPTION.findall(shown)} - {("-h", "--help")}
    assert ("--conf",) in options
    assert ("-b", "--bootstrap", "--bootstrap-server") in options
    assert {names for names in options if not _used & set(names)} == set()
