"""Asks questions that hardly any client asks just when the answer would be wrong. A log is asked what it would say to
the next batch of a producer; a leader, what it says to a producer of its former term, where leader epochs end, and for
whom it waits; the cleaner, how far it would go; a coordinator, what it makes of a late word of an earlier epoch.

The answers depend on values alone and change none. So a wrong decision shows as soon as there is anything to decide,
and not only when a client, a fault and a clock happen to meet.
"""

from __future__ import annotations

import copy
from dataclasses import replace
from itertools import pairwise
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from barnabas.controller.alter_partition import judge
from barnabas.coordinator.leader_epochs import LeaderEpochs
from barnabas.log.batches import StoredBatch
from barnabas.log.cleaner import log_to_clean
from barnabas.log.log import AppendInfo, Log
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_OFFSET
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.model.leadership import LeaderAndIsr, PendingExpandIsr, PendingShrinkIsr
from barnabas.replica.leading import ProposedIsr, next_high_watermark, refused_isr
from barnabas.replica.partition import Partition
from barnabas.replica.progress import Progress
from barnabas.sim.judges.chain import SEQUENCES, Chain, ChainedBatch, LinkKind
from barnabas.sim.plans.plan import MS
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes, node
from barnabas.wire.records import TRANSACTIONAL, batches

if TYPE_CHECKING:
    from barnabas.sim.judges.watch_logs import LogWatch

PendingIsr: TypeAlias = PendingExpandIsr | PendingShrinkIsr
NEVER_LED: Final = -1
SOMEBODY: Final = 1 << 30
"""A broker that no cluster has."""
ALTER_PARTITION: Final = 3
"""The request's version."""
TOO_FAR: Final = 1 << 31
LATER_MS: Final = 1 << 62
"""A time that no run reaches."""
_MAGIC: Final = 2
NOT_DONE: Final = (ErrorCode.OPERATION_NOT_ATTEMPTED, ErrorCode.INELIGIBLE_REPLICA)
"""Answers to AlterPartition by which the ISR is certainly what it was (``Partition.handleAlterPartitionError``)."""


class InquiryWatch:
    def __init__(self, logs: LogWatch, probes: Probes) -> None:
        """Its probes run behind those of `logs`, so that chains are up to date when it looks."""
        self.world = logs.world
        self.logs = logs
        probes.after(Log, "append_as_leader", self._appended)
        probes.across(Partition, "make_leader", lambda partition: partition.leading_since_epoch, self._leads)
        probes.across(Partition, "make_leader", lambda partition: partition.leader_epoch, self._leads_again)
        probes.after(Partition, "propose_isr", self._proposed)
        probes.after(LeaderEpochs, "elected", self._elected)

    def _appended(self, info: AppendInfo, log: Log, records: Any, *_: object, **__: object) -> None:
        chain = self.logs.chain_of(log)
        if chain is None or not chain.links:
            return
        if info.duplicate:
            self._is_there(chain, info, records)
            return
        if len(chain.links) == 1:
            self.ask_whether_it_rolls(log, chain)
        link = chain.links[-1]
        # A group's coordinator gives a transaction's offsets no sequences.
        if link.producer_id >= 0 and link.base_sequence >= 0 and not chain.partition.startswith(GROUP_METADATA_TOPIC):
            self.ask_on_behalf_of_producers(log, chain, link)

    # R11

    def ask_whether_it_rolls(self, log: Log, chain: Chain) -> None:
        """R11: an offset too far from a segment's first for the index, which stores four bytes, begins a new segment
        (KAFKA-6264)."""
        self.world.check("R11")
        segment, now_ms = log.active_segment, EPOCH_MS + self.world.loop.now_ns // MS
        with self.world.nodes[chain.node].disk.as_it_is():
            rolls = log.segments.should_roll(segment.base_offset + TOO_FAR, now_ms, now_ms)
        if not rolls:
            self.world.violated(
                "R11", f"{chain.node} would put offset {segment.base_offset + TOO_FAR} of {chain.partition} into the "
                f"segment that begins at {segment.base_offset}", chain.partition, chain.node,
            )  # fmt: skip

    # T1, T2

    def _is_there(self, chain: Chain, info: AppendInfo, records: Any) -> None:
        """T1: a batch that counts as a repetition is in the log, at the offset that its producer is told."""
        header = next((header for header, _, _ in batches(memoryview(records))), None)
        if header is None or info.last_offset < chain.log_start:
            return
        self.world.check("T1")
        link = chain.ending_at(info.last_offset + 1)
        there = None if link is None else (link.producer_id, link.producer_epoch, link.base_sequence)
        if there != (header.producer_id, header.producer_epoch, header.base_sequence) and not self._may_be_cleaned(
            chain, info.last_offset
        ):
            self.world.violated(
                "T1", f"{chain.node} takes sequence {header.base_sequence} of producer {header.producer_id} in epoch "
                f"{header.producer_epoch} for one that it has at {info.last_offset} of {chain.partition}, where {link} "
                "is", chain.partition, chain.node,
            )  # fmt: skip

    def _may_be_cleaned(self, chain: Chain, offset: int) -> bool:
        return offset < self.logs.cleaned_to(chain.partition, chain.topic_id)

    def ask_on_behalf_of_producers(self, log: Log, chain: Chain, link: ChainedBatch) -> None:
        """T1: the batch that was just appended counts as a repetition when it comes again, and one that leaves a gap is
        refused. T2: so is a batch of an earlier epoch. A batch of the next epoch is no repetition."""
        self.world.check("T1")
        self.world.check("T2")
        epoch, first = link.producer_epoch, link.base_sequence
        told = self._told(log, link, epoch, first)
        if told != link.last:
            self._wrong("T1", chain, link, "a producer that repeats it", told)
        told = self._told(log, link, epoch + 1, first)
        if isinstance(told, int):
            self._wrong("T1", chain, link, "a producer that sends the same in the next epoch", told)
        told = self._told(log, link, epoch, (link.last_sequence + 2) % SEQUENCES)
        if not isinstance(told, str):
            self._wrong("T1", chain, link, "a producer that leaves one out", told)
        if epoch > 0:
            told = self._told(log, link, epoch - 1, 0)
            if not isinstance(told, str):
                self._wrong("T2", chain, link, "a producer of the epoch before", told)

    def _told(self, log: Log, link: ChainedBatch, epoch: int, first_sequence: int) -> int | str | None:
        """What the producer of a batch like this one would be told: an error, the offset of a repetition, or None if it
        is taken."""
        asked = StoredBatch(
            0, 0, log.log_end_offset, log.log_end_offset + link.last - link.base, link.epoch, _MAGIC, link.crc,
            TRANSACTIONAL if link.kind is LinkKind.DATA else 0, EPOCH_MS + link.timestamp_ms,
            EPOCH_MS + link.timestamp_ms, link.producer_id, epoch, first_sequence, link.last - link.base + 1,
        )  # fmt: skip
        try:
            repeated = log.producers.check(asked, check_sequence=True)
        except KafkaError as error:
            return error.code.name
        return None if repeated is None else repeated.last_offset

    def _wrong(self, invariant: str, chain: Chain, link: ChainedBatch, who: str, told: object) -> None:
        self.world.violated(
            invariant, f"{chain.node} has {link} in {chain.partition}, and {who} is told {told}", chain.partition,
            chain.node,
        )  # fmt: skip

    # R13, R24, R28

    def _leads(self, before: int, _: object, partition: Partition, *__: object) -> None:
        log = partition.log
        chain = None if log is None else self.logs.chain_of(log)
        if log is not None and chain is not None:
            self.ask_where_epochs_end(log, chain)
        self._is_over_for_who_waits(before, partition)

    def _leads_again(self, epoch: int, _: object, partition: Partition, *__: object) -> None:
        self.counts_nothing_of_before(epoch, partition)

    def counts_nothing_of_before(self, epoch: int, partition: Partition) -> None:
        """R24: a leader that missed an epoch begins without knowledge of its followers' ends: another leader may have
        cut them."""
        if partition.leader_epoch <= epoch + 1:
            return
        self.world.check("R24")
        known = {each: progress.log_end_offset for each, progress in partition.progress.items()}
        if any(offset != NO_OFFSET for offset in known.values()):
            place = str(partition.topic_partition)
            sentence = f"{node()} knew epoch {epoch} of {place}, leads it in {partition.leader_epoch}, and believes its"
            self.world.violated("R24", f"{sentence} followers to have {known}", place, node())

    def ask_where_epochs_end(self, log: Log, chain: Chain) -> None:
        """R13: an epoch ends where the next one in the log begins. A question about an epoch without records is
        answered with the one before it: there the asking follower's log departs from this one (KIP-279)."""
        if self.logs.cleaned_to(chain.partition, chain.topic_id):
            return  # an epoch may have begun with a record that is gone
        begins: dict[int, int] = {}
        for link in chain.links:
            if link.last >= log.log_start_offset:
                begins.setdefault(link.epoch, max(link.base, log.log_start_offset))
        self.world.check("R13")
        for epoch, following in pairwise(begins):
            for asked in (epoch, following - 1):
                told = log.end_offset_for_epoch(asked)
                if told != (epoch, begins[following]):
                    self.world.violated(
                        "R13", f"{chain.node} answers {told} for epoch {asked} of {chain.partition}; the last one up "
                        f"to that is {epoch}, which ends at {begins[following]}", chain.partition, chain.node,
                    )  # fmt: skip

    def _is_over_for_who_waits(self, before: int, partition: Partition) -> None:
        """R28: a producer that waits for a record of the leader's former term is told that it leads no more: the record
        may be cut by now, with another one at its offset."""
        if before == NEVER_LED or partition.leading_since_epoch == before:
            return
        self.world.check("R28")
        _, told = partition.check_enough_replicas_reach_offset(0, before)
        if told is not ErrorCode.NOT_LEADER_OR_FOLLOWER:
            self.world.violated(
                "R28", f"{node()} leads {partition.topic_partition} since epoch {partition.leading_since_epoch}, and "
                f"answers {told.name} to a producer of its term since epoch {before}", str(partition.topic_partition),
                node(),
            )  # fmt: skip

    # R6

    def _proposed(self, _: object, partition: Partition, state: PendingIsr, isr: frozenset[int]) -> None:
        if partition.log is not None:
            self.ask_whom_it_waits_for(partition, partition.log)
        self.ask_what_it_makes_of_an_answer(partition, state, isr)

    def ask_what_it_makes_of_an_answer(self, partition: Partition, state: PendingIsr, isr: frozenset[int]) -> None:
        """R6: the ISR that a leader proposed may be written although it is told that the partition has changed: when it
        repeats the proposal because an answer was lost, somebody else may have written meanwhile. So it goes on waiting
        for all members."""
        self.world.check("R6")
        sent = LeaderAndIsr(
            partition.leader_id, partition.leader_epoch, tuple(sorted(isr)), partition_epoch=partition.partition_epoch
        )
        others = replace(sent, isr=(*sent.isr, SOMEBODY), partition_epoch=sent.partition_epoch + 2)
        known: Any = SimpleNamespace(
            partition_leadership_info=lambda _: SimpleNamespace(leader_and_isr=others), is_live_broker=lambda _: True
        )
        told = judge(known, partition.topic_partition, sent, ALTER_PARTITION)
        after, _ = refused_isr(ProposedIsr(state, sent), told) if isinstance(told, ErrorCode) else (state, False)
        if not after.maximal_isr >= state.maximal_isr:
            self.world.violated(
                "R6", f"{node()} has proposed {sent.isr} for the ISR of {partition.topic_partition}, and would wait "
                f"for {sorted(after.maximal_isr)} alone when told {told!r}", str(partition.topic_partition), node(),
            )  # fmt: skip

        self._waits_for_nothing(partition, ProposedIsr(state, sent))

    def _waits_for_nothing(self, partition: Partition, proposed: ProposedIsr) -> None:
        """C24: what a controller says that it has not done is not waited for: no other change is asked for so long."""
        self.world.check("C24")
        for refusal in NOT_DONE:
            after, again = refused_isr(proposed, refusal)
            if after is not proposed.state.committed or again:
                self.world.violated(
                    "C24", f"{node()} has proposed {proposed.sent.isr} for the ISR of {partition.topic_partition}, and "
                    f"goes on waiting for it when told {refusal.name}", str(partition.topic_partition), node(),
                )  # fmt: skip

    def _elected(self, is_news: bool, epochs: LeaderEpochs, number: int, leader_epoch: int) -> None:
        """C23: who coordinates what it leads in an epoch heeds no late word of the epoch before."""
        self.world.check("C23")
        if is_news and copy.deepcopy(epochs).resigned(number, leader_epoch - 1):
            self.world.violated(
                "C23", f"{node()} coordinates what partition {number} keeps in epoch {leader_epoch}, and would give it "
                f"up for another's epoch {leader_epoch - 1}", node=node(),
            )  # fmt: skip

    def ask_whom_it_waits_for(self, partition: Partition, log: Log) -> None:
        """R6: a follower that may be in the ISR holds the high watermark back, however long it is paused and whatever
        others have by then: it may be the next leader."""
        self.world.check("R6")
        further = log.log_end_offset + 1
        for member in sorted(partition.isr_state.maximal_isr & partition.progress.keys()):
            followers = {each: _who_is_at(each, further) for each in partition.progress}
            still = followers[member] = _who_is_at(member, partition.progress[member].log_end_offset)
            told = next_high_watermark(
                log.high_watermark, further, partition.isr_state, followers, 1, lambda _: True, 0, LATER_MS
            )
            if told > max(still.log_end_offset, log.high_watermark):
                self.world.violated(
                    "R6", f"{node()} would commit {partition.topic_partition} to {told} while {member}, which may be "
                    f"in the ISR, is at {still.log_end_offset}", str(partition.topic_partition), node(),
                )  # fmt: skip

    # R18

    def ask_the_cleaner(self, log: Log, chain: Chain) -> None:
        """R18: the cleaner touches nothing at or beyond the last stable offset, whenever it comes."""
        if not log.settings.compact or log.last_stable_offset >= log.active_segment.base_offset or log.closed:
            return
        self.world.check("R18")
        with self.world.nodes[chain.node].disk.as_it_is():
            wanted = log_to_clean(log, EPOCH_MS + self.world.loop.now_ns // MS)
        if wanted.first_uncleanable_offset > max(log.last_stable_offset, wanted.first_dirty_offset):
            self.world.violated(
                "R18", f"{chain.node} would clean {chain.partition} to {wanted.first_uncleanable_offset}; the last "
                f"stable offset is {log.last_stable_offset}", chain.partition, chain.node,
            )  # fmt: skip


def _who_is_at(broker_id: int, offset: int) -> Progress:
    progress = Progress(broker_id)
    progress.log_end_offset = offset
    return progress
