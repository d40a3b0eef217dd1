"""Watches which transactional ids coordinators forget (T9). A forgotten id is at rest and unused for
``transactional.id.expiration.ms``; an id that is unused for so long is forgotten in the end."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Final

from barnabas.coordinator.transactions import AT_REST, TransactionMachine, TransactionMetadata
from barnabas.model.errors import KafkaError
from barnabas.sim.plans.plan import MS
from barnabas.sim.plans.widen_guests import CLEANED_UP, EXPIRATION
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World

WITHIN_S: Final = 30.0


class ForgottenWatch:
    def __init__(
        self, world: World, probes: Probes, may_be_lost: Callable[[str], bool], on_forgotten: Callable[[str], None]
    ) -> None:
        self.world = world
        self._may_be_lost = may_be_lost
        self._on_forgotten = on_forgotten
        self._decided_ns: dict[TransactionMachine, int] = {}
        """By machine: when the change was decided that is being written."""
        self._used_ns: dict[str, int] = {}
        """By transactional id: when its present state was decided."""
        probes.after(TransactionMachine, "write", self._decided)
        probes.after(TransactionMachine, "written", self._written)
        probes.after(TransactionMachine, "expire", self._forgotten)

    def _decided(self, _: None, machine: TransactionMachine, __: TransactionMetadata) -> None:
        self._decided_ns[machine] = self.world.loop.now_ns

    def _written(self, _: None, machine: TransactionMachine, __: TransactionMetadata) -> None:
        self._used_ns[machine.transactional_id] = self._decided_ns.pop(machine, self.world.loop.now_ns)

    def _forgotten(self, _: None, machine: TransactionMachine) -> None:
        world, transactional_id, name = self.world, machine.transactional_id, node()
        self._on_forgotten(transactional_id)
        world.check("T9")
        if machine.metadata.state not in AT_REST:
            world.violated(
                "T9", f"{name} forgets {transactional_id!r}, whose transaction is {machine.metadata.state.title}",
                node=name,
            )  # fmt: skip
        broker, used_ns = world.brokers.get(name), self._used_ns.get(transactional_id)
        if broker is None or used_ns is None or world.clocks_touched:
            return
        rests_ms, expires_ms = (world.loop.now_ns - used_ns) / MS, broker.config.number(EXPIRATION)
        if rests_ms >= expires_ms - 1:
            return
        if self._may_be_lost(transactional_id):
            world.waive("T9")
        else:
            world.violated(
                "T9", f"{name} forgets {transactional_id!r}, used {rests_ms:.0f} ms ago; it is to be kept for "
                f"{expires_ms} ms", node=name,
            )  # fmt: skip

    def overdue(self) -> Iterator[tuple[str, str, TransactionMetadata]]:
        """Ids that should be forgotten by now, with their coordinator and state."""
        for name, broker in self.world.brokers.items():
            coordinator, config = broker.transactions.coordinator, broker.config
            late_ms = config.number(EXPIRATION) + 2 * config.number(CLEANED_UP)
            now_ms = broker.runtime.clock.now_ms()
            with suppress(KafkaError):  # it loads
                for listed in coordinator.list_transactions()[1]:
                    known = coordinator.describe(listed.transactional_id)
                    if known.state in AT_REST and known.last_update_ms + late_ms < now_ms:
                        yield name, listed.transactional_id, known

    async def judge(self) -> None:
        """At the end, when all is well; clients may still come and go."""
        self.world.check("T9")
        try:
            await self.world.until(lambda: next(self.overdue(), None) is None, "ids to be forgotten", WITHIN_S)
        except TimeoutError:
            for name, transactional_id, known in list(self.overdue()):
                self.world.violated("T9", f"{name} does not forget {transactional_id!r}, which is {known}", node=name)
