"""What batches tell of producers and transactions, made from them alone."""

from __future__ import annotations

from barnabas.sim.judges.chain import ChainedBatch, LinkKind
from barnabas.sim.judges.watch_derived import Ended, Remembered, told_by

ONE, OTHER = 7, 8


def batch(base: int, producer_id: int, sequence: int, kind: LinkKind = LinkKind.DATA, epoch: int = 0) -> ChainedBatch:
    return ChainedBatch(base, base, 0, 0, base, producer_id, epoch, sequence, sequence, 0, False, kind)


def end(base: int, producer_id: int, kind: LinkKind) -> ChainedBatch:
    return batch(base, producer_id, -1, kind)


def test_an_abort_behind_an_open_transaction_leaves_all_undecided_from_there_on() -> None:
    told = told_by([batch(0, ONE, 0), batch(1, OTHER, 0), end(2, OTHER, LinkKind.ABORT)])
    assert told.ended == [Ended(OTHER, 1, 2, aborted=True, stable=0)]
    assert told.undecided(high_watermark=3) == [0]


def test_an_end_that_may_still_be_lost_decides_nothing() -> None:
    told = told_by([batch(0, ONE, 0), end(1, ONE, LinkKind.COMMIT)])
    assert told.undecided(high_watermark=1) == [0]
    assert told.undecided(high_watermark=2) == []
    assert told.ended == [Ended(ONE, 0, 1, aborted=False, stable=2)]


def test_the_last_five_batches_of_an_epoch_are_remembered() -> None:
    links = [batch(number, ONE, number, LinkKind.PLAIN) for number in range(7)]
    assert told_by(links).producers[ONE].batches == [Remembered(n, n, n, n) for n in range(2, 7)]
    again = told_by([*links, batch(7, ONE, 0, LinkKind.PLAIN, epoch=1)]).producers[ONE]
    assert (again.epoch, again.batches) == (1, [Remembered(0, 0, 7, 7)])
