"""No file can be opened: the disk is well, nothing is lost, and what was refused succeeds when it is asked again."""

from __future__ import annotations

import errno

import pytest
from log_worlds import NOW, PARTITION, batch, values

from barnabas.log.index_file import GATHERED_ENTRIES
from barnabas.log.log import Log
from barnabas.log.log_dir import LogDir, LogDirFailure
from barnabas.model.config import broker_config, topic_config
from barnabas.model.ids import TopicPartition, Uuid
from barnabas.sim.world.disk import SimDisk, Volume


class ShortOfDescriptors:
    """A log whose segments hold two batches, on a disk that refuses to open the files from number `refused` on."""

    def __init__(self) -> None:
        self.volume = Volume()
        self.opened = 0
        self.refused: int | None = None
        self.log = self.open()

    def open(self, *, clean: bool = False) -> Log:
        disk = SimDisk(self.volume, self._guard, lambda: NOW)
        # An index entry for every batch: that is what opens files after the batch was written.
        config = {"segment.bytes": "200", "index.interval.bytes": "0"}
        return Log.open(
            disk, "/logs/flights-0", PARTITION, topic_config(broker_config({}), config), now_ms=NOW, clean=clean
        )

    def _guard(self, operation: str, path: str) -> None:
        if operation == "open":
            self.opened += 1
            if self.refused is not None and self.opened > self.refused:
                raise OSError(errno.EMFILE, "Too many open files", path)


def refusal_of(log: Log, records: bytearray, *, as_leader: bool) -> LogDirFailure | None:
    try:
        if as_leader:
            log.append_as_leader(bytearray(records), 0, now_ms=NOW)  # it is stamped in place
        else:
            log.append_as_follower(records, now_ms=NOW)
    except LogDirFailure as failure:
        return failure
    return None


@pytest.mark.parametrize("as_leader", [True, False], ids=["leader", "follower"])
def test_an_append_is_refused_and_the_directory_stays_unless_it_was_left_half_done(as_leader: bool) -> None:
    probe = ShortOfDescriptors()
    for number in range(4):
        probe.log.append_as_leader(batch([f"{number}" * 60]), 0, now_ms=NOW)
    refusals = 0
    for refused in range(probe.opened):
        world = ShortOfDescriptors()
        world.opened, world.refused = 0, refused
        there: list[tuple[int, str]] = []
        for number in range(4):
            value = f"{number}" * 60
            records = batch([value])
            if not as_leader:
                records[0:8] = len(there).to_bytes(8)
            refusal = refusal_of(world.log, records, as_leader=as_leader)
            if refusal is not None:
                refusals += 1
                assert refusal.passing == world.log.log_dir.online
                world.refused = None
                if not refusal.passing:
                    break
                assert refusal_of(world.log, records, as_leader=as_leader) is None
            there.append((len(there), value))
        if world.log.log_dir.online:
            assert values(world.log) == there
            assert [value for _, value in there] == [f"{number}" * 60 for number in range(4)]
        world.refused = None
        again = world.open()
        assert values(again)[: len(there)] == there, "what was acknowledged is there, once"
    assert refusals > 3


def test_a_read_is_refused_and_succeeds_when_it_is_asked_again() -> None:
    world = ShortOfDescriptors()
    world.log.append_as_leader(batch(["a"]), 0, now_ms=NOW)
    world.log.close(now_ms=NOW)
    world.log = world.open(clean=True)
    world.refused = world.opened
    with pytest.raises(LogDirFailure, match="cannot be used now: reading the log"):
        values(world.log)
    world.refused = None
    assert world.log.log_dir.online
    assert values(world.log) == [(0, "a")]


def test_entries_of_an_index_wait_where_its_file_cannot_be_opened() -> None:
    """The batch is in the segment already: without its entry nothing is wrong, and the directory stays."""
    world = ShortOfDescriptors()
    world.log.update_config(topic_config(broker_config({}), {"index.interval.bytes": "0"}))
    world.log.append_as_leader(batch(["first"]), 0, now_ms=NOW)
    world.refused = world.opened
    for number in range(2 * GATHERED_ENTRIES):
        world.log.append_as_leader(batch([str(number)]), 0, now_ms=NOW)
    world.refused = None
    world.log.append_as_leader(batch(["last"]), 0, now_ms=NOW)
    world.log.flush(now_ms=NOW)
    entries = world.log.active_segment.offset_index.entries
    assert entries > 2 * GATHERED_ENTRIES
    world.log = world.open()
    assert world.log.active_segment.offset_index.entries == entries


@pytest.mark.parametrize("opened", range(4))
def test_a_new_log_is_refused_and_made_when_it_is_asked_for_again(opened: int) -> None:
    world = ShortOfDescriptors()
    world.refused = world.opened + opened
    log_dir = LogDir("/logs")

    def make() -> Log:
        disk = SimDisk(world.volume, world._guard, lambda: NOW)
        return Log.open(
            disk, "/logs/new-0", TopicPartition("new", 0), topic_config(broker_config({}), {}), now_ms=NOW,
            topic_id=Uuid(bytes(15) + b"7"), log_dir=log_dir,
        )  # fmt: skip

    if world.opened + 3 > world.refused:
        with pytest.raises(LogDirFailure, match="cannot be used now: loading new-0"):
            make()
    assert log_dir.online
    world.refused = None
    log = make()
    assert (log.log_end_offset, log.topic_id) == (0, Uuid(bytes(15) + b"7"))
    log.append_as_leader(batch(["a"]), 0, now_ms=NOW)
    assert values(log) == [(0, "a")]
