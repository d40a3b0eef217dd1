"""``make conformance``: records Apache Kafka 3.9.2's verdict on every batch, and holds ours against it."""

from __future__ import annotations

import json
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from verdicts.asking import RECORDED, apaches, differences, ours


def main() -> int:
    with tempfile.TemporaryDirectory(prefix="barnabas-verdicts-") as directory:
        theirs = apaches(Path(directory) / "apache")
        mine = ours(Path(directory) / "ours")
    RECORDED.write_text(
        "{\n" + ",\n".join(f"{json.dumps(name)}: {json.dumps(theirs[name])}" for name in theirs) + "\n}\n"
    )
    different = differences(mine, theirs)
    print("\n".join(different))
    print(f"{len(theirs)} batches, {len(different)} verdicts that are not Apache Kafka's")
    return 1 if different else 0


if __name__ == "__main__":
    sys.exit(main())
