from __future__ import annotations

import asyncio
import gc
from collections.abc import Coroutine
from typing import Any

import pytest

from barnabas.controller import events
from barnabas.controller.event_manager import ControllerEventManager
from barnabas.controller.events import ControllerState
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime import Tasks
from barnabas.runtime.real import RealClock


def play(story: Coroutine[Any, Any, None]) -> None:
    asyncio.run(story)


class Recorder:
    """Handles events slowly, and notes when each begins and ends."""

    def __init__(self) -> None:
        self.story: list[str] = []
        self.gate = asyncio.Event()
        self.gate.set()
        self.failures: list[BaseException] = []
        self.tasks = Tasks(lambda _, error: self.failures.append(error))
        self.manager = ControllerEventManager(RealClock(), self.process)

    async def process(self, event: events.ControllerEvent) -> None:
        self.story.append(f"{event.name} begins")
        await asyncio.sleep(0)
        await self.gate.wait()
        self.story.append(f"{event.name} ends")

    def start(self) -> None:
        self.manager.start(self.tasks, "queue")


def test_events_are_handled_in_order_one_at_a_time() -> None:
    async def story() -> None:
        recorder = Recorder()
        recorder.start()
        for event in (events.TopicChange(), events.BrokerChange(), events.TopicDeletion()):
            recorder.manager.put(event)
        await recorder.manager.put(events.Reelect()).await_processing()
        await recorder.manager.close()
        assert recorder.story == [
            f"{name} {what}"
            for name in ("TopicChange", "BrokerChange", "TopicDeletion", "Reelect")
            for what in ("begins", "ends")
        ]

    play(story())


def test_an_event_that_was_handled_is_not_kept_until_the_next_one() -> None:
    """One may name a hundred thousand things, and in a quiet cluster the next one comes tomorrow."""

    class Large(events.TopicChange):
        pass

    async def story() -> None:
        recorder = Recorder()
        recorder.start()
        recorder.manager.put(Large())
        for _ in range(100):
            await asyncio.sleep(0)
        assert recorder.story == ["Large begins", "Large ends"]
        assert not [each for each in gc.get_objects() if type(each) is Large]
        await recorder.manager.close()

    play(story())


def test_an_expiry_clears_the_queue_and_sends_those_who_wait_elsewhere() -> None:
    async def story() -> None:
        recorder = Recorder()
        recorder.gate.clear()
        recorder.start()
        in_hand = recorder.manager.put(events.TopicChange())
        await in_hand.await_processing()
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        recorder.manager.put(events.ControlledShutdown(1, 5, answer))
        recorder.manager.put(events.BrokerChange())
        expire = recorder.manager.clear_and_put(events.Expire())
        with pytest.raises(KafkaError) as refused:
            await answer
        assert refused.value.code is ErrorCode.NOT_CONTROLLER
        assert recorder.manager.event_queue_size == 1
        recorder.gate.set()
        await expire.await_processing()
        await recorder.manager.close()
        assert recorder.story == ["TopicChange begins", "TopicChange ends", "Expire begins", "Expire ends"]

    play(story())


def test_the_queue_can_be_seen() -> None:
    async def story() -> None:
        recorder = Recorder()
        recorder.gate.clear()
        recorder.start()
        await recorder.manager.put(events.BrokerChange()).await_processing()
        recorder.manager.put(events.TopicChange())
        seen = recorder.manager.status()
        assert (seen.state, seen.event, seen.queue_size) == (ControllerState.BrokerChange, "BrokerChange", 1)
        assert seen.waiting == ("TopicChange",)
        recorder.gate.set()
        await recorder.manager.close()
        assert recorder.manager.status().state is ControllerState.Idle
        assert recorder.manager.figures[ControllerState.BrokerChange].count == 1

    play(story())


def test_a_closed_queue_preempts_what_comes_later() -> None:
    async def story() -> None:
        recorder = Recorder()
        recorder.start()
        await recorder.manager.close()
        answer: asyncio.Future[list[Any]] = asyncio.get_running_loop().create_future()
        await recorder.manager.put(events.ControlledShutdown(1, 5, answer)).await_processing()
        assert isinstance(answer.exception(), KafkaError)
        assert recorder.story == []

    play(story())
