"""What is excused when R7's premise fails: what the new leader lacks, and nothing before, after or beside it."""

from __future__ import annotations

from collections.abc import Iterator
from types import SimpleNamespace
from typing import Any

import pytest

from barnabas.sim.judges.chain import Chain, ChainedBatch, Committed
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.judges.watch_losses import LossWatch, owners_in
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World
from barnabas.wire.records import ControlType, Record, build_batch, control_batch

SECOND = 1_000_000_000


class Written:
    """One partition, whose leaders wrote what `append` was told; a batch a second."""

    def __init__(self) -> None:
        self.world = World(1)
        self.losses = LossWatch(self.world)

    def append(self, base: int, epoch: int, records: int = 1, producer_id: int = -1) -> None:
        self.world.loop.now_ns += SECOND
        self.losses.appended(Chain("broker-0", 0, "orders-0", "id"), link(base, epoch, records, producer_id))

    def leads(self, epoch: int, end: int, epochs: dict[int, int]) -> None:
        """Somebody came to lead whose log ends there; `epochs` are those in it with the offsets where they begin."""
        entries = [SimpleNamespace(epoch=each, start_offset=start) for each, start in epochs.items()]
        log: Any = SimpleNamespace(log_end_offset=end, leader_epochs=SimpleNamespace(entries=entries))
        chain = Chain("broker-1", 0, "orders-0", "id")
        self.losses.happened(chain, *self.losses.lacking(chain, log, epoch))

    def lost(self, offset: int = -1, **span: Any) -> bool:
        return self.losses.may_be_lost("orders-0", offset, **span)


def link(base: int, epoch: int, records: int = 1, producer_id: int = -1, sequence: int = -1) -> ChainedBatch:
    last = sequence + records - 1 if sequence >= 0 else -1
    return ChainedBatch(base, base + records - 1, epoch, 0, base, producer_id, 0, sequence, last, 0)


@pytest.fixture
def written() -> Written:
    return Written()


def test_what_the_new_leader_has_is_not_excused_and_what_it_lacks_is(written: Written) -> None:
    for base in range(4):
        written.append(base, epoch=1)
    written.leads(2, end=2, epochs={1: 0, 2: 2})
    assert [written.lost(offset) for offset in range(4)] == [False, False, True, True]


def test_what_it_writes_itself_is_not_excused(written: Written) -> None:
    for base in range(4):
        written.append(base, epoch=1)
    written.leads(2, end=2, epochs={1: 0, 2: 2})
    written.append(2, epoch=2)
    now_ns = written.world.loop.now_ns
    assert written.lost(2, until_ns=now_ns - 1)
    assert not written.lost(2, since_ns=now_ns)


def test_what_a_leader_of_the_time_before_writes_is_excused_however_late(written: Written) -> None:
    written.append(0, epoch=1)
    written.append(1, epoch=1)
    written.leads(2, end=1, epochs={1: 0, 2: 1})
    written.world.loop.now_ns += 1_000 * SECOND
    written.append(2, epoch=1)
    assert written.lost(2)


def test_of_an_epoch_in_between_it_has_as_much_as_the_next_one_left(written: Written) -> None:
    for base in range(3):
        written.append(base, epoch=1)
    written.append(1, epoch=2)
    written.leads(3, end=2, epochs={1: 0, 2: 1, 3: 2})
    assert not written.lost(1, since_ns=written.world.loop.now_ns)  # of epoch 2
    assert written.lost(1, until_ns=written.world.loop.now_ns - 1)  # of epoch 1
    assert written.lost(2)


def test_a_leader_that_goes_on_in_its_epoch_forks_as_far_as_it_had_come(written: Written) -> None:
    for base in range(4):
        written.append(base, epoch=1)
    written.leads(1, end=2, epochs={1: 0})
    for base in range(2, 6):
        written.append(base, epoch=1)
    since_ns = written.world.loop.now_ns - 3 * SECOND
    assert [written.lost(offset, since_ns=since_ns) for offset in range(2, 6)] == [True, True, False, False]
    assert [written.losses.is_forked("orders-0", offset) for offset in range(6)] == [
        False,
        False,
        True,
        True,
        True,
        False,
    ]


def test_another_producers_loss_is_no_excuse(written: Written) -> None:
    written.append(0, epoch=1, producer_id=7)
    written.leads(2, end=0, epochs={2: 0})
    assert written.losses.may_be_lost("orders-0", producer_ids=[7])
    assert not written.losses.may_be_lost("orders-0", producer_ids=[8])
    assert not written.losses.may_be_lost("orders-1")


def test_of_an_internal_topic_it_is_a_loss_of_those_alone_of_whom_its_records_tell() -> None:
    group, other = (Record(offset, 0, _ledger_key(name), b"") for offset, name in enumerate((b"readers", b"others")))
    owners = owners_in(build_batch([group, other]))
    assert owners == {"readers", "others"}
    written = Written()
    written.losses.appended(Chain("broker-0", 0, "orders-0", "id"), link(0, 1, 2), owners)
    written.leads(2, end=0, epochs={2: 0})
    assert written.losses.may_be_lost("orders-0", owner="readers")
    assert not written.losses.may_be_lost("orders-0", owner="strangers")


def test_an_end_marker_tells_of_nobody() -> None:
    marker = control_batch(ControlType.COMMIT, producer_id=7, producer_epoch=0, coordinator_epoch=0, timestamp=0)
    assert owners_in(marker) == frozenset()


def _ledger_key(name: bytes) -> bytes:
    return b"\x00\x01" + len(name).to_bytes(2, "big") + name


def test_a_loss_before_an_offset_does_not_reach_it(written: Written) -> None:
    written.append(0, epoch=1, records=3)
    written.leads(2, end=0, epochs={2: 0})
    assert written.lost(reaching=2)
    assert not written.lost(reaching=3)


def test_a_topic_of_the_same_name_has_lost_nothing(written: Written) -> None:
    written.append(0, epoch=1)
    written.leads(2, end=0, epochs={2: 0})
    written.losses.forgotten("orders-0")
    assert not written.lost(0)


def test_a_cut_leaves_a_producer_the_sequence_it_had_and_not_its_marker() -> None:
    chain = Chain("broker-0", 0, "orders-0", "id")
    for each in (link(0, 1, 3, 7, sequence=0), link(3, 1, 1, 7), link(4, 1, 1, 8, sequence=0)):
        chain.links.append(each)
        chain.ends.append(each.last + 1)
    chain.cut(4)
    assert chain.producers == {7: (0, 2)}


class Copies:
    """Three batches of epoch 0, with the ends 3, 7 and 12, on each broker; one raise of the high watermark took all."""

    def __init__(self) -> None:
        self.probes = Probes()
        self.logs = LogWatch(World(1), self.probes)
        chain = copy("broker-0", 12)
        for each in chain.links:
            self.logs.losses.appended(chain, each)
        committed = self.logs.committed["orders-0", "id"] = Committed()
        committed.take_in(chain, 12)

    def leads(self, name: str, end: int, synced_end: int, epoch: int) -> None:
        """A broker whose disk lost something leads; `synced_end` is where its platter's last whole batch ends."""
        chain, restarts = copy(name, end), self.logs.restarts
        restarts.wiped[name, "orders-0"], restarts.synced_end[name, "orders-0"] = 0, synced_end
        self.logs.leads(chain, log_of(chain), epoch)

    def lost(self) -> list[int]:
        return [offset for offset in range(12) if self.logs.losses.may_be_lost("orders-0", offset)]


def copy(name: str, end: int) -> Chain:
    chain = Chain(name, 0, "orders-0", "id")
    for each in (link(0, 0, 3), link(3, 0, 4), link(7, 0, 5)):
        if each.last < end:
            chain.links.append(each)
            chain.ends.append(each.last + 1)
    return chain


def log_of(chain: Chain) -> Any:
    entries = [SimpleNamespace(epoch=0, start_offset=0)] if chain.links else []
    return SimpleNamespace(log_end_offset=chain.end, leader_epochs=SimpleNamespace(entries=entries))


@pytest.fixture
def copies() -> Iterator[Copies]:
    made = Copies()
    yield made
    made.probes.remove()


def test_what_a_leader_kept_stays_committed_though_no_high_watermark_was_ever_there(copies: Copies) -> None:
    copies.leads("broker-0", end=3, synced_end=3, epoch=1)
    assert copies.logs.committed["orders-0", "id"].high == 3
    kept, empty = copy("broker-1", 3), copy("broker-2", 0)
    assert copies.logs.holds_committed(kept, log_of(kept))
    assert not copies.logs.holds_committed(empty, log_of(empty))


def test_where_the_next_leader_has_others_that_count_though_those_before_were_deleted(copies: Copies) -> None:
    other, committed = copy("broker-2", 3), copies.logs.committed["orders-0", "id"]
    other.links.append(link(3, 1, 4)._replace(hash=1))
    other.ends.append(7)
    copies.logs.losses.appended(other, other.links[-1])
    committed.at[7] = 1
    copies.logs._deleted["orders-0", "id"] = 7
    copies.leads("broker-0", end=7, synced_end=0, epoch=2)
    own = copy("broker-0", 7)
    copies.logs.leaders._commit(own, 7)
    assert not copies.logs.world.violations
    assert committed.at[7] == own.hash_at(7)


def test_what_rots_of_the_copy_that_leads_next_is_excused_and_nothing_else(copies: Copies) -> None:
    copies.leads("broker-0", end=7, synced_end=7, epoch=1)
    assert copies.lost() == [*range(7, 12)]
    copies.leads("broker-2", end=3, synced_end=3, epoch=2)
    assert copies.lost() == [*range(3, 12)]


def test_what_was_whole_on_the_platter_and_is_cut_all_the_same_is_not_excused(copies: Copies) -> None:
    copies.leads("broker-0", end=7, synced_end=7, epoch=1)
    copies.leads("broker-2", end=3, synced_end=7, epoch=2)
    assert copies.lost() == [*range(7, 12)]


def test_who_has_what_another_leader_wrote_has_nothing_of_what_is_committed(copies: Copies) -> None:
    committed = copies.logs.committed["orders-0", "id"]
    own, other = copy("broker-1", 7), copy("broker-2", 3)
    other.links.append(link(3, 1, 4)._replace(hash=1))
    other.ends.append(7)
    assert committed.is_in(own, 3)
    assert not committed.is_in(own, 7)
    assert committed.is_in(other, 0)
    assert not committed.is_in(other, 3)
