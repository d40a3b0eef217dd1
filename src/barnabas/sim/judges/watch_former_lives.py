"""Sends controllers what a broker's earlier registration would send and answer (C4): none of it counts once the broker
has registered again.

Late requests of an earlier process are rare in runs. The controller refuses them by values alone, without any change,
so each controller is asked soon after it has heard of a registration.
"""

from __future__ import annotations

from collections.abc import Coroutine
from typing import Any

from barnabas.controller import events
from barnabas.controller.alter_partition import refusal
from barnabas.controller.answers import process_leader_and_isr_response
from barnabas.controller.brokers import process_controlled_shutdown
from barnabas.controller.reign import Reign
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.sim.world.world import World
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrResponse


class FormerLifeWatch:
    def __init__(self, world: World) -> None:
        self.world = world
        self._asked: dict[tuple[str, int, int, int | None], None] = {}
        """The controller and its epoch, the broker and its epoch."""

    def look(self) -> None:
        for name, broker in self.world.brokers.items():
            reign = broker.controller.reign
            if reign is None:
                continue
            for broker_id in sorted(reign.context.live_or_shutting_down_broker_ids):
                broker_epoch = reign.context.broker_epoch(broker_id)
                key = name, reign.context.epoch, broker_id, broker_epoch
                if broker_epoch is not None and key not in self._asked:
                    self._asked[key] = None
                    self.ask_as_before(name, reign, broker_id, broker_epoch - 1)

    def ask_as_before(self, name: str, reign: Reign, broker_id: int, broker_epoch: int) -> None:
        """C4: `broker_epoch` is that of an earlier registration."""
        self.world.check("C4")
        if refusal(reign.context, broker_id, broker_epoch) is not ErrorCode.STALE_BROKER_EPOCH:
            self._counts(name, broker_id, "its wish for an ISR")
        if not self._is_refused(reign, broker_id, broker_epoch):
            self._counts(name, broker_id, "its wish to stop")
        if self._tells(reign, broker_id, broker_epoch):
            self._counts(name, broker_id, "what it answered of its disk")

    def _is_refused(self, reign: Reign, broker_id: int, broker_epoch: int) -> bool:
        answer = self.world.loop.create_future()
        try:
            _begun(process_controlled_shutdown(reign, events.ControlledShutdown(broker_id, broker_epoch, answer)))
        except KafkaError as error:
            return error.code is ErrorCode.STALE_BROKER_EPOCH
        return False

    def _tells(self, reign: Reign, broker_id: int, broker_epoch: int) -> bool:
        context = reign.context
        offline = context.replicas_on_offline_dirs
        before = dict(offline.get(broker_id, {}))
        storage = int(ErrorCode.KAFKA_STORAGE_ERROR)
        failed = [
            LeaderAndIsrResponse.LeaderAndIsrPartitionError(each.topic, each.partition, storage)
            for each in context.partitions_on_broker(broker_id)
        ]
        told = LeaderAndIsrResponse(partition_errors=failed)
        _begun(
            process_leader_and_isr_response(
                reign, events.LeaderAndIsrResponseReceived(told, broker_id, context.epoch, broker_epoch)
            )
        )
        return offline.get(broker_id, {}) != before

    def _counts(self, name: str, broker_id: int, what: str) -> None:
        self.world.violated(
            "C4",
            f"{name} accepts {what} of a former registration of broker {broker_id}, which has another one",
            node=name,
        )


def _begun(story: Coroutine[Any, Any, object]) -> None:
    """Runs the story up to its first wait."""
    try:
        story.send(None)
    except StopIteration:
        return
    story.close()
