"""``python tests/mixed [--minutes N] [--brokers 2+2] [--all-cells | --record] [--seed N]``: brokers of both kinds.

Brokers of Apache Kafka 3.9.2 and ours, in one cluster on a real ZooKeeper (two of each, or as many as ``--brokers``
says), carry the clients of `barnabas judge`: idempotent producers with acks=all, transactional ones, groups that read
what is committed. Whoever holds a role is killed (``kill -9``), shut down under control, or stopped past its session's
end, and the next one as soon as the cluster is whole again; the roles come in turn, on either kind. When the run is
over, the history is judged, Kafka's own replica verification is asked, the files of all replicas are compared, and so
is what Kafka's brokers wrote with what they write among themselves (``--record``). Exit code 1 for an anomaly, a
partition that is not whole again, replicas that differ, and a message that no cluster of Kafka's own has and nobody has
explained.
"""

from __future__ import annotations

import argparse
import secrets
import shutil
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
sys.path.insert(0, str(Path(__file__).parent))

from mixed_brokers import Shape, both_kinds
from mixed_play import play

MINUTES_OF_ALL_CELLS = 16.0


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--brokers", default="2+2", metavar="KAFKA'S+OURS")
    parser.add_argument("--all-cells", action="store_true", help="every role on every kind with every fault")
    parser.add_argument("--seed", type=int, default=secrets.randbelow(1 << 32))
    parser.add_argument("--record", action="store_true", help="Kafka's brokers alone: what they write is recorded")
    given = parser.parse_args()
    minutes = max(given.minutes, MINUTES_OF_ALL_CELLS) if given.all_cells else given.minutes
    print(f"seed {given.seed}", flush=True)
    directory = Path(tempfile.mkdtemp(prefix="mixed-"))
    try:
        shape = Shape(4, 0) if given.record else Shape(*map(int, given.brokers.split("+")))
        with both_kinds(directory, shape) as brokers:
            found = play(brokers, directory, minutes, given.seed, every=given.all_cells)
    except BaseException:
        print(f"what the brokers wrote stays in {directory}")
        raise
    wrong = [*found.wrong, *(f"Kafka wrote: {line}" for line in found.unheard)]
    if wrong:
        print(*(f"FAIL {each}" for each in wrong), f"what the brokers wrote stays in {directory}", sep="\n")
    else:
        print("nothing acknowledged is lost, none comes twice, and the replicas are equal")
        shutil.rmtree(directory, ignore_errors=True)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
