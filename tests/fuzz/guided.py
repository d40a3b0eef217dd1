"""The same doors, but what is tried next follows what was reached before: by Atheris, libFuzzer for Python.

``python tests/fuzz/guided.py [libFuzzer's options]`` (`make fuzz-guided`) keeps in ``build/fuzz`` what leads further.
The first byte of an input says which door it goes through.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import atheris

sys.path.insert(0, str(Path(__file__).parents[1]))

with atheris.instrument_imports(include=["barnabas"]):
    from fuzz.fuzzed_world import DOORS, World
    from fuzz.strangers import FOUND, kept


def main() -> None:
    corpus = FOUND / "guided"
    corpus.mkdir(parents=True, exist_ok=True)
    for number, (door, inputs) in enumerate(kept().items()):
        for at, data in enumerate(inputs):
            (corpus / f"{door}-{at}").write_bytes(bytes([number]) + data)
    with tempfile.TemporaryDirectory(prefix="barnabas-fuzz-") as place:
        world = World(Path(place))

        def one(data: bytes) -> None:
            if data:
                world.feed(DOORS[data[0] % len(DOORS)], data[1:])

        atheris.Setup([sys.argv[0], str(corpus), f"-artifact_prefix={FOUND}/", *sys.argv[1:]], one)
        atheris.Fuzz()


if __name__ == "__main__":
    main()
