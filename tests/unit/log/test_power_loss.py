"""A log whose machine lost its power: what it flushed is there."""

from __future__ import annotations

from log_worlds import NOW, PARTITION, append

from barnabas.log.log import Log
from barnabas.model.config import broker_config, topic_config
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.disk import Loss, SimDisk, Volume

NOTHING_UNSYNCED = Loss(page_survives=0.0, torn=0.0, name_survives=0.0)


def test_the_epochs_of_flushed_records_are_in_their_file_after_a_power_loss() -> None:
    """Batches tell them again where the file is lost, but not those of records that are compacted away by then."""
    volume = Volume()
    disk = SimDisk(volume, lambda operation, path: None, lambda: NOW)
    log = Log.open(disk, "/logs/flights-0", PARTITION, topic_config(broker_config({}), {}), now_ms=NOW)
    append(log, "a", epoch=1)
    append(log, "b", epoch=4)
    log.flush(now_ms=NOW)
    volume.lose_power(Chance(1, "power"), NOTHING_UNSYNCED)
    assert disk.read("/logs/flights-0/leader-epoch-checkpoint") == b"0\n2\n1 0\n4 1\n"


def test_a_log_that_begins_elsewhere_begins_there_after_a_power_loss() -> None:
    """Its start is in no checkpoint: its first segment says it. Offsets that were given once are not given again."""
    volume = Volume()
    disk = SimDisk(volume, lambda operation, path: None, lambda: NOW)
    settings = topic_config(broker_config({}), {})
    log = Log.open(disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW)
    append(log, "a")
    log.flush(now_ms=NOW)
    log.truncate_fully_and_start_at(22, now_ms=NOW)
    volume.lose_power(Chance(1, "power"), NOTHING_UNSYNCED)
    assert Log.open(disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW).log_end_offset == 22


def test_a_log_that_ended_before_its_start_begins_there_after_another_power_loss() -> None:
    volume = Volume()
    disk = SimDisk(volume, lambda operation, path: None, lambda: NOW)
    settings = topic_config(broker_config({}), {})
    log = Log.open(disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW)
    append(log, "a")
    log.flush(now_ms=NOW)
    begun_anew = Log.open(disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW, log_start_offset=22)
    assert begun_anew.log_end_offset == 22
    volume.lose_power(Chance(1, "power"), NOTHING_UNSYNCED)
    assert Log.open(disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW).log_end_offset == 22
