"""``make conformance``: asks Barnabas and Apache Kafka 3.9.2 the same, and writes ``docs/conformance.md``.

Ends with 1 where an answer differs for no reason given, and where fewer requests were asked than the page counts; a
case that is gone on purpose is first taken off that count. ``--only FETCH,JOIN_GROUP`` asks a share and writes nothing.
"""

from __future__ import annotations

import argparse
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parents[1]))

from answers.asking import Asked
from answers.beside import apaches, ours
from answers.cases import RECORDED, cases, digest, every_version, newest_versions, tell
from answers.on_purpose import reason
from answers.report import Row, asked_before, write

from barnabas.wire.api import ApiKey

PAGE = Path(__file__).parents[2] / "docs" / "conformance.md"


def differences(here: Any, there: Any, at: str = "") -> list[str]:
    """Where two masked answers differ, in words."""
    if isinstance(here, dict) and isinstance(there, dict):
        return [line for key in {**here, **there} for line in differences(here.get(key), there.get(key), f"{at}.{key}")]
    if isinstance(here, list) and isinstance(there, list) and len(here) == len(there):
        return [
            line
            for number, each in enumerate(zip(here, there, strict=True))
            for line in differences(*each, f"{at}[{number}]")
        ]
    return [] if here == there else [f"{at.lstrip('.')}: {str(here)[:120]} is not {str(there)[:120]}"]


def ask_both(mine: Asked, theirs: Asked, key: ApiKey, version: int) -> tuple[Row, list[str]]:
    """One row of the table, and what differs without a reason."""
    reasons: Counter[str] = Counter()
    wrong = []
    asked = same = 0
    for case in cases(key, version):
        here, there = tell(mine, case), tell(theirs, case)
        if here is None and there is None:
            continue
        asked += 1
        if here == there:
            same += 1
        elif (why := reason(case, here, there)) is not None:
            reasons[why] += 1
        else:
            wrong.append(f"{key.name} {version}, {case.name}: {'; '.join(differences(here, there)[:3])}")
    return Row(key, version, asked, same, reasons), wrong


def record() -> str:
    """What Apache's newest versions answer, as JSON, one case a line; where ours may answer otherwise, both."""
    lines = []
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as directory,
        ours(Path(directory) / "ours") as mine,
        apaches(Path(directory) / "apache") as theirs,
    ):
        for key, version in newest_versions():
            for case in cases(key, version):
                here, there = tell(mine, case), tell(theirs, case)
                if here is None and there is None:
                    continue
                expected = digest(there) if here == there else {"ours": digest(here), "apaches": digest(there)}
                lines.append(f"{json.dumps(str(case))}: {json.dumps(expected)}")
    return "{\n" + ",\n".join(lines) + "\n}\n"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="", help="names of APIs, separated by commas")
    only = {each for each in parser.parse_args().only.split(",") if each}
    rows: list[Row] = []
    wrong: list[str] = []
    with (
        tempfile.TemporaryDirectory(prefix="conformance-") as directory,
        ours(Path(directory) / "ours") as mine,
        apaches(Path(directory) / "apache") as theirs,
    ):
        offered = dict(theirs.world.offered)
        for key, version in every_version():
            if not only or key.name in only:
                row, found = ask_both(mine, theirs, key, version)
                rows.append(row)
                wrong.extend(found)
                print("\n".join(found) or f"{key.name} {version}: {row.asked} requests", flush=True)
    asked = sum(row.asked for row in rows)
    print(f"{asked} requests, {len(wrong)} answers differ for no reason given")
    if not only:
        before = asked_before(PAGE)
        if asked < before:
            print(f"{before} requests were compared before: what became of the others?", file=sys.stderr)
            return 1
        RECORDED.write_text(record())
        write(PAGE, rows, wrong, offered)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
