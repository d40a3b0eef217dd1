"""``python tests/judged/versions.py [--minutes N] [--write]`` (`make judge-versions`): version by anomaly.

Three brokers of each version are made, and judged by the clients of all drivers that the machine has, with the default
nemesis and with all of it. With ``--write`` the table goes into docs/judge.md.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import Final

sys.path.insert(0, str(Path(__file__).parent))

from judged_tables import judged, operations, put, told

from barnabas.judge.nemesis import faults_of
from barnabas.judge.proxy import NETWORK_FAULTS
from barnabas.judge.run import DRIVERS

CLUSTERS: Final = {
    "Apache Kafka 3.9.2": "apache",
    "Apache Kafka 4.0.2": "kraft:4.0.2",
    "Apache Kafka 4.4.0": "kraft:4.4.0",
    "Barnabas": "barnabas",
}
NEMESES: Final = ("default", "`all`")
NOT_COUNTED: Final = ("writes-not-isolated", "poll-within-transaction")
"""Limits that every Kafka has, whatever happens to it."""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--clients", type=int, default=1)
    parser.add_argument("--only", default=",".join(CLUSTERS.values()))
    parser.add_argument("--write", action="store_true")
    given = parser.parse_args()
    lines = [
        "| cluster | nemesis | operations | faults | anomalies | known limits |",
        "| --- | --- | --- | --- | --- | --- |",
    ]
    for name, kind in CLUSTERS.items():
        for nemesis in NEMESES if kind in given.only.split(",") else ():
            faults = NETWORK_FAULTS if nemesis == "default" else faults_of(kind)
            kept = f"{kind.replace(':', '-')}-{nemesis.strip('`')}"
            verdict, struck = judged(kept, kind, given.minutes, faults, DRIVERS, given.clients, given.seed)
            limits = [each for each in verdict.limits if each.limit not in NOT_COUNTED]
            found = f"{told(verdict.anomalies, 'none')} | {told(limits, 'none')}"
            lines.append(f"| {name} | {nemesis} | {operations(verdict):,} | {sum(struck.values())} | {found} |")
            print(lines[-1], flush=True)
    if given.write:
        put("versions", lines, 2)
    return 0


if __name__ == "__main__":
    sys.exit(main())
