"""What a Python worker keeps from one task to the next."""

from __future__ import annotations

import ctypes
import gc
import subprocess
import sys
from collections.abc import Iterator

import pytest

from barnabas.spark import worker


@pytest.fixture(autouse=True)
def _nothing_stays_frozen() -> Iterator[None]:
    yield
    gc.unfreeze()


IN_A_PROCESS_OF_ITS_OWN = """
import gc, sys
from types import ModuleType
from barnabas.spark import worker
worker.keep_libraries()
kept = gc.get_freeze_count()
assert kept > 5_000, kept
made_by_a_task = [[] for _ in range(1000)]
worker.keep_libraries()
assert gc.get_freeze_count() <= kept, "a task's own objects are collected as ever"
sys.modules["a_library"] = ModuleType("a_library")
worker.keep_libraries()
assert gc.get_freeze_count() >= kept + len(made_by_a_task)
"""
"""Nobody else's threads import and forget there."""


def test_what_was_imported_is_spared_by_later_collections_once() -> None:
    subprocess.run([sys.executable, "-c", IN_A_PROCESS_OF_ITS_OWN], check=True)


AS_LARGE_EACH_TIME = """
import resource
from barnabas.spark.worker import keep_memory
keep_memory()

def task():
    del [bytearray(8 << 20) for _ in range(4)][:]

for _ in range(3):
    task()
before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt
task()
print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)
"""
PAGES_OF_A_TASK = 4 * (8 << 20) // 4096


@pytest.mark.skipif(
    sys.platform != "linux" or not hasattr(ctypes.CDLL(None), "mallopt"), reason="memory is not glibc's here"
)
def test_a_task_has_the_pages_of_the_task_before_it() -> None:
    run = subprocess.run([sys.executable, "-c", AS_LARGE_EACH_TIME], check=True, capture_output=True, text=True)
    assert int(run.stdout) < PAGES_OF_A_TASK / 10


def test_columns_by_a_registry_spare_what_their_libraries_made(monkeypatch: pytest.MonkeyPatch) -> None:
    pyarrow = pytest.importorskip("pyarrow")
    from barnabas.spark.registry import Registry, Schema
    from barnabas.spark.registry_columns import _Reader

    monkeypatch.setattr(worker, "_modules_kept", 0)
    gc.unfreeze()
    target = pyarrow.struct({"id": pyarrow.int64()})
    reader = _Reader(Registry.of("http://127.0.0.1:1"), Schema("AVRO", "{}"), None, target, "FAILFAST")
    assert reader(pyarrow.array([None], pyarrow.binary())).to_pylist() == [None]
    assert gc.get_freeze_count() > 10_000


def test_who_plans_a_read_spares_what_its_libraries_made(monkeypatch: pytest.MonkeyPatch) -> None:
    pytest.importorskip("pyspark")
    from pyspark.sql.types import StructType

    from barnabas.spark.source import BarnabasDataSource

    for plan in (BarnabasDataSource.schema, lambda source: source._source_options(StructType())):
        monkeypatch.setattr(worker, "_modules_kept", 0)
        gc.unfreeze()
        plan(BarnabasDataSource({"kafka.bootstrap.servers": "127.0.0.1:1", "subscribe": "t"}))
        assert gc.get_freeze_count() > 10_000
