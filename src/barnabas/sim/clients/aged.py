"""A consumer of another age or make. It fetches within fetch sessions, as Kafka's own does (KIP-227), or in the version
of an old client, which knows no leader epochs or no record batches (Fetch 2 and 3).

Fields that an older record format lacks count as read as they were sent.
"""

from __future__ import annotations

from typing import Any, Final

from barnabas.client.consumer import Consumer
from barnabas.client.positions import ConsumerRecord, Place
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID, TopicPartition
from barnabas.replica.fetch_session import PartitionKey
from barnabas.replica.fetch_session_handler import FetchSessionHandler
from barnabas.sim.clients.history import History
from barnabas.sim.plans.plan import Action
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse

FIRST_OF_BATCHES: Final = 4
FIRST_WITH_SESSIONS: Final = 7
FIRST_WITH_LAST_FETCHED_EPOCH: Final = 12
FIRST_WITH_TOPIC_IDS: Final = 13
NEWEST: Final = FetchRequest.max_version
_BEGINS_ANEW: Final = (
    ErrorCode.FETCH_SESSION_ID_NOT_FOUND, ErrorCode.INVALID_FETCH_SESSION_EPOCH,
    ErrorCode.FETCH_SESSION_TOPIC_ID_ERROR,
)  # fmt: skip


class AgedConsumer(Consumer):
    """`is_as` sets its age, before it fetches anything."""

    def __init__(self, *arguments: Any, **named: Any) -> None:
        super().__init__(*arguments, **named)
        self.fetch_version = NEWEST
        self.keeps_sessions = False
        self._sent: History | None = None
        self._sessions: dict[tuple[int, bool], FetchSessionHandler] = {}
        """By broker, and whether topics have ids there."""

    def is_as(self, action: Action, history: History) -> None:
        self.fetch_version = action.whole("fetch_version", NEWEST)
        self.keeps_sessions = bool(action.arguments.get("sessions")) and self.fetch_version >= FIRST_WITH_SESSIONS
        self._sent = history

    @property
    def knows_batches(self) -> bool:
        return self.fetch_version >= FIRST_OF_BATCHES

    async def poll(self, *arguments: Any, **named: Any) -> list[ConsumerRecord]:
        records = await super().poll(*arguments, **named)
        return records if self.knows_batches else [self._whole(each) for each in records]

    def _whole(self, given: ConsumerRecord) -> ConsumerRecord:
        sent = None if self._sent is None else self._sent.sent.get(given.value or b"")
        return given if sent is None else given._replace(record=given.record._replace(headers=sent.headers))

    async def _fetch(self, leader: int, asked: dict[TopicPartition, Place]) -> FetchResponse:
        if self.fetch_version == NEWEST and not self.keeps_sessions:
            return await super()._fetch(leader, asked)
        connection = await self.cluster.broker(leader)
        version = min(self.fetch_version, connection.best_version(FetchRequest()))
        if any(self.cluster.metadata.topic_id(partition.topic) == ZERO_UUID for partition in asked):
            version = min(version, FIRST_WITH_TOPIC_IDS - 1)
        request = self._request(asked, with_epochs=version >= FIRST_WITH_LAST_FETCHED_EPOCH)
        session = FetchSessionHandler()
        if self.keeps_sessions:
            session = self._sessions.setdefault((leader, version >= FIRST_WITH_TOPIC_IDS), session)
            _ask_for(session, request, by_id=version >= FIRST_WITH_TOPIC_IDS)
        try:
            response: FetchResponse = await connection.send(request, version, self._max_wait_ms + 30_000)
        except BaseException:
            session.lost()
            raise
        if self.keeps_sessions:
            if response.throttle_time_ms and not response.responses and not response.session_id:
                session.reset()  # it would have begun a session, and is to wait
            elif not session.handle(response) and response.error_code in _BEGINS_ANEW:
                return FetchResponse()
        return response


def _ask_for(session: FetchSessionHandler, request: FetchRequest, *, by_id: bool) -> None:
    """Names in the request what has changed since the session's last one."""
    wanted: dict[PartitionKey, FetchRequest.FetchPartition] = {
        (topic.topic_id if by_id else topic.topic, each.partition): each
        for topic in request.topics
        for each in topic.partitions
    }
    for key in [key for key in session.wanted if key not in wanted]:
        session.drop(key)
    for key, partition in wanted.items():
        if session.wanted.get(key) != partition:
            session.want(key, partition)
    request.topics, request.forgotten_topics_data, request.session_id, request.session_epoch = session.build()
