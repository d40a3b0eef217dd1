"""Brokers whose hot path is compiled answer and write the same bytes as those that interpret it."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from barnabas.runtime.compiled import compiled_files

BENCH = Path(__file__).parents[2] / "bench"

THREE_BROKERS = """
import asyncio, hashlib, json, sys
from pathlib import Path
from barnabas.runtime.compiled import take_compiled

form, directory, bench, shape = sys.argv[1:]
if form == "compiled":
    take_compiled()
sys.path.insert(0, bench)
import barnabas.log.log
import lane

class Noting(lane.Producer):
    answers = hashlib.sha256()

    def answered(self, data):
        self.answers.update(data)
        super().answered(data)

async def run(shape):
    assignment = [lane.BROKERS] * shape.partitions
    brokers = await lane.brokers_for(assignment, directory)
    serve = lane.by_connection(brokers[1])
    producers = [Noting(number, shape, serve) for number in range(shape.connections)]
    await lane.cpu_us(producers, shape, 400)
    await lane.end(brokers, assignment)

asyncio.run(run(lane.SHAPES[shape]))
logs = {str(path.relative_to(directory)): path.read_bytes() for path in sorted(Path(directory).rglob("*.log"))}
told = {
    "is_compiled": not barnabas.log.log.__file__.endswith(".py"),
    "answers": Noting.answers.hexdigest(),
    "logs": {name: hashlib.sha256(data).hexdigest() for name, data in logs.items()},
    "bytes": sum(map(len, logs.values())),
}
print(json.dumps(told))
"""

KILLED_AMID_A_SWAP = """
import asyncio, json, sys
from pathlib import Path
from barnabas.runtime.compiled import take_compiled

form, directory = sys.argv[1:]
if form == "compiled":
    take_compiled()
import barnabas.log.log
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import broker_config
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime
from barnabas.wire.records import Record, build_batch

def started():
    dirs = LogDirs(real_runtime(), broker_config({"log.dirs": directory, "log.segment.bytes": "300"}))
    asyncio.run(dirs.load())
    return dirs

dirs = started()
log = dirs.get_or_create(TopicPartition("a", 0))
for number in range(10):
    log.append_as_leader(bytearray(build_batch([Record(0, number, b"k", bytes(100))])), 0, now_ms=number)
swapped = log.segments[1].path
dirs.close(clean=False)
for path in Path(directory, "a-0").glob(Path(swapped).stem + ".*"):
    path.rename(f"{path}.swap")
log = started().get(TopicPartition("a", 0))
print(json.dumps({
    "is_compiled": not barnabas.log.log.__file__.endswith(".py"),
    "offsets": [batch.base_offset for segment in log.segments for batch in segment.batches()],
}))
"""


def told(form: str, place: Path, shape: str) -> dict[str, object]:
    return said_by(THREE_BROKERS, form, str(place), str(BENCH), shape)


def said_by(program: str, *arguments: str) -> dict[str, object]:
    done = subprocess.run([sys.executable, "-c", program, *arguments], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found: dict[str, object] = json.loads(done.stdout)
    return found


@pytest.mark.parametrize("shape", ["eight", "sixteen", "batches"])
def test_compiled_brokers_answer_and_write_the_same_bytes(tmp_path: Path, shape: str) -> None:
    if not compiled_files():
        pytest.skip("nothing is compiled")
    forms = {form: told(form, tmp_path / form, shape) for form in ("compiled", "interpreted")}
    assert forms["compiled"].pop("is_compiled") is True
    assert forms["interpreted"].pop("is_compiled") is False
    assert forms["compiled"] == forms["interpreted"]
    assert forms["compiled"]["bytes"] != 0


@pytest.mark.parametrize("form", ["compiled", "interpreted"])
def test_a_log_whose_swap_was_interrupted_is_loaded(tmp_path: Path, form: str) -> None:
    if form == "compiled" and not compiled_files():
        pytest.skip("nothing is compiled")
    told = said_by(KILLED_AMID_A_SWAP, form, str(tmp_path / "logs"))
    assert told == {"is_compiled": form == "compiled", "offsets": [*range(10)]}
