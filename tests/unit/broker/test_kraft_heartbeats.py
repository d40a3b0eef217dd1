"""A broker among the brokers of KRaft controllers: whom it finds, and what it says to them, over real sockets."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from typing import Any

from barnabas.broker.controller_channel import ControllerChannel
from barnabas.broker.migration import Migration, migration_settings
from barnabas.client.connection import Connection
from barnabas.model.cluster import Endpoint
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import Uuid
from barnabas.model.metadata_version import MetadataVersion
from barnabas.runtime import Condition, Tasks
from barnabas.runtime.real import real_runtime
from barnabas.wire.api import ApiKey
from barnabas.wire.frames import decode_request_header, encode_response, request_class
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.wire.messages.broker_heartbeat import BrokerHeartbeatRequest, BrokerHeartbeatResponse
from barnabas.wire.messages.broker_registration import BrokerRegistrationRequest, BrokerRegistrationResponse
from barnabas.wire.messages.describe_quorum import DescribeQuorumRequest, DescribeQuorumResponse

VERSIONS = {
    ApiKey.API_VERSIONS: 3,
    ApiKey.DESCRIBE_QUORUM: 2,
    ApiKey.BROKER_REGISTRATION: 4,
    ApiKey.BROKER_HEARTBEAT: 1,
}
DIRECTORY_ID = Uuid(b"0123456789abcdef")


class Controller:
    """A node of the quorum that answers as Kafka's; `active` where it leads. It keeps what it was told.

    One that is `silent` takes connections and requests and says nothing, as a process does that is stopped.
    """

    def __init__(self) -> None:
        self.active = True
        self.silent = False
        self.high_watermark = 100
        self.epoch = 99
        self.registrations: list[BrokerRegistrationRequest] = []
        self.heartbeats: list[BrokerHeartbeatRequest] = []
        self.heartbeat_error = ErrorCode.NONE
        self.lets_go = False
        self.told = Condition()
        self.port = 0
        self._server: asyncio.Server | None = None
        self._writers: list[asyncio.StreamWriter] = []

    async def start(self) -> None:
        self._server = await asyncio.start_server(self._serve, "127.0.0.1", self.port)
        self.port = self._server.sockets[0].getsockname()[1]

    async def stop(self) -> None:
        assert self._server is not None
        self._server.close()
        for writer in self._writers:
            writer.transport.abort()
        await self._server.wait_closed()

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._writers.append(writer)
        try:
            while True:
                frame = await reader.readexactly(int.from_bytes(await reader.readexactly(4), "big"))
                header, offset = decode_request_header(frame)
                if self.silent:
                    continue
                request, _ = request_class(header.api_key).decode(frame, header.api_version, offset)
                for part in encode_response(self._answer(request), header.api_version, header.correlation_id):
                    writer.write(part)
        except (asyncio.IncompleteReadError, ConnectionError):
            writer.close()

    def _answer(self, request: Any) -> Any:
        if isinstance(request, DescribeQuorumRequest):
            code = ErrorCode.NONE if self.active else ErrorCode.NOT_LEADER_OR_FOLLOWER
            state = DescribeQuorumResponse.PartitionData(0, code, high_watermark=self.high_watermark)
            return DescribeQuorumResponse(topics=[DescribeQuorumResponse.TopicData("__cluster_metadata", [state])])
        if isinstance(request, BrokerRegistrationRequest):
            self.registrations.append(request)
            self.told.notify()
            return BrokerRegistrationResponse(broker_epoch=self.epoch)
        if isinstance(request, BrokerHeartbeatRequest):
            self.heartbeats.append(request)
            self.told.notify()
            if self.heartbeat_error:
                return BrokerHeartbeatResponse(error_code=self.heartbeat_error)
            caught_up = request.current_metadata_offset >= self.epoch
            going = request.want_shut_down and self.lets_go
            return BrokerHeartbeatResponse(0, 0, caught_up, request.want_fence, going)
        keys = [ApiVersionsResponse.ApiVersion(key, 0, version) for key, version in VERSIONS.items()]
        return ApiVersionsResponse(api_keys=keys)

    async def until(self, fact: Callable[[], bool]) -> None:
        while not fact():
            await self.told


class Broker:
    """What `Migration` needs of its broker."""

    broker_id = 1
    cluster_id = "cluster"
    metadata_version = MetadataVersion.IBP_3_9_IV0

    def __init__(self, ports: list[int], **config: str) -> None:
        self.runtime = real_runtime()
        self.failures: list[BaseException] = []
        self.tasks = Tasks(lambda name, error: self.failures.append(error))
        self.config = broker_config(
            {
                "broker.id": "1",
                "zookeeper.connect": "localhost:2181",
                "zookeeper.metadata.migration.enable": "true",
                "controller.listener.names": "CONTROLLER",
                "controller.quorum.voters": ",".join(f"{3000 + n}@127.0.0.1:{port}" for n, port in enumerate(ports)),
                "broker.heartbeat.interval.ms": "20",
                **config,
            }
        )
        self.listeners = self
        self.advertised = (Endpoint("PLAINTEXT", "here", 9092), Endpoint("TLS", "here", 9093, "SSL"))
        settings = migration_settings(self.config)
        assert settings is not None
        self.migration = Migration(
            self,  # type: ignore[arg-type]
            settings,
            connect=self.connect_to,  # type: ignore[arg-type]
            controller_may_have_moved=lambda: self.channel.look_again(),
            directory_ids=lambda: [DIRECTORY_ID],
        )
        self.channel = ControllerChannel(
            self.runtime.clock,
            lambda: self.migration.active_controller,
            lambda endpoint: self.connect_to(endpoint, "1"),
            request_timeout_ms=30_000,
        )

    def connect_to(self, endpoint: Endpoint, client_id: str, timeout_ms: int = 30_000) -> Connection:
        timeouts = {"connect_timeout_ms": timeout_ms, "request_timeout_ms": timeout_ms}
        return Connection(self.runtime, endpoint.host, endpoint.port, client_id, **timeouts)  # type: ignore[arg-type]


def play(story: Callable[[Controller, Controller, Broker], Awaitable[None]], **config: str) -> None:
    async def run() -> None:
        first, second = Controller(), Controller()
        first.active = False
        await first.start()
        await second.start()
        broker = Broker([first.port, second.port], **config)
        broker.migration.startup()
        try:
            async with asyncio.timeout(60):
                await story(first, second, broker)
        finally:
            broker.migration.close()
            broker.channel.close()
            await broker.tasks.end()
            await first.stop()
            await second.stop()
        assert not broker.failures

    asyncio.run(run())


def test_a_broker_registers_with_the_controller_that_is_active() -> None:
    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 1)
        assert first.registrations == []
        (registration,) = second.registrations
        assert registration.is_migrating_zk_broker
        assert (registration.broker_id, registration.cluster_id) == (1, "cluster")
        assert registration.log_dirs == [DIRECTORY_ID]
        told = [(each.name, each.host, each.port, each.security_protocol) for each in registration.listeners]
        assert told == [("PLAINTEXT", "here", 9092, 0), ("TLS", "here", 9093, 1)]
        levels = {each.name: (each.min_supported_version, each.max_supported_version) for each in registration.features}
        assert levels["metadata.version"] == (21, 21)
        assert broker.migration.broker_epoch == 99
        assert broker.migration.active_controller is not None
        assert broker.migration.active_controller.port == second.port

    play(story)


def test_a_broker_is_fenced_until_it_has_come_as_far_as_its_registration() -> None:
    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        second.high_watermark = 99
        await second.until(lambda: len(second.heartbeats) > 2)
        assert all(each.want_fence for each in second.heartbeats)
        assert {each.current_metadata_offset for each in second.heartbeats} == {98}
        second.high_watermark = 100
        await second.until(lambda: not second.heartbeats[-1].want_fence)
        assert second.heartbeats[-1].current_metadata_offset == 99

    play(story)


def test_a_broker_follows_the_controllers_when_another_becomes_active() -> None:
    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 0)
        first.active, second.active = True, False
        await first.until(lambda: len(first.heartbeats) > 0)
        assert first.registrations == []  # the quorum's log has the one that was made
        assert first.heartbeats[0].broker_epoch == 99

    play(story)


def test_a_controller_that_says_nothing_is_not_waited_for_when_another_is_active() -> None:
    """Else the brokers miss a session of the one that is, and lose what they lead, all of them."""

    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 0)
        first.active, second.active = True, False
        await first.until(lambda: len(first.heartbeats) > 0)
        asked = BrokerHeartbeatRequest(broker_id=7, broker_epoch=99)
        await broker.channel.send(asked)
        first.silent, second.active = True, True
        known = len(second.heartbeats)
        async with asyncio.timeout(15):
            answer = asyncio.get_running_loop().create_task(broker.channel.send(asked))
            await second.until(lambda: len(second.heartbeats) > known)
            await answer  # of what the silent one was asked
        assert 7 in {each.broker_id for each in second.heartbeats}
        assert second.registrations[1:] == []

    play(story, **{"broker.session.timeout.ms": "2000"})


def test_a_broker_that_the_controllers_do_not_know_registers_again_as_the_same_process() -> None:
    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 0)
        second.heartbeat_error, second.epoch = ErrorCode.BROKER_ID_NOT_REGISTERED, 7
        await second.until(lambda: len(second.registrations) > 1)
        second.heartbeat_error = ErrorCode.NONE
        before, again = second.registrations[:2]
        assert before.incarnation_id == again.incarnation_id
        await second.until(lambda: second.heartbeats[-1].broker_epoch == 7)

    play(story)


def test_a_broker_that_stops_says_so_until_it_is_let_go() -> None:
    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 1)
        stopping = asyncio.get_running_loop().create_task(broker.migration.hand_over())
        await second.until(lambda: sum(each.want_shut_down for each in second.heartbeats) > 2)
        assert not stopping.done()
        second.lets_go = True
        await stopping

    play(story, **{"broker.heartbeat.interval.ms": "60000"})


def test_a_broker_that_stops_does_not_wait_for_controllers_that_are_gone() -> None:
    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 2)
        await first.stop()
        await second.stop()
        await broker.migration.hand_over()
        await first.start()
        await second.start()

    play(story, **{"broker.session.timeout.ms": "300"})


def test_an_error_that_nobody_knows_costs_a_heartbeat_and_not_the_broker() -> None:
    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 0)
        second.heartbeat_error = 12_345  # type: ignore[assignment]
        told = len(second.heartbeats)
        await second.until(lambda: len(second.heartbeats) > told + 2)

    play(story)


class Told(logging.Handler):
    """What is logged of the controllers that do not answer, with its level."""

    def __init__(self) -> None:
        super().__init__()
        self.lines: list[tuple[int, str]] = []
        self.more = Condition()

    def emit(self, record: logging.LogRecord) -> None:
        if "no word with" in record.getMessage():
            self.lines.append((record.levelno, record.getMessage()))
            self.more.notify()

    async def until(self, words: str) -> None:
        while not any(words in line for _, line in self.lines):
            await self.more


def test_why_the_controllers_do_not_answer_is_told_once_for_each_reason() -> None:
    log, told = logging.getLogger("barnabas.broker.migration"), Told()
    level = log.level

    async def story(first: Controller, second: Controller, broker: Broker) -> None:
        await second.until(lambda: len(second.heartbeats) > 0)
        second.active = False
        await told.until("not active; ")
        await second.stop()
        await told.until("Connect call failed")
        await second.start()
        warned = [line for level, line in told.lines if level == logging.WARNING]
        assert len(warned) == len(set(warned)) >= 2

    log.addHandler(told)
    log.setLevel(logging.DEBUG)
    try:
        play(story)
    finally:
        log.removeHandler(told)
        log.setLevel(level)
