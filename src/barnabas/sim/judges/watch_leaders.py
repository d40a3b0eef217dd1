"""Watches leaders and high watermarks (R2 to R6, R9, R12, R14), each at the moment it could first break."""

from __future__ import annotations

from bisect import bisect_right
from contextlib import suppress
from typing import TYPE_CHECKING, Any

from barnabas.log.log import Log
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH
from barnabas.model.internal_topics import GROUP_METADATA_TOPIC
from barnabas.model.leadership import CommittedIsr, LeaderAndIsr, PendingExpandIsr, PendingShrinkIsr
from barnabas.model.sentinels import LATEST_TIMESTAMP
from barnabas.replica.partition import Partition
from barnabas.replica.readable_partition import FetchIsolation
from barnabas.sim.judges.chain import Chain, ChainedBatch, Committed
from barnabas.sim.world.node import EPOCH_MS
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World, broker_name, broker_number

if TYPE_CHECKING:
    from barnabas.sim.judges.watch_logs import LogWatch


class LeaderWatch:
    def __init__(self, world: World, logs: LogWatch, probes: Probes) -> None:
        self.world = world
        self.logs = logs
        self.losses = logs.losses
        self.told_latest: dict[str, int] = {}
        self.reached: dict[str, int] = {}
        """By partition: the highest high watermark of any leader since records of it were lost."""
        self.begun_anew: dict[str, None] = {}
        """Partitions of which a coordinator loaded records that a later leader never had."""
        self._leader_high: dict[tuple[str, int, str, str, int], int] = {}
        self._loaded: dict[tuple[str, str], dict[int, int]] = {}
        """By partition and topic id: where a coordinator's loading ended, and the hash there."""
        self._coming_to_lead: tuple[Any, tuple[int, int]] | None = None
        """The new state, and the leader epoch and leader before it, while a partition becomes leader."""
        probes.around(Log, "update_high_watermark", self._around_update_high_watermark)
        probes.around(Partition, "make_leader", self._around_make_leader)
        probes.around(Partition, "maybe_increment_high_watermark", self._around_maybe_increment_high_watermark)
        probes.after(Partition, "read", self._read)
        probes.after(Partition, "offset_for_timestamp", self._listed)
        probes.after(Partition, "propose_isr", self._proposed)
        probes.after(Partition, "isr_altered", self._altered)
        probes.after(Partition, "maybe_shrink_isr", self._shrunk)

    def _around_update_high_watermark(self, original: Any, log: Log, high_watermark: int) -> Any:
        before = log.high_watermark
        result = original(log, high_watermark)
        chain = self.logs.chain_of(log)
        if chain is not None and log.high_watermark != before:
            self._moved(log, chain, before)
        return result

    def _moved(self, log: Log, chain: Chain, before: int) -> None:
        world, high = self.world, log.high_watermark
        world.check("R5")
        if high > log.log_end_offset:
            world.violated(
                "R5", f"{chain.partition} on {chain.node}: high watermark {high} beyond the end {log.log_end_offset}",
                chain.partition, chain.node,
            )  # fmt: skip
        committed = self.logs.committed.get((chain.partition, chain.topic_id))
        begun = high > max(self.logs.start_of(chain), self.logs.cleaned_to(chain.partition, chain.topic_id))
        if committed is not None and high > before and high in committed.at and begun:
            world.check("R2")
            mine = chain.hash_at(high)
            lossy = self.logs.may_be_lost(chain.node, chain.partition) or self.losses.is_forked(chain.partition, high)
            if lossy:
                world.waive("R2")
            elif mine is not None and mine != committed.at[high]:
                world.violated(
                    "R2", f"{chain.partition} on {chain.node} differs from what was committed below {high}",
                    chain.partition, chain.node,
                )  # fmt: skip

    def _around_maybe_increment_high_watermark(self, original: Any, partition: Partition, now_ms: int) -> bool:
        self._comes_to_lead(partition)
        raised: bool = original(partition, now_ms)
        self._high_watermark_raised(raised, partition, now_ms)
        return raised

    def _high_watermark_raised(self, raised: bool, partition: Partition, now_ms: int) -> None:
        """A leader's high watermark rose: judges R4, R5 and R6; what lies below it is committed from now on."""
        self._nothing_holds_it_back(partition, now_ms)
        log = partition.log
        if not raised or log is None:
            return
        chain = self.logs.chain_of(log)
        if chain is None:
            return
        world, high, name = self.world, log.high_watermark, chain.partition
        world.check("R6")
        state = partition.isr_state
        if len(state.isr) < partition.effective_min_isr and partition.progress:
            world.violated(
                "R6", f"{chain.node} raised the high watermark of {name} to {high} with the ISR {sorted(state.isr)}, "
                f"fewer than {partition.effective_min_isr}", name, chain.node,
            )  # fmt: skip
        for member in sorted(state.maximal_isr):
            progress = partition.progress.get(member)
            if progress is not None and progress.log_end_offset < high:
                world.violated(
                    "R6", f"{chain.node} raised the high watermark of {name} to {high}, and {member} is at "
                    f"{progress.log_end_offset}", name, chain.node,
                )  # fmt: skip
        key = chain.node, chain.life, name, chain.topic_id, partition.leader_epoch
        world.check("R5")
        if self._leader_high.get(key, 0) > high:
            world.violated(
                "R5", f"the high watermark of {name} on leader {chain.node} fell to {high} in epoch "
                f"{partition.leader_epoch}", name, chain.node,
            )  # fmt: skip
        self._leader_high[key] = high
        self.reached[name] = max(high, self.reached.get(name, 0))
        if self.losses.is_overtaken(chain, partition.leader_epoch):
            world.check("R4")
            world.waive("R4")  # it has not heard of the one that leads since, without some of what was written
            return
        self._commit(chain, high)
        self._on_every_member(chain, high, partition.assigned_replicas)
        self._ask_for_the_end(partition)

    def _nothing_holds_it_back(self, partition: Partition, now_ms: int) -> None:
        """R6: the high watermark is as high as the maximal ISR and live, caught-up followers allow (KAFKA-13091,
        15021)."""
        log, broker = partition.log, self.world.brokers.get(node())
        if log is None or broker is None or not partition.is_leader:
            return
        state = partition.isr_state
        if partition.progress and len(state.isr) < partition.effective_min_isr:
            return
        self.world.check("R6")
        alive, lag_max_ms = broker.metadata.image.brokers, broker.replicas.replica_lag_time_max_ms
        end = log.log_end_offset
        counted = [
            progress.log_end_offset
            for member, progress in partition.progress.items()
            if member in state.maximal_isr
            or (
                member in alive
                and (progress.log_end_offset == end or now_ms - progress.last_caught_up_ms <= lag_max_ms)
            )
        ]
        possible = min([end, *counted])
        if possible > log.high_watermark:
            self.world.violated(
                "R6", f"{node()} leaves the high watermark of {partition.topic_partition} at {log.high_watermark}, and "
                f"{possible} is on all of {sorted(state.maximal_isr)}", str(partition.topic_partition), node(),
            )  # fmt: skip

    def _altered(
        self, _: object, partition: Partition, proposed: object, outcome: LeaderAndIsr | ErrorCode, now_ms: int
    ) -> None:
        state = partition.isr_state
        if not isinstance(outcome, LeaderAndIsr) or not isinstance(state, CommittedIsr):
            return
        if state.partition_epoch == outcome.partition_epoch:
            self._nothing_holds_it_back(partition, now_ms)

    def _shrunk(self, proposed: bool, partition: Partition, now_ms: int) -> None:
        """R12: a follower that was caught up within ``replica.lag.time.max.ms`` stays in the ISR (KAFKA-4485)."""
        pending, log, broker = partition.isr_state, partition.log, self.world.brokers.get(node())
        if not proposed or log is None or broker is None or not isinstance(pending, PendingShrinkIsr):
            return
        self.world.check("R12")
        for member in sorted(pending.out_of_sync):
            progress = partition.progress.get(member)
            if progress is None:
                continue
            behind_ms = now_ms - progress.last_caught_up_ms
            if progress.log_end_offset == log.log_end_offset or behind_ms <= broker.replicas.replica_lag_time_max_ms:
                self.world.violated(
                    "R12", f"{node()} proposes the ISR of {partition.topic_partition} without {member}, which was "
                    f"caught up {behind_ms} ms ago", str(partition.topic_partition), node(),
                )  # fmt: skip

    def _commit(self, chain: Chain, high: int) -> None:
        committed = self.logs.committed.setdefault((chain.partition, chain.topic_id), Committed())
        value = chain.hash_at(high)
        if value is None:
            return
        self.world.check("R3")
        if self.losses.is_forked(chain.partition, high):
            self.world.waive("R3")
        elif committed.at.get(high, value) != value:
            self.world.violated(
                "R3", f"{chain.node} commits another {chain.partition} below {high} than was committed before",
                chain.partition, chain.node,
            )  # fmt: skip
        committed.take_in(chain, high)

    def _on_every_member(self, chain: Chain, high: int, assigned: tuple[int, ...]) -> None:
        """R4: every running member of the ISR in ZooKeeper has the batches below the leader's high watermark: the same
        batches, not only the same offset."""
        world = self.world
        state = world.state(chain.partition)
        if state is None:
            return
        world.check("R4")
        for member in state["isr"]:
            name = broker_name(member)
            if member not in assigned:
                continue  # between the two rounds of a reassignment: it leaves the ISR next (KAFKA-9672)
            log = self.logs.of.get((name, chain.partition))
            if log is None or name not in world.brokers or self.logs.restarts.is_wiped(name, chain.partition):
                continue
            other = self.logs.chain_of(log)
            if other is not None and other.topic_id == chain.topic_id and log.log_end_offset < high:
                world.violated(
                    "R4", f"{name} is in the ISR {state['isr']} of {chain.partition} and ends at {log.log_end_offset}; "
                    f"{chain.node} leads with the high watermark {high}", chain.partition, chain.node,
                )  # fmt: skip
            elif (
                other is not None
                and other.topic_id == chain.topic_id
                and chain.hash_at(high) is not None
                and other.hash_at(high) not in (None, chain.hash_at(high))
            ):
                self._differs(chain, name, high)

    def _differs(self, chain: Chain, name: str, high: int) -> None:
        if self.losses.is_forked(chain.partition, high) or self.logs.may_be_lost(name, chain.partition):
            self.world.waive("R4")
            return
        self.world.violated(
            "R4", f"{name} is in the ISR of {chain.partition} and has other batches below {high} than {chain.node}, "
            "which leads with that high watermark", chain.partition, chain.node,
        )  # fmt: skip

    # Leading and following

    def _around_make_leader(self, original: Any, partition: Partition, state: Any, *arguments: Any) -> Any:
        before = partition.leader_epoch
        self._coming_to_lead = state, (before, partition.leader_id)
        try:
            result = original(partition, state, *arguments)
            self._comes_to_lead(partition)
        finally:  # a disk that failed keeps it from leading
            self._coming_to_lead = None
        if partition.leader_epoch > before:
            self.nobody_else_counts(partition)
        self._ask_for_the_end(partition)
        return result

    def nobody_else_counts(self, partition: Partition) -> None:
        """R6: at the beginning of a leader's term its high watermark waits for nobody outside of the ISR."""
        broker = self.world.brokers.get(node())
        if broker is None or not partition.is_leader:
            return
        self.world.check("R6")
        since_ms = broker.runtime.clock.monotonic_ms() - broker.replicas.replica_lag_time_max_ms
        state, behind = partition.isr_state, partition.progress.items()
        if late := [each for each, known in behind if each not in state.isr and known.last_caught_up_ms >= since_ms]:
            self.world.violated(
                "R6", f"{node()} begins to lead {partition.topic_partition} with the ISR {sorted(state.isr)}, and "
                f"counts {late} as caught up", str(partition.topic_partition), node(),
            )  # fmt: skip

    def _comes_to_lead(self, partition: Partition) -> None:
        """Runs before the leader commits anything: what others wrote and it lacks may be lost from now on."""
        if self._coming_to_lead is not None:
            state, before = self._coming_to_lead
            self._coming_to_lead = None
            self._leads(partition, state, before)

    def _leads(self, partition: Partition, state: Any, before: tuple[int, int]) -> None:
        log = partition.log
        chain = None if log is None else self.logs.chain_of(log)
        if log is None or chain is None:
            return
        world, name = self.world, chain.partition
        world.check("C12")
        strangers = [follower for follower in partition.progress if follower not in partition.assigned_replicas]
        if strangers:
            world.violated(
                "C12", f"{chain.node} leads {name} and counts {strangers}; its replicas are "
                f"{partition.assigned_replicas}", name, chain.node,
            )  # fmt: skip
        world.check("C5")
        if state.leader_epoch < before[0]:
            world.violated("C5", f"{chain.node} went from epoch {before[0]} to {state.leader_epoch}", name, chain.node)
        if state.leader_epoch == before[0] and before[1] == broker_number(chain.node):
            return
        self.logs.leads(chain, log, state.leader_epoch)
        world.check("R13")
        entries = log.leader_epochs.entries
        if not entries or entries[-1].epoch != state.leader_epoch:
            world.violated(
                "R13", f"{chain.node} leads {name} in epoch {state.leader_epoch}, and the last epoch of its log is "
                f"{entries[-1:]}", name, chain.node,
            )  # fmt: skip
        self._leader_complete(log, chain, state)
        if not self._is_overruled(chain, state.leader_epoch, log.high_watermark):
            self._commit(chain, log.high_watermark)  # readers are given what lies below
        if name.startswith(GROUP_METADATA_TOPIC):
            self._loads(chain)

    def _is_overruled(self, chain: Chain, leader_epoch: int, high: int) -> bool:
        """Whether a leader's records below its high watermark promise nothing, because another leader was elected
        without some of them. If that leader came before this one, they promise nothing until the ISR has them again:
        until then a replica without them may be elected once more."""
        committed = self.logs.committed.get((chain.partition, chain.topic_id), Committed())
        return self.losses.is_overtaken(chain, leader_epoch) or self.losses.brings_back(chain, committed.high, high)

    def _loads(self, chain: Chain) -> None:
        """A coordinator loads all that its log holds (``GroupMetadataManager.doLoadGroupsAndOffsets``).

        Loaded records that were not committed yet may be missing from a later leader's log, and a group's generation
        with them.
        """
        loaded = self._loaded.setdefault((chain.partition, chain.topic_id), {})
        begins = max(chain.log_start, self.logs.cleaned_to(chain.partition, chain.topic_id))
        if any(begins < end and chain.hash_at(end) != value for end, value in loaded.items()):
            self.begun_anew[chain.partition] = None
        if chain.links:
            loaded[chain.end] = chain.links[-1].hash

    def _leader_complete(self, log: Log, chain: Chain, state: Any) -> None:
        """R3: a leader of a clean election has all that is committed."""
        world, name = self.world, chain.partition
        now = world.state(name)
        if now is None or now["leader_epoch"] != state.leader_epoch or now["leader"] != broker_number(chain.node):
            return  # a decision that another has overtaken
        committed = self.logs.committed.get((name, chain.topic_id))
        if committed is None or not committed.high:
            return
        world.check("R3")
        begins = max(self.logs.start_of(chain), self.logs.cleaned_to(name, chain.topic_id))
        if begins < committed.high and chain.hash_at(committed.high) != committed.at[committed.high]:
            # Forked copies may differ below what was committed since, and no later truncation mends that. Nor is one of
            # them cut where it ought to be if it leads before: its end is told then, and not by the next one.
            forked = self.losses.is_forked(name)
            if forked:
                self.told_latest.pop(f"{name}/{chain.topic_id}", None)
            judged = world.excuse if forked else world.violated
            judged(
                "R3", f"{chain.node} leads {name} in epoch {state.leader_epoch} up to {log.log_end_offset}, and "
                f"lacks some of what is committed up to {committed.high}", name, chain.node,
            )  # fmt: skip

    def _proposed(self, _: object, partition: Partition, pending: Any, isr: frozenset[int]) -> None:
        """R12: a leader proposes a follower for the ISR only when it has reached the high watermark and the leader's
        epoch."""
        log = partition.log
        if log is None or not isinstance(pending, PendingExpandIsr) or not isinstance(pending.committed, CommittedIsr):
            return
        self.world.check("R12")
        start = partition.leader_epoch_start_offset or 0
        for member in sorted(isr - pending.committed.isr):
            end = partition.progress[member].log_end_offset
            if end < start or end < log.high_watermark:
                self.world.violated(
                    "R12", f"{node()} proposes {member} for the ISR of {partition.topic_partition} at {end}; its epoch "
                    f"began at {start}, the high watermark is {log.high_watermark}",
                    str(partition.topic_partition), node(),
                )  # fmt: skip

    # Reading

    def _read(
        self, result: Any, partition: Partition, fetch_offset: int, *_: object,
        current_leader_epoch: int = -1, isolation: FetchIsolation = FetchIsolation.LOG_END, **named: object,
    ) -> None:  # fmt: skip
        """R9: consumers get what is committed. R14: a request that names a leader epoch gets nothing of another."""
        world = self.world
        world.check("R14")
        if current_leader_epoch not in (-1, partition.leader_epoch):
            world.violated(
                "R14", f"{node()} served {partition.topic_partition} of epoch {partition.leader_epoch} to a reader of "
                f"epoch {current_leader_epoch}", str(partition.topic_partition), node(),
            )  # fmt: skip
        world.check("R9")
        if not result.last_stable_offset <= result.high_watermark <= result.log_end_offset:
            world.violated(
                "R9", f"{node()}: last stable offset {result.last_stable_offset}, high watermark "
                f"{result.high_watermark}, end {result.log_end_offset} of {partition.topic_partition}",
                str(partition.topic_partition), node(),
            )  # fmt: skip
        if not len(result.records):
            return
        self._begins_with_what_is_asked_for(result.records, partition, fetch_offset)
        if isolation is FetchIsolation.LOG_END:
            return
        bound = result.high_watermark if isolation is FetchIsolation.HIGH_WATERMARK else result.last_stable_offset
        data, at = memoryview(result.records), 0
        while at + 61 <= len(data):
            base = int.from_bytes(data[at : at + 8], "big")
            if base >= bound:
                world.violated(
                    "R9", f"{node()} gave a consumer {base} of {partition.topic_partition}, the bound is {bound}",
                    str(partition.topic_partition), node(),
                )  # fmt: skip
                return
            at += 12 + int.from_bytes(data[at + 8 : at + 12], "big")

    def _begins_with_what_is_asked_for(self, records: Any, partition: Partition, offset: int) -> None:
        """R20: a fetch begins with the batch that has its offset, or the next one."""
        chain = None if partition.log is None else self.logs.chain_of(partition.log)
        if chain is None or self.logs.cleaned_to(chain.partition, chain.topic_id):
            return
        self.world.check("R20")
        at, base = bisect_right(chain.ends, offset), int.from_bytes(memoryview(records)[:8], "big")
        if self.world.faults.get("bit-rot"):
            self.world.waive("R20")  # no CRC covers a batch's offset
        elif at < len(chain.links) and chain.links[at].base != base:
            self.world.violated(
                "R20", f"{chain.node} answers a fetch of {chain.partition} from {offset} with {base}, and "
                f"{chain.links[at].base} comes first", chain.partition, chain.node,
            )  # fmt: skip

    def _ask_for_the_end(self, partition: Partition) -> None:
        """Asks for the leader's end, since hardly any client does just when the answer would be wrong."""
        if partition.is_leader:
            with suppress(KafkaError):
                partition.offset_for_timestamp(
                    LATEST_TIMESTAMP, FetchIsolation.HIGH_WATERMARK, NO_EPOCH, only_leader=True
                )

    def _listed(
        self, result: Any, partition: Partition, timestamp: int, isolation: Any, *_: object, **named: object
    ) -> None:
        """R5: the end that clients are told never goes back (KIP-207)."""
        if timestamp >= 0:
            self._looked_up(result[1], partition, timestamp, isolation)
        if timestamp != LATEST_TIMESTAMP or isolation is not FetchIsolation.HIGH_WATERMARK:
            return
        log = partition.log
        chain = None if log is None else self.logs.chain_of(log)
        if chain is None:
            return
        state = self.world.state(chain.partition)
        if state is None or state["leader"] != broker_number(chain.node):
            return  # a leader that was, and has not heard of it
        key = f"{chain.partition}/{chain.topic_id}"
        self.world.check("R5")
        if self._is_overruled(chain, partition.leader_epoch, result[1]):
            self.world.waive("R5")
            return
        if result[1] < self.told_latest.get(key, 0):
            self.world.violated(
                "R5", f"{chain.node} told {result[1]} as the end of {chain.partition}, after "
                f"{self.told_latest[key]}", chain.partition, chain.node,
            )  # fmt: skip
        self.told_latest[key] = max(result[1], self.told_latest.get(key, 0))

    def _looked_up(self, found: int, partition: Partition, timestamp: int, isolation: FetchIsolation) -> None:
        """R20: a lookup by timestamp finds the first batch with a record that is late enough."""
        log = partition.log
        chain = None if log is None else self.logs.chain_of(log)
        if log is None or chain is None or self.logs.cleaned_to(chain.partition, chain.topic_id):
            return
        self.world.check("R20")
        bound = log.last_stable_offset if isolation is FetchIsolation.TXN_COMMITTED else log.high_watermark
        late_enough = (
            link
            for link in chain.links
            if link.last >= log.log_start_offset and link.timestamp_ms + EPOCH_MS >= timestamp
        )
        first = next(late_enough, None)
        right = _is_found(found, first, bound)
        if not right and first is not None and first.base < log.log_start_offset:
            # The record that made it late enough may lie before the log's start.
            right = _is_found(found, next(late_enough, None), bound)
        if not right:
            self.world.violated(
                "R20", f"{chain.node} found {found} in {chain.partition} as the first that is not before {timestamp}; "
                f"it is in {first and (first.base, first.last)}, and the bound is {bound}", chain.partition, chain.node,
            )  # fmt: skip


def _is_found(found: int, first: ChainedBatch | None, bound: int) -> bool:
    """Whether a lookup may end at `found`, where `first` is the first batch with a record late enough."""
    if first is None or first.last >= bound:
        return found == -1 or (first is not None and first.base <= found < bound)
    return first.base <= found <= first.last
