"""Every command that speaks to brokers comes in by every mechanism: by ``-X``, and by a file of properties."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from barnabas.cli.app import ROOT, run
from barnabas.cli.command import Command
from barnabas.model.config import properties_text
from barnabas.testing import KafkaCluster

MECHANISMS = ("SCRAM-SHA-512", "SCRAM-SHA-256", "PLAIN", "OAUTHBEARER", "mTLS")
WAYS = ("-X", "--command-config")
ELSEWHERE = ("spark", "judge", "metrics")
"""The commands of the first two start Spark and other people's clients: tests/conformance/test_spark_secured.py,
tests/process/test_judge_secured.py. The last reads an admin endpoint: tests/process/test_admin_door.py."""
STORY = """
topic create {t} --partitions 2
topic list
topic describe {t}
topic alter {t} --config retention.ms=86400000
produce -t {t} --file {file}
consume -t {t} -g {t} -c 2
topic offsets {t}
topic trim {t} --before end --execute
group list
group describe {t}
group reset {t} --topic {t} --to-earliest --execute
group delete-offsets {t} -t {t}
group reset {t} --topic {t} --to-earliest --execute
group delete {t}
transaction list
transaction find-hanging {t}
user set carol --password pw
user list carol
user delete carol
config alter topic:{t} --set retention.ms=1000
config describe topic:{t}
acl allow topic:{t} --principal User:carol
acl deny topic:{t} --principal User:dave
acl list topic:{t}
acl remove topic:{t}
quota set produce=1000000 --user carol
quota list
quota remove produce --user carol
partition list {t}
partition elect {t}-0
reassign plan {t} --brokers 0,1
reassign list
reassign start {t}-0=1,0 {t}-1=0,1 --wait
log dirs
cluster info
api-versions
features
perf produce -t {t} -n 5
perf consume -t {t} -n 5
perf latency -t {t} -n 2
token create
token list
token renew {hmac}
token expire {hmac}
topic delete {t}
"""
REFUSALS = {
    "transaction describe nobody": "TRANSACTIONAL_ID_NOT_FOUND",
    "transaction abort nobody": "",
    "reassign cancel t-0": "",
}
"""Commands that fail here, behind the login; what they say, where that is not of this place."""


@pytest.fixture(scope="module")
def cluster() -> Iterator[KafkaCluster]:
    with KafkaCluster(2, users=["operator"], config={"delegation.token.secret.key": "of both"}) as started:
        operator = started.user("operator")
        for resource in ("cluster", "topic:*", "group:*", "transactional-id:*", "user:*", "delegation-token:*"):
            operator.allow(resource)
        yield started


def words_for(cluster: KafkaCluster, mechanism: str, way: str, place: Path) -> list[str]:
    properties = cluster.user("operator").properties(mechanism)
    if way == "-X":
        return [word for name, value in properties.items() for word in ("-X", f"{name}={value}")]
    file = place / "client.properties"
    file.write_text(properties_text(properties))
    return ["--command-config", str(file)]


def told(line: str) -> list[str]:
    """The command in a line of `STORY`: its words up to the first argument."""
    words = line.split()
    return words[:1] if words[0] in ("produce", "consume", "api-versions", "features") else words[:2]


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("mechanism", MECHANISMS)
def test_a_command_comes_in(
    cluster: KafkaCluster,
    mechanism: str,
    way: str,
    tmp_path: Path,
    capsys: pytest.CaptureFixture[str],
) -> None:
    login = words_for(cluster, mechanism, way, tmp_path)
    records = tmp_path / "records.txt"
    records.write_text("one\ntwo\n")
    topic, hmac = f"t-{mechanism}-{len(way)}".lower(), ""
    for line in STORY.strip().splitlines():
        words = line.format(t=topic, hmac=hmac, file=records).split()
        if words[:2] == ["token", "create"]:
            words += ["--format", "json"]
        code = run([*words, *login])
        out, err = capsys.readouterr()
        assert code == 0, (words, err)
        if words[:2] == ["token", "create"]:
            hmac = json.loads(out)["hmac"]
        if words[0] == "consume":
            assert sorted(out.split()) == ["one", "two"]
    for line, said in REFUSALS.items():
        assert run([*line.split(), *login]) == 1, line
        err = capsys.readouterr().err
        assert said in err
        assert "AUTHENTICATION" not in err


def test_no_command_is_forgotten() -> None:
    known = {f"barnabas {' '.join(told(line))}" for line in (*STORY.strip().splitlines(), *REFUSALS)}
    found = {
        path
        for path, entry in ROOT.walk("barnabas")
        if isinstance(entry, Command)
        and path.split()[1] not in ELSEWHERE
        and any("-X" in parameter.spec.flags for parameter in entry.parameters)
    }
    assert known == found


@pytest.mark.parametrize("way", WAYS)
def test_a_wrong_password_is_said_and_not_shown(
    cluster: KafkaCluster, way: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    login = words_for(cluster, "SCRAM-SHA-512", way, tmp_path)
    password = cluster.user("operator").password
    if way == "-X":
        login = [word.replace(password, "guessed") for word in login]
    else:
        file = Path(login[1])
        file.write_text(file.read_text().replace(password, "guessed"))
    assert run(["topic", "list", *login]) == 1
    out, err = capsys.readouterr()
    assert "SASL_AUTHENTICATION_FAILED" in err
    assert "guessed" not in out + err


def test_a_certificate_that_has_expired_is_said(
    cluster: KafkaCluster, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    operator = cluster.user("operator")
    operator.certify(valid_for=-1)
    try:
        assert run(["topic", "list", *words_for(cluster, "mTLS", "-X", tmp_path)]) == 1
        assert "certificate" in capsys.readouterr().err.lower()
    finally:
        operator.certify()
