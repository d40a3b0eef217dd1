"""``docs/conformance.md``, from what a run found."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from itertools import groupby
from pathlib import Path
from typing import NamedTuple

from barnabas.wire.api import SUPPORTED, ApiKey


class Row(NamedTuple):
    key: ApiKey
    version: int
    asked: int
    same: int
    reasons: Counter[str]


HEAD = """# Conformance

Made by `make conformance`; not written by hand. Two brokers of Barnabas and two of Apache Kafka 3.9.2 in ZooKeeper
mode get the same requests in the same order, in every version of every API that ApiVersions offers: a valid one; one
for a topic, group or transaction that does not exist; one to a broker that is neither leader nor coordinator nor
controller; five broken ones (a byte short, seven bytes too long, half of it, with a client id longer than the request,
in an unknown version); and then for each field of the request one with another value in that field (an empty, absent,
invalid or very long name, -2, -1, 0 and 7, null, nothing, twice the same, corrupted records). Some
requests have several faults, or follow others.
Two answers are equal if all their fields are, error messages included. Ids, times, ports, disk sizes, and the numbers
and addresses in messages are not compared.

"""

NOT_OFFERED = {
    "CONSUMER_GROUP_HEARTBEAT CONSUMER_GROUP_DESCRIBE": "the new group protocol; Apache refuses it too with ZooKeeper",
    "ENVELOPE": "brokers with ZooKeeper use it only in a migration; ours send it to a KRaft controller, but take none",
}


def asked_before(path: Path) -> int:
    """How many requests the page says were compared when it was made."""
    row = next(line for line in path.read_text().splitlines() if line.startswith("| all |"))
    return int(row.split("|")[4])


def write(path: Path, rows: Sequence[Row], wrong: Sequence[str], apaches: Mapping[int, tuple[int, int]]) -> None:
    """`apaches` are the versions that Apache Kafka offers."""
    reasons = list(dict.fromkeys(why for row in rows for why in row.reasons))
    lines = ["| API | key | versions | requests | equal | differ on purpose |", "| --- | --- | --- | --- | --- | --- |"]
    for key, of_key in groupby(rows, lambda row: row.key):
        group = list(of_key)
        found = sum((row.reasons for row in group), Counter())
        notes = ", ".join(f"{count} ({reasons.index(why) + 1})" for why, count in found.items())
        versions = f"{group[0].version} to {group[-1].version}" if len(group) > 1 else str(group[0].version)
        name = "".join(word.capitalize() for word in key.name.split("_"))
        asked, same = sum(row.asked for row in group), sum(row.same for row in group)
        lines.append(f"| {name} | {int(key)} | {versions} | {asked} | {same} | {notes} |")
    asked, same = sum(row.asked for row in rows), sum(row.same for row in rows)
    lines.append(f"| all | {len({row.key for row in rows})} | {len(rows)} | {asked} | {same} | {asked - same} |")
    text = HEAD + "\n".join(lines) + "\n\n## Differences on purpose\n\n"
    text += "".join(f"{number}. {why}\n" for number, why in enumerate(reasons, 1))
    if wrong:
        text += "\n## Differences for no reason\n\n" + "".join(f"- {each}\n" for each in wrong)
    missing = sorted(set(apaches) - {int(row.key) for row in rows})
    text += "\n## What Apache Kafka 3.9.2 offers and Barnabas does not\n\n"
    for names, why in NOT_OFFERED.items():
        keys = [ApiKey[name] for name in names.split()]
        here = [f"{key.name} ({int(key)})" for key in keys if int(key) in missing]
        if here:
            text += f"- {', '.join(here)}: {why}.\n"
    known = {int(ApiKey[name]) for names in NOT_OFFERED for name in names.split()}
    rest = [f"{ApiKey(key).name} ({key})" for key in missing if key not in known]
    text += f"- {', '.join(rest)}.\n" if rest else ""
    others = [key.name for key in {row.key: None for row in rows} if apaches[int(key)] != SUPPORTED[key]]
    text += f"\nOf the others the versions differ of: {', '.join(others) or 'none'}.\n"
    path.write_text(text)
