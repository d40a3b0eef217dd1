"""A transaction index that cannot be written."""

from __future__ import annotations

import errno

import pytest
from log_worlds import NOW, PARTITION, idempotent, marker

from barnabas.log.log import AppendOrigin, Log
from barnabas.log.log_dir import LogDirFailure
from barnabas.model.config import broker_config, topic_config
from barnabas.sim.world.disk import SimDisk, Volume
from barnabas.wire.records import ControlType


def test_kafka_7866_an_abort_whose_index_entry_fails_ends_the_directory_and_keeps_its_offset() -> None:
    volume = Volume()
    failing = False

    def guard(operation: str, path: str) -> None:
        if failing and operation == "write" and path.endswith(".txnindex"):
            raise OSError(errno.EIO, "input/output error", path)

    def opened() -> Log:
        disk = SimDisk(volume, guard, lambda: NOW)
        return Log.open(
            disk, "/logs/flights-0", PARTITION, topic_config(broker_config({}), {}), now_ms=NOW, clean=False
        )

    def end(log: Log) -> None:
        log.append_as_leader(marker(ControlType.ABORT), 0, now_ms=NOW, origin=AppendOrigin.COORDINATOR)

    log = opened()
    log.append_as_leader(idempotent(["a"], 0, is_transactional=True), 0, now_ms=NOW)
    failing = True
    for _ in range(2):
        with pytest.raises(LogDirFailure):
            end(log)
        assert log.log_end_offset == 2, "the marker is in the log"
    failing = False
    again = opened()
    again.update_high_watermark(again.log_end_offset)
    assert again.log_end_offset == again.last_stable_offset == 2
    assert [each.last_offset for each in again.aborted_transactions(0, 2)] == [1]
