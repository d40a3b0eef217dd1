"""Takes the power from copies of logs and opens them again: a prefix of what was written is left, with all that was
synced (R15), with its epochs (R13) and its producers (R27).

Runs lose power in few moments, and hardly ever between a cut and the next flush. A copy of a log's directory, with its
synced and unsynced parts, can lose it in any. A log is copied when it was cut, flushed or rolled, or lost old segments.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Final

from barnabas.log.checkpoints import LOG_START_OFFSETS, RECOVERY_POINTS
from barnabas.log.log import Log
from barnabas.sim.judges.chain import Chain, checkpointed, whole_batches
from barnabas.sim.plans.chance import Chance
from barnabas.sim.world.disk import Loss
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World

if TYPE_CHECKING:
    from barnabas.sim.judges.watch_copies import CopyWatch
    from barnabas.sim.judges.watch_logs import LogWatch

CUT: Final = "cut"
FLUSHED: Final = "flushed"
ROLLED: Final = "rolled"
DELETED: Final = "deleted from"
EACH_OF_FIRST: Final = {CUT: 12, FLUSHED: 3, ROLLED: 3, DELETED: 4}
"""The first times that each of these is followed by a copy; later ones are followed ever more seldom."""
SELDOM: Final = 2


class PowerWatch:
    def __init__(self, world: World, logs: LogWatch, copies: CopyWatch, probes: Probes) -> None:
        """Its probes run behind those of `logs`, so that chains are up to date when it looks."""
        self.world = world
        self.logs = logs
        self.copies = copies
        self._chance = Chance(world.seed, "copies that lose power")
        self._happened = dict.fromkeys(EACH_OF_FIRST, 0)
        self._asks_at = dict.fromkeys(EACH_OF_FIRST, 1)
        self._segments: dict[Log, int] = {}
        for name in ("truncate_to", "truncate_fully_and_start_at"):
            probes.after(Log, name, self._cut)
        probes.after(Log, "flush", self._flushed)
        probes.after(Log, "delete_old_segments", self._deleted)
        for name in ("append_as_leader", "append_as_follower"):
            probes.after(Log, name, self._appended)

    def _cut(self, _: object, log: Log, *__: object, **___: object) -> None:
        self._happens(CUT, log)

    def _flushed(self, moved: bool, log: Log, **_: object) -> None:
        if moved:
            self._happens(FLUSHED, log)

    def _deleted(self, count: int, log: Log, **_: object) -> None:
        if count:
            self._happens(DELETED, log)

    def _appended(self, _: object, log: Log, *__: object, **___: object) -> None:
        before, self._segments[log] = self._segments.get(log, 1), len(log.segments)
        if len(log.segments) > before:
            self._happens(ROLLED, log)

    def _happens(self, what: str, log: Log) -> None:
        chain = self.logs.chain_of(log)
        if chain is None or chain.appending or chain.cutting_at is not None:
            return
        count = self._happened[what] = self._happened[what] + 1
        if count < self._asks_at[what]:
            return
        self._asks_at[what] = count + 1 if count < EACH_OF_FIRST[what] else SELDOM * count
        machine = self.world.nodes[chain.node]
        if not machine.disk.errors and not machine.disk.armed and not machine.volume.refused_writes:
            self.ask_what_a_loss_leaves(log, chain, what)

    def ask_what_a_loss_leaves(self, log: Log, chain: Chain, what: str) -> None:
        self.world.check("R15")
        files, parent = self.world.nodes[chain.node].volume.copied(log.directory), log.log_dir.path
        inside = f"{log.directory}/"
        sure = whole_batches(files.durable_files(inside), chain.links, chain.log_start)
        files.lose_power(self._chance, self._a_loss())
        sure = min(sure, whole_batches(files.durable_files(inside), chain.links, chain.log_start))
        place, sure_end = chain.partition, chain.links[sure - 1].last + 1 if sure else 0
        sure_end = sure_end if sure_end > chain.log_start else 0  # deleted records need not be left
        recovery_point = checkpointed(files.names, parent, RECOVERY_POINTS).get(place, 0)
        log_start = checkpointed(files.names, parent, LOG_START_OFFSETS).get(place, 0)
        was_cleaned = self.logs.cleaned_to(place, chain.topic_id)
        if recovery_point > max(sure_end, chain.log_start) and not was_cleaned:
            self._wrong(chain, what, f"is checked from {recovery_point} on, and it is synced to {sure_end}")
            return
        opened = self.copies.opened(log, files, recovery_point=recovery_point, log_start_offset=log_start)
        # Segments before the log's start may be back: as in Kafka, nobody syncs their removal or the start.
        start = max(opened.log_start_offset, chain.links[0].base if chain.links else chain.log_start, was_cleaned)
        left = [each for each in _batches(opened) if each[1] >= start]
        links = [link for link in chain.links if link.last >= start]
        was = [(link.base, link.last, link.epoch, link.crc) for link in links]
        if left != was[: len(left)]:
            self._wrong(chain, what, f"has {_unlike(left, was)}, which is no prefix of what was written")
        elif len(left) < len(was) and opened.log_end_offset < sure_end:
            self._wrong(chain, what, f"ends at {opened.log_end_offset}, and {sure_end} was synced")
        elif start == opened.log_start_offset:
            kept = links[: len(left)]
            now = replace(chain, links=kept, ends=[link.last + 1 for link in kept], log_start=start)
            opened.update_high_watermark(log.high_watermark)
            self.logs.restarts.epochs_match(opened, now)
            self.copies.derived.look(opened, now)

    def _a_loss(self) -> Loss:
        """A power loss of any of the kinds that plans draw."""
        chance = self._chance
        return Loss(
            chance.one_of([0.0, 0.5, 0.9, chance.share()]),
            chance.one_of([0.0, 0.1, 0.6]),
            chance.one_of([0.0, 0.5]),
            chance.one_of([None, None, 0.0, 0.5]),
        )

    def _wrong(self, chain: Chain, what: str, sentence: str) -> None:
        self.world.violated(
            "R15", f"{chain.node} has {what} {chain.partition}; after a power loss then, and a start, it {sentence}",
            chain.partition, chain.node,
        )  # fmt: skip


def _batches(log: Log) -> Iterator[tuple[int, int, int, int]]:
    for segment in log.segments:
        for batch in segment.batches():
            yield batch.base_offset, batch.last_offset, batch.leader_epoch, batch.crc


def _unlike(left: list[Any], was: list[Any]) -> str:
    at = next((number for number, pair in enumerate(zip(left, was, strict=False)) if pair[0] != pair[1]), len(was))
    return f"{left[at : at + 1]} where {was[at : at + 1]} was"
