"""What an operator's commands say of Apache Kafka, and of Barnabas after the same has happened to it."""

from __future__ import annotations

import contextlib
import io
import json
import re
from pathlib import Path
from typing import Any

from barnabas.cli.app import run

TOPIC = "operated"
COMMANDS = (
    "topic offsets operated",
    "topic offsets operated --at max-timestamp",
    "topic offsets operated --at -1h",
    "topic offsets operated --at 2999-01-01T00:00:00",
    "topic offsets operated:9",
    "group reset ops -t operated --to-offset 3 --execute",
    "group reset ops -t operated --to-offset 99",
    "group reset ops --all-topics --shift-by -2 --execute",
    "group reset ops -t operated:0 --by-duration PT1H",
    "group reset ops -t operated --to-datetime 2999-01-01T00:00:00",
    "group describe ops",
    "group describe nobody",
    "group delete-offsets ops -t operated:1",
    "group delete-offsets ops -t operated:7",
    "topic trim operated --before 2",
    "topic trim operated --before 2 --execute",
    "topic trim operated --before 99 --execute",
    "topic trim operated --before -1h --execute",
    "topic trim operated --before end --execute",
    "topic offsets operated",
    "log dirs -t operated",
    "log dirs --broker 77",
    "cluster info",
    "features",
    "features --upgrade no.such.feature=1",
    "features --downgrade no.such.feature=1",
    "features --downgrade no.such.feature=0 --unsafe --dry-run",
    "transaction list --state Sleeping",
    "transaction describe nobody",
    "transaction abort nobody",
    "transaction abort --partition operated-0 --start-offset 0",
    "transaction find-hanging operated --max-transaction-timeout 0",
    "group delete ops nobody",
    "group delete-offsets ops -t operated",
)


def says(bootstrap: str, words: list[str]) -> tuple[int, str, str]:
    out, err = io.StringIO(), io.StringIO()
    with contextlib.redirect_stdout(out), contextlib.redirect_stderr(err):
        code = run([*words, "-b", bootstrap])
    return code, out.getvalue(), err.getvalue()


def comparable(value: Any) -> Any:
    """Without what two clusters need not share: ids, addresses, who leads, places, times, and bytes on disk."""
    other = {"cluster_id", "controller", "coordinator", "host", "port", "leaders", "replicas", "directory", "size"}
    other |= {"behind_s", "timestamp", "total_bytes", "usable_bytes", "topics"}
    if isinstance(value, dict):
        return {
            name: "-" if name in other and not isinstance(each, list) else comparable(each)
            for name, each in value.items()
        }
    return [comparable(each) for each in value] if isinstance(value, list) else value


def story(bootstrap: str, place: Path) -> list[Any]:
    """What every command says, one after the other."""
    lines = place / "lines.txt"
    assert says(bootstrap, ["topic", "create", TOPIC, "-p", "2", "-r", "3"])[0] == 0
    for values in (range(5), range(5, 6)):  # the last one is alone, and so has the largest timestamp for itself
        lines.write_text("".join(f"{number}\n" for number in values))
        assert says(bootstrap, ["produce", "-t", TOPIC, "-p", "0", "--file", str(lines)]) == (0, "", "")
    told: list[Any] = []
    for command in COMMANDS:
        code, out, err = says(bootstrap, [*command.split(), "--format", "json"])
        found = comparable(json.loads(out)) if out else None
        if command == "cluster info":
            found["partitions"] = "-"  # internal topics come and go with other tests
        told.append((command, code, found, re.sub(r"[^ ]+/[^ ]+", "PLACE", err)))
    says(bootstrap, ["topic", "delete", TOPIC])
    return told
