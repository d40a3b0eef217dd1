from __future__ import annotations

import asyncio
from typing import Any

from barnabas.controller.batch import BrokerRequest, ControlRequest
from barnabas.controller.channels import ControllerChannelManager
from barnabas.model.cluster import BrokerInfo, Endpoint
from barnabas.runtime import Tasks
from barnabas.runtime.real import RealClock
from barnabas.wire.messages.update_metadata import UpdateMetadataRequest, UpdateMetadataResponse

CONNECT_TIMEOUT_MS, REQUEST_TIMEOUT_MS = 1_000, 2_000


class Wire:
    """The broker's end: answers when the gate is open, breaks as often as it is told to."""

    def __init__(self) -> None:
        self.got: list[int] = []
        self.in_flight = 0
        self.in_flight_max = 0
        self.breaks = 0
        self.aborted = 0
        self.connections = 0
        self.gate = asyncio.Event()
        self.gate.set()
        self.answered: list[int] = []
        self.an_answer = asyncio.Event()
        self.failures: list[BaseException] = []
        self.error: Exception | None = None
        self.tasks = Tasks(lambda _, error: self.failures.append(error))
        self.manager = ControllerChannelManager(
            RealClock(),
            1,
            "PLAINTEXT",
            connect_timeout_ms=CONNECT_TIMEOUT_MS,
            request_timeout_ms=REQUEST_TIMEOUT_MS,
            tasks=self.tasks,
            connect=lambda endpoint, client_id, timeout_ms: self.connection(endpoint, client_id, timeout_ms),
            on_response=self.on_response,
            on_failure=lambda _, error: self.failures.append(error),
        )

    def connection(self, endpoint: Endpoint, client_id: str, timeout_ms: int) -> Wire:
        assert (endpoint.host, client_id, timeout_ms) == ("host2", "1", CONNECT_TIMEOUT_MS)
        self.connections += 1
        return self

    def on_response(self, broker_id: int, request: ControlRequest, response: Any) -> None:
        self.answered.append(request.controller_epoch)
        self.an_answer.set()

    async def connect(self) -> None:
        await asyncio.sleep(0)

    async def send(self, message: Any, version: int | None = None, timeout_ms: int | None = None) -> Any:
        assert timeout_ms == REQUEST_TIMEOUT_MS
        if self.error is not None:
            raise self.error
        self.in_flight += 1
        self.in_flight_max = max(self.in_flight_max, self.in_flight)
        try:
            await self.gate.wait()
            await asyncio.sleep(0)
            if self.breaks:
                self.breaks -= 1
                raise ConnectionResetError
            self.got.append(message.controller_epoch)
            return UpdateMetadataResponse()
        finally:
            self.in_flight -= 1

    def abort(self, reason: BaseException | None = None) -> None:
        self.aborted += 1

    def tell(self, number: int) -> None:
        self.manager.send_request(BrokerRequest(2, UpdateMetadataRequest(controller_epoch=number), 8))

    async def until_answered(self, count: int) -> None:
        async with asyncio.timeout(30):
            while len(self.answered) < count:
                self.an_answer.clear()
                await self.an_answer.wait()


BROKER = BrokerInfo(2, (Endpoint("PLAINTEXT", "host2", 9092),), epoch=7)


def test_requests_arrive_in_order_one_in_flight_whatever_breaks() -> None:
    async def story() -> None:
        wire = Wire()
        wire.manager.add_broker(BROKER)
        wire.breaks = 2
        for number in range(20):
            wire.tell(number)
        await wire.until_answered(20)
        assert wire.got == wire.answered == list(range(20))
        assert wire.in_flight_max == 1
        assert wire.connections == 3
        wire.manager.shutdown()
        await wire.tasks.end()

    asyncio.run(story())


def test_b08_nothing_that_was_queued_for_a_gone_registration_is_sent() -> None:
    async def story() -> None:
        wire = Wire()
        wire.manager.add_broker(BROKER)
        wire.gate.clear()
        for number in range(3):
            wire.tell(number)
        await asyncio.sleep(0.01)
        assert wire.manager.queue_sizes() == {2: 3}
        wire.manager.remove_broker(2)
        wire.manager.add_broker(BROKER)
        wire.tell(100)
        wire.gate.set()
        await wire.until_answered(1)
        assert wire.answered == [100]
        assert wire.got == [100]
        wire.manager.shutdown()
        await wire.tasks.end()
        assert len(wire.tasks) == 0

    asyncio.run(story())


def test_a_broker_that_is_not_registered_is_told_nothing() -> None:
    async def story() -> None:
        wire = Wire()
        wire.tell(1)
        await asyncio.sleep(0)
        assert wire.manager.queue_sizes() == {}
        assert wire.got == []

    asyncio.run(story())


def test_an_error_that_nobody_foresaw_is_not_swallowed() -> None:
    async def story() -> None:
        wire = Wire()
        wire.error = ZeroDivisionError("what")
        wire.manager.add_broker(BROKER)
        wire.tell(1)
        await asyncio.sleep(0.01)
        assert isinstance(wire.failures[0], ZeroDivisionError)
        wire.manager.shutdown()
        await wire.tasks.end()

    asyncio.run(story())
