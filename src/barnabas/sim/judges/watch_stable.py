"""Watches last stable offsets (R9): nobody is given records of a transaction whose end may still be lost.

The last stable offset passes a transaction when its marker is below the high watermark, and not before: until then the
next leader may lack the marker, and readers of committed records would see the transaction open again. A log forgets
which markers are still undecided at a restart and at a cut, as in Kafka; this watch knows them from then on.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import Any, NamedTuple

from barnabas.log.log import Log
from barnabas.sim.judges.chain import Chain, LinkKind
from barnabas.sim.judges.watch_logs import LogWatch
from barnabas.sim.world.probes import Probes
from barnabas.sim.world.world import World


class EndedHere(NamedTuple):
    """A transaction whose marker the log has appended since it was opened or cut."""

    first_offset: int
    marker: int


class Undecided:
    """The transactions of a log that are open, by producer id, and those whose marker may still be lost.

    A log that is opened or cut reads no record before `log_start` again. A transaction that began there is open from
    what is left of it.
    """

    def __init__(self, chain: Chain, log_start: int) -> None:
        self.open_from: dict[int, int] = {}
        self.ended: list[EndedHere] = []
        self.seen = next((at for at, link in enumerate(chain.links) if link.last >= log_start), len(chain.links))
        self.take_up(chain)
        self.ended.clear()

    def take_up(self, chain: Chain) -> None:
        """Takes the batches that were appended since."""
        for link in chain.links[self.seen :]:
            if link.kind is LinkKind.DATA:
                self.open_from.setdefault(link.producer_id, link.base)
            elif link.kind in (LinkKind.COMMIT, LinkKind.ABORT):
                first = self.open_from.pop(link.producer_id, None)
                if first is not None:
                    self.ended.append(EndedHere(first, link.last))
        self.seen = len(chain.links)


class StableWatch:
    def __init__(self, world: World, logs: LogWatch, probes: Probes) -> None:
        """Its probes run behind those of `logs`, so that chains are up to date when it looks."""
        self.world = world
        self.logs = logs
        self.undecided: dict[Log, Undecided] = {}
        probes.around(Log, "opening", self._around_opening)
        for name in ("append_as_leader", "append_as_follower"):
            probes.after(Log, name, self._appended)
        for name in ("truncate_to", "truncate_fully_and_start_at"):
            probes.after(Log, name, self._begun)
        probes.after(Log, "update_high_watermark", self._moved)

    def _around_opening(self, original: Any, *arguments: Any, **named: Any) -> Generator[int, None, Log]:
        log: Log = yield from original(*arguments, **named)
        self._begun(None, log)
        return log

    def _begun(self, _: object, log: Log, *__: object, **___: object) -> None:
        """The log was opened or cut."""
        chain = self.logs.chain_of(log)
        if chain is not None:
            self.undecided[log] = Undecided(chain, log.log_start_offset)

    def _appended(self, _: object, log: Log, *__: object, **___: object) -> None:
        chain, known = self.logs.chain_of(log), self.undecided.get(log)
        if chain is not None and known is not None:
            known.take_up(chain)

    def _moved(self, _: object, log: Log, *__: object) -> None:
        known = self.undecided.get(log)
        if known is None or not known.ended:
            return
        known.ended = [each for each in known.ended if each.marker >= log.high_watermark]
        chain = self.logs.chain_of(log)
        if chain is None or not known.ended:
            return
        self.world.check("R9")
        first = max(min(each.first_offset for each in known.ended), log.log_start_offset)
        if log.last_stable_offset > first:
            self.world.violated(
                "R9", f"{chain.partition} on {chain.node} has the last stable offset {log.last_stable_offset}, and the "
                f"marker of what began at {first} is not below its high watermark {log.high_watermark}",
                chain.partition, chain.node,
            )  # fmt: skip
