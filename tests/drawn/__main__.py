"""``make drawn``: asks Barnabas and Apache Kafka 3.9.2 what nobody has thought of; ends with 1 where an answer differs.

``--seed`` and ``--episodes`` say what is drawn; each episode has topics, groups and transactions of its own.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from drawn.clusters import both
from drawn.play import Play


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--episodes", type=int, default=200)
    parser.add_argument("--requests", type=int, default=60, help="of each episode, beside those that look at its end")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="drawn-") as directory, both(Path(directory)) as (ours, apaches):
        play = Play(ours, apaches, given.seed)
        for number in range(given.episodes):
            told = len(play.found)
            play.episode(number, given.requests)
            for each in play.found[told:]:
                print(each, flush=True)
    for name, count in sorted(play.compared.items()):
        print(f"{name}: {count}")
    for why, count in play.meant.items():
        print(f"differ on purpose, {why}: {count}")
    print(f"{play.compared.total()} requests, {len(play.found)} answers differ for no reason given")
    return 1 if play.found else 0


if __name__ == "__main__":
    sys.exit(main())
