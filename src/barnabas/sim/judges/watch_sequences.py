"""Watches producers' sequences, batch by batch in every replica's log, and what the log remembers of them."""

from __future__ import annotations

from math import inf
from typing import Final

from barnabas.log.log import Log
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.sim.judges.chain import SEQUENCES, Chain, ChainedBatch
from barnabas.sim.judges.watch_losses import LossWatch
from barnabas.sim.plans.plan import MS
from barnabas.sim.world.world import World, broker_name
from barnabas.wire.records import batches, records_of

EXPIRES: Final = ("producer.id.expiration.ms", "producer.id.expiration.check.interval.ms")
"""With these settings brokers soon forget idle producers; the first check is half a minute after their start by
default."""


class SequenceWatch:
    """T1, T2 and R26. What is known of a producer is kept with each `Chain`."""

    def __init__(self, world: World, losses: LossWatch) -> None:
        self.world = world
        self.losses = losses
        config = world.config_of(0, broker_name(0))
        self._may_be_forgotten = any(key in config for key in EXPIRES)
        self.expires_ms = float(config.get(EXPIRES[0], inf))
        self.repeated: dict[str, None] = {}
        """Partitions where a producer was forgotten before it repeated a batch, which then counts as a new one."""
        self.given_anew: dict[tuple[int, int], int] = {}
        """Producer ids and epochs that a coordinator gave out again because its record of them was lost, and when."""
        self.mistaken: dict[bytes, int] = {}
        """Values whose batch a leader took for an earlier producer's with the same id and epoch; since when that epoch
        exists."""

    def follows(self, chain: Chain, link: ChainedBatch, *, judged: bool) -> None:
        """T1: a producer's sequences are contiguous. T2: an older epoch of it writes nothing."""
        if link.producer_id < 0 or link.base_sequence < 0:
            return
        known = chain.producers.get(link.producer_id)
        chain.producers[link.producer_id] = link.producer_epoch, link.last_sequence
        if not judged or known is None:
            return
        world = self.world
        world.check("T1")
        world.check("T2")
        epoch, last = known
        if link.producer_epoch < epoch:
            world.violated(
                "T2", f"producer {link.producer_id} of epoch {link.producer_epoch} wrote to {chain.partition} after "
                f"epoch {epoch}", chain.partition, chain.node,
            )  # fmt: skip
        elif chain.partition.startswith(f"{GROUP_METADATA_TOPIC}-"):
            return  # a group's coordinator gives a transaction's offsets no sequences
        elif link.producer_epoch == epoch and link.base_sequence != (last + 1) % SEQUENCES:
            if self._may_be_forgotten and self.losses.may_be_lost(chain.partition, producer_ids=[link.producer_id]):
                world.waive("T1")  # what it wrote in between is gone, and so is what the broker knew of it
                return
            if self._is_repeated(chain, link):
                world.waive("T1")
                return
            world.violated(
                "T1", f"producer {link.producer_id} wrote sequence {link.base_sequence} to {chain.partition} after "
                f"{last}", chain.partition, chain.node,
            )  # fmt: skip

    def _is_repeated(self, chain: Chain, link: ChainedBatch) -> bool:
        """Whether the leader may have forgotten the producer after ``producer.id.expiration.ms`` of silence; Kafka
        takes any sequence then (``ProducerAppendInfo.checkSequence``)."""
        if chain.partition not in self.repeated:
            of_producer = (
                known.timestamp_ms for known in reversed(chain.links)
                if known.producer_id == link.producer_id and known.base < link.base
            )  # fmt: skip
            last_ms = next(of_producer, inf)
            if self.world.loop.now_ns // MS - last_ms >= self.expires_ms:
                self.repeated[chain.partition] = None
        return chain.partition in self.repeated

    def remembers(self, chain: Chain, log: Log, begins: int) -> None:
        """R26: each batch that a producer's state remembers is in the log, from `begins` on.

        Judged where the state was read from a snapshot and replayed: after a restart, and after a truncation.
        """
        world = self.world
        world.check("R26")
        for entry in log.producers.entries.values():
            for batch in entry.batches:
                link = chain.ending_at(batch.last_offset + 1)
                if batch.last_offset >= begins and (
                    link is None or (link.producer_id, link.last_sequence) != (entry.producer_id, batch.last_sequence)
                ):
                    world.violated(
                        "R26", f"{chain.node} remembers sequence {batch.last_sequence} of producer "
                        f"{entry.producer_id} at {batch.last_offset} of {chain.partition}, where {link} is",
                        chain.partition, chain.node,
                    )  # fmt: skip

    def told_again(self, chain: Chain, view: memoryview, last: int) -> None:
        """A leader has answered where the batch is, the last record at `last`, and not written it. It may have taken it
        for another batch of the same producer id, epoch and sequence (``ProducerStateEntry.findDuplicateBatch``)."""
        for header, start, end in batches(view):
            given_ns = self.given_anew.get((header.producer_id, header.producer_epoch))
            if given_ns is not None and not self.losses.has_written(chain, header.producer_id, given_ns, last):
                self.mistaken.update((record.value or b"", given_ns) for record in records_of(view, start, end))

    def refused(self, chain: Chain, log: Log, view: memoryview) -> None:
        """T1: a leader refuses neither the next sequence of a producer nor any sequence of an unknown one.

        There are two exceptions. When a producer's records are deleted and a marker alone is left, a broker that has
        read the log again takes nothing but sequence 0, as Kafka's does (``ProducerAppendInfo.checkSequence``). And
        when two producers were given the same epoch, the second one's first batch counts as a repetition, which begins
        no transaction, so that the next batch of its transaction is refused (KIP-890).
        """
        header = next((header for header, _, _ in batches(view)), None)
        if header is None:
            return
        self.world.check("T1")
        entry = log.producers.entries.get(header.producer_id)
        known = chain.producers.get(header.producer_id)
        follows = known == (header.producer_epoch, (header.base_sequence - 1) % SEQUENCES)
        given_ns = self.given_anew.get((header.producer_id, header.producer_epoch))
        anew = given_ns is not None and not self.losses.has_written(chain, header.producer_id, given_ns)
        begun_before = header.is_transactional if entry is None or anew else not entry.batches
        if begun_before and header.base_sequence != 0:
            self.world.waive("T1")
        elif entry is None or follows:
            self.world.violated(
                "T1", f"{chain.node} refused sequence {header.base_sequence} of producer {header.producer_id} for "
                f"{chain.partition}; the last one was {known}", chain.partition, chain.node,
            )  # fmt: skip
