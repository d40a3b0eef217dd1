"""Watches which batches may be lost, one by one: where R7's premise failed, and which batches that took.

Kafka with ZooKeeper loses what an elected leader lacks: its disk lost it (the copy is *wiped*), or the election was
unclean. Nothing else is excused: neither what that leader has, nor what it writes then.

Two effects last longer. A leader of an earlier epoch may write and commit until it hears of its successor; its epoch
tells such batches apart. And a leader that lost records of its own epoch, and goes on in that epoch, writes others in
their place. Kafka does not prevent that: followers that copied the lost ones cannot tell, and keep them (a *fork*). At
such offsets either is right.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Sequence
from typing import TYPE_CHECKING, NamedTuple

from barnabas.runtime.doors import Bytes
from barnabas.sim.judges.chain import Chain, ChainedBatch
from barnabas.sim.world.world import World
from barnabas.wire.records import batches, records_of

if TYPE_CHECKING:
    from barnabas.log.log import Log

_FOREVER = 1 << 62


class AppendedBatch(NamedTuple):
    """A batch that a leader appended, and when."""

    base: int
    last: int
    epoch: int
    producer_id: int
    appended_ns: int
    owners: frozenset[str] = frozenset()
    """The groups or transactional ids whose state it holds, if the topic is internal."""


class LostBatches(NamedTuple):
    """A leader was elected in `leader_epoch` without some of what was written.

    `epochs` are the epochs of its log with their first offsets, `end` is its log end offset. Lost batches of its own
    epoch lay before `forked_until`, and so did those of older epochs where followers do not hear of these.
    """

    leader_epoch: int
    at_ns: int
    epochs: tuple[tuple[int, int], ...]
    end: int
    forked_until: int

    def takes(self, batch: AppendedBatch) -> bool:
        if batch.epoch > self.leader_epoch:
            return False
        if batch.epoch == self.leader_epoch:
            return self.end <= batch.last < self.forked_until or (
                batch.last >= self.end and batch.appended_ns <= self.at_ns
            )
        if batch.last >= self.end:  # a log may be begun anew within a batch, where records were deleted up to there
            return True
        there = next((epoch for epoch, start in reversed(self.epochs) if start <= batch.base), batch.epoch)
        return there != batch.epoch


def owners_in(data: Bytes) -> frozenset[str]:
    """The groups or transactional ids that batches of an internal topic are about: each key begins with a version and
    the name (``OffsetCommitKey``, ``GroupMetadataKey``, ``TransactionLogKey``); markers have no such key."""
    found: set[str] = set()
    for header, start, end in batches(data):
        for record in () if header.is_control else records_of(data, start, end):
            key = record.key or b""
            found.add(key[4 : 4 + int.from_bytes(key[2:4], "big")].decode())
    return frozenset(found)


class LossWatch:
    """By partition and topic id: what leaders wrote, and which of it may be lost."""

    def __init__(self, world: World) -> None:
        self.world = world
        self._written: dict[tuple[str, str], list[AppendedBatch]] = {}
        self._losses: dict[tuple[str, str], list[LostBatches]] = {}
        self._lost: dict[str, list[AppendedBatch]] = {}
        """By partition."""

    def appended(self, chain: Chain, link: ChainedBatch, owners: frozenset[str] = frozenset()) -> None:
        """A leader wrote a batch in the epoch in which it believes to lead; `owners` are given where the topic is
        internal."""
        key = chain.partition, chain.topic_id
        now_ns = self.world.loop.now_ns
        batch = AppendedBatch(link.base, link.last, link.epoch, link.producer_id, now_ns, owners)
        self._written.setdefault(key, []).append(batch)
        if any(loss.takes(batch) for loss in self._losses.get(key, ())):
            self._lost.setdefault(chain.partition, []).append(batch)

    def found(self, chain: Chain, link: ChainedBatch, owners: frozenset[str]) -> None:
        """A log that is opened ends with the batch; its leader may have died while it wrote it."""
        written = self._written.get((chain.partition, chain.topic_id), ())
        if not any((batch.last, batch.epoch) == (link.last, link.epoch) for batch in reversed(written)):
            self.appended(chain, link, owners)

    def lacking(self, chain: Chain, log: Log, leader_epoch: int) -> tuple[LostBatches, list[AppendedBatch]]:
        """What would be lost if the log's owner leads in that epoch."""
        now_ns, end = self.world.loop.now_ns, log.log_end_offset
        epochs = tuple((entry.epoch, entry.start_offset) for entry in log.leader_epochs.entries)
        written = self._written.get((chain.partition, chain.topic_id), [])
        # A follower of before 2.7 asks for epochs when it begins, and does not hear that the leader lost older ones.
        unheard = not self.world.metadata_version.is_truncation_on_fetch_supported
        own = [
            batch.last + 1
            for batch in written
            if batch.last >= end and (batch.epoch == leader_epoch or (unheard and batch.epoch < leader_epoch))
        ]
        loss = LostBatches(leader_epoch, now_ns, epochs, end, max(own, default=0))
        return loss, [batch for batch in written if loss.takes(batch)]

    def happened(self, chain: Chain, loss: LostBatches, taken: Sequence[AppendedBatch]) -> None:
        self._losses.setdefault((chain.partition, chain.topic_id), []).append(loss)
        known = self._lost.setdefault(chain.partition, [])
        known += [batch for batch in taken if batch not in known]

    def forgotten(self, partition: str) -> None:
        """The partition's topic was deleted."""
        self._lost.pop(partition, None)
        for key in [place for place in self._losses if place[0] == partition]:
            del self._losses[key]

    # Asked by the judges

    def may_be_lost(
        self,
        partition: str,
        offset: int = -1,
        *,
        reaching: int = -1,
        since_ns: int = 0,
        until_ns: int = _FOREVER,
        producer_ids: Iterable[int] = (),
        owner: str = "",
    ) -> bool:
        """Whether a batch appended in that time may be lost: one with that `offset`, one `reaching` an offset or beyond
        it, one of these producers, one of that `owner`, or any."""
        wanted = frozenset(producer_ids)
        return any(
            since_ns <= batch.appended_ns <= until_ns
            and (offset < 0 or batch.base <= offset <= batch.last)
            and batch.last >= reaching
            and (not wanted or batch.producer_id in wanted)
            and (not owner or owner in batch.owners)
            for batch in self._lost.get(partition, ())
        )

    def has_written(self, chain: Chain, producer_id: int, since_ns: int, last: int = -1) -> bool:
        """Whether a leader has appended a batch of the producer since then: any, or the one that ends with `last`."""
        written = self._written.get((chain.partition, chain.topic_id), ())
        return any(
            batch.producer_id == producer_id and batch.appended_ns >= since_ns and last in (-1, batch.last)
            for batch in written
        )

    def is_any(self, topics: Container[str]) -> bool:
        """Whether anything of these topics may be lost."""
        return any(lost and partition.rpartition("-")[0] in topics for partition, lost in self._lost.items())

    def brings_back(self, chain: Chain, since: int, until: int) -> bool:
        """Whether the copy has a batch between the two offsets that may be lost because another leader lacked it."""
        return any(
            since <= batch.last < until
            and (link := chain.ending_at(batch.last + 1)) is not None
            and link.epoch == batch.epoch
            for batch in self._lost.get(chain.partition, ())
        )

    def is_overtaken(self, chain: Chain, leader_epoch: int) -> bool:
        """Whether a later leader was elected without some of what was written."""
        return any(loss.leader_epoch > leader_epoch for loss in self._losses.get((chain.partition, chain.topic_id), ()))

    def is_forked(self, partition: str, offset: int = -1) -> bool:
        """Whether copies may differ at the offset, or anywhere. A batch that follows on a differing one differs as
        well."""
        return any(
            loss.forked_until and (offset < 0 or loss.end <= offset <= loss.forked_until)
            for (name, _), losses in self._losses.items()
            if name == partition
            for loss in losses
        )
