"""A log whose machine lost its power: what it flushed is there."""

from __future__ import annotations

from log_worlds import NOW, PARTITION, append

from barnabas.log.log import Log
from barnabas.model.config import broker_config, topic_config
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.disk import Loss, SimDisk, Volume

NOTHING_UNSYNCED = Loss(page_survives=0.0, torn=0.0, name_survives=0.0)


class Machine:
    """With one log; where that begins is in no checkpoint."""

    def __init__(self) -> None:
        self.volume = Volume()
        self.disk = SimDisk(self.volume, lambda operation, path: None, lambda: NOW)

    def opened(self, log_start_offset: int = 0) -> Log:
        settings = topic_config(broker_config({}), {})
        return Log.open(
            self.disk, "/logs/flights-0", PARTITION, settings, now_ms=NOW, log_start_offset=log_start_offset
        )

    def lose_power(self) -> None:
        self.volume.lose_power(Chance(1, "power"), NOTHING_UNSYNCED)


def test_the_epochs_of_flushed_records_are_in_their_file_after_a_power_loss() -> None:
    """Batches tell them again where the file is lost, but not those of records that are compacted away by then."""
    machine = Machine()
    log = machine.opened()
    append(log, "a", epoch=1)
    append(log, "b", epoch=4)
    log.flush(now_ms=NOW)
    machine.lose_power()
    assert machine.disk.read("/logs/flights-0/leader-epoch-checkpoint") == b"0\n2\n1 0\n4 1\n"


def test_a_log_that_begins_elsewhere_begins_there_after_a_power_loss() -> None:
    """Its first segment says it. Offsets that were given once are not given again."""
    machine = Machine()
    log = machine.opened()
    append(log, "a")
    log.flush(now_ms=NOW)
    log.truncate_fully_and_start_at(22, now_ms=NOW)
    machine.lose_power()
    assert machine.opened().log_end_offset == 22


def test_a_log_that_ended_before_its_start_begins_there_after_another_power_loss() -> None:
    machine = Machine()
    log = machine.opened()
    append(log, "a")
    log.flush(now_ms=NOW)
    assert machine.opened(log_start_offset=22).log_end_offset == 22
    machine.lose_power()
    assert machine.opened().log_end_offset == 22
