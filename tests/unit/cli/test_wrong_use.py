"""Commands that are used wrongly say so in a sentence and with exit code 2, before anybody is asked anything."""

from __future__ import annotations

import shlex
from pathlib import Path

import pytest

from barnabas.cli.app import run

BROKERS, ZOOKEEPER = "-b 127.0.0.1:1", "-z 127.0.0.1:1"


@pytest.mark.parametrize(
    ("line", "sentence"),
    [
        ("up -n 0", "-n 0: a cluster here has 1 to 100 brokers."),
        ("up -n 101", "-n 101: a cluster here has 1 to 100 brokers."),
        # Each broker has a port, the coordinator one, and in a secured cluster each broker another.
        ("up --base-port 65533", "--base-port 65533 leaves no room for 3 brokers: take one from 1 to 65532."),
        ("up --base-port 65530 -n 3 --secure", "--base-port 65530 leaves no room for 3 brokers: take one from 1 to "),
        ("up --base-port 0", "--base-port"),
        ("up --config broker.id=1", "--config broker.id cannot be set"),
        ("up --config nonsense", "--config takes key=value, not 'nonsense'."),
        ("topic create t -c =x", "--config takes key=value, not '=x'."),
        ("topic alter t", "Nothing to alter: give --partitions, --config or --delete-config."),
        ("topic offsets t --at yesterday", "--at: 'yesterday' is not a timestamp"),
        ("topic trim t --before yesterday", "--before yesterday: expected an offset, 2026-01-31T12:00:00, -7d"),
        ("topic trim t:x --before 5", "'t:x' does not name partitions: use TOPIC, TOPIC:0,2 or TOPIC:0-3."),
        ("produce -t t -X linger.mz=5", "-X linger.mz is not known: did you mean linger.ms?"),
        ("produce -t t -H =v", "-H takes NAME=VALUE, not '=v'."),
        ("produce -t t -K ''", "A delimiter cannot be empty."),
        ("consume -t t -g g -p 0", "With a group its coordinator assigns partitions and keeps offsets: leave"),
        ("consume -t t -g g -o end", "With a group its coordinator assigns partitions and keeps offsets: leave"),
        ("consume -t t -X auto.offset.reset=x", "-X auto.offset.reset=x: it takes earliest, latest or none."),
        ("consume -t t -X isolation.level=x", "isolation.level is x: it takes read_uncommitted or read_committed."),
        ("consume -t t -o yesterday", "'yesterday' is not an offset"),
        ("consume -t t -f %q", "%q is not a field of a format string"),
        ("group reset -t t --to-earliest", "Name the groups, or all of them by --all-groups."),
        ("group reset g -t t", "Say where the groups shall go on: one of --to-earliest, "),
        ("group reset g -t t --to-earliest --to-latest", "Say where the groups shall go on: one of --to-earliest, "),
        ("group reset g -t t --to-datetime yesterday", "--to-datetime: 'yesterday' is not a timestamp"),
        ("group reset g -t t --by-duration 5", "--by-duration 5: expected an ISO 8601 duration"),
        ("config alter topic:t", "Nothing to alter: give --set K=V or --delete K."),
        ("acl allow nothing", "'nothing' names no resource"),
        ("acl allow topic:t --principal anna", "--principal anna: a principal is a type and a name, such as"),
        ("acl allow topic:t --host nowhere", "--host nowhere: expected one IP address, or * for any."),
        ("features --upgrade x=", "--upgrade takes NAME=LEVEL, not 'x='."),
        ("features --upgrade =1", "--upgrade takes NAME=LEVEL, not '=1'."),
        ("features --downgrade x=1.5", "--downgrade takes NAME=LEVEL, not 'x=1.5'."),
        ("spark audit t", "Name what to compare with: the producers' --manifest, or an --archive."),
        ("spark audit t u --archive x --replayed v", "--replayed names the archived topic for a single topic"),
        ("spark audit t --manifest m --replayed v", "--replayed names the archived topic for a single topic"),
        ("spark audit t --archive x --replayed v --mirrored", "--mirrored needs --archive, and cannot be combined"),
        ("zk get a", "'a' is not a znode's path"),
        ("zk get /a//b", "'/a//b' is not a znode's path"),
        ("zk get /a --auth digest:user", "--auth takes scheme:auth such as digest:user:password, not 'digest:user'."),
        ("zk get /a --auth sasl", "--auth takes scheme:auth such as digest:user:password, not 'sasl'."),
        ("zk create /a --ephemeral --container", "Give only one of --ephemeral, --container and"),
        ("zk create /a --ephemeral --ttl 5", "Give only one of --ephemeral, --container and"),
        ("zk create /a --container --sequential", "Give only one of --ephemeral, --container and"),
        ("zk create /a --acl x", "--acl: 'x' is no scheme:id:permissions such as world:anyone:cdrwa."),
        ("zk delete / -r", "The root cannot be deleted: name the znodes below it."),
        ("rehearse kill 1 --file x -z 127.0.0.1:1", "--file and --zookeeper cannot be combined."),
        ("rehearse migration --file x --save y", "migration cannot be combined with --save or --html."),
        ("sim run --profile nothing", "there is no profile nothing; the profiles are all, "),
        ("bench shapes --only nothing", "--only: no shape's name contains 'nothing'; the shapes are "),
        ("bench growth --axis nothing", "--axis: there is no nothing; the axes are record-size, "),
    ],
)  # fmt: skip
def test_it_is_told(
    line: str, sentence: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    words = shlex.split(line)
    if words[0] in ("topic", "produce", "consume", "group", "config", "acl", "features", "spark"):
        words += BROKERS.split()
    elif words[0] == "zk":
        words += ZOOKEEPER.split()
    assert run(words) == 2
    told = capsys.readouterr()
    assert told.err.startswith(f"barnabas: {sentence}")
    assert told.out == ""
