"""Fetch sessions (KIP-227), a follower's side.

`FetchSessionHandler` holds the wanted state of all partitions and makes the next request of its changes. After any
doubt it sends a full request.
"""

from __future__ import annotations

from typing import Any

from barnabas.model.errors import ErrorCode
from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.replica.fetch_session import INITIAL_EPOCH, INVALID_SESSION_ID, PartitionKey, next_epoch
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse


def _topic(name_or_id: Uuid | str) -> dict[str, Any]:
    """The fields of a request that name the topic."""
    return {"topic": name_or_id} if isinstance(name_or_id, str) else {"topic_id": name_or_id}


class FetchSessionHandler:
    """The fetcher's side, with topic ids or with names throughout.

    `want` and `drop` say what is to be fetched, `build` makes the next request of it, and `handle` takes the response
    to that request. In between nothing else may be sent.
    """

    __slots__ = ("_changed", "_dropped", "_epoch", "_told", "session_id", "wanted")

    def __init__(self) -> None:
        self.session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
        self.wanted: dict[PartitionKey, FetchRequest.FetchPartition] = {}
        """All partitions to fetch; only `want` and `drop` change it."""
        self._changed: dict[PartitionKey, None] = {}
        self._dropped: dict[PartitionKey, None] = {}
        self._told: dict[PartitionKey, FetchRequest.FetchPartition] = {}
        """The partitions as the leader was last asked for them."""

    def want(self, key: PartitionKey, partition: FetchRequest.FetchPartition) -> None:
        """Fetches `key` as `partition` says from now on; `partition` must not change while a request is in flight."""
        self.wanted.pop(key, None)  # moves to the end: a full request asks for it last
        self.wanted[key] = partition
        self._changed[key] = None
        self._dropped.pop(key, None)

    def drop(self, key: PartitionKey) -> None:
        """Fetches `key` no more."""
        if self.wanted.pop(key, None) is not None:
            self._changed.pop(key, None)
            if key in self._told:
                self._dropped[key] = None

    def only_change(self) -> PartitionKey | None:
        """The partition that the next request has to name if only one changed, else None."""
        if self._epoch == INITIAL_EPOCH or len(self._changed) != 1 or self._dropped:
            return None
        return next(iter(self._changed))

    def build_one(self, key: PartitionKey) -> int:
        """As `build`, for the only change; returns the epoch."""
        self._told[key] = self.wanted[key]
        self._changed.clear()
        return self._epoch

    def handle_one(self, key: PartitionKey) -> FetchRequest.FetchPartition | None:
        """As `handle`, for an answer with `key` alone and no error; returns the partition as it was requested."""
        self._epoch = next_epoch(self._epoch)
        return self._told.get(key)

    def asked(self, key: PartitionKey) -> FetchRequest.FetchPartition | None:
        """The leader's last request for `key`: the same object that was given to `want`."""
        return self._told.get(key)

    def build(self) -> tuple[list[FetchRequest.FetchTopic], list[FetchRequest.ForgottenTopic], int, int]:
        """Returns the topics to fetch and to forget, and the session's id and epoch."""
        forgotten: dict[Uuid | str, FetchRequest.ForgottenTopic] = {}
        if self._epoch == INITIAL_EPOCH:
            asked = self.wanted
            self._told = dict(asked)
        else:
            asked = {}
            for key in self._changed:
                asked[key] = self._told[key] = self.wanted[key]
            for key in self._dropped:
                del self._told[key]
                name_or_id, number = key
                left = forgotten.get(name_or_id)
                if left is None:
                    left = forgotten[name_or_id] = FetchRequest.ForgottenTopic(**_topic(name_or_id))
                left.partitions.append(number)
        self._changed.clear()
        self._dropped.clear()
        topics: dict[Uuid | str, FetchRequest.FetchTopic] = {}
        for (name_or_id, _), partition in asked.items():
            topic = topics.get(name_or_id)
            if topic is None:
                topic = topics[name_or_id] = FetchRequest.FetchTopic(**_topic(name_or_id))
            topic.partitions.append(partition)
        return list(topics.values()), list(forgotten.values()), self.session_id, self._epoch

    def handle(self, response: FetchResponse) -> bool:
        """Processes an answer; False when it cannot be used, and the next request is a full one."""
        if response.error_code:
            if response.error_code == ErrorCode.FETCH_SESSION_ID_NOT_FOUND:
                self.reset()
            else:
                self._epoch = INITIAL_EPOCH  # the leader closes the session when the full request names it
            return False
        answered: set[PartitionKey] = set()
        for topic in response.responses:
            name_or_id = topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic or ""
            answered.update([(name_or_id, data.partition_index) for data in topic.partitions])
        if not answered <= self._told.keys():
            self._epoch = INITIAL_EPOCH
            return False
        if self._epoch == INITIAL_EPOCH:
            if len(answered) != len(self._told):
                return False
            if response.session_id == INVALID_SESSION_ID:
                self.reset()
            else:
                self.session_id = response.session_id
                self._epoch = next_epoch(INITIAL_EPOCH)
        elif response.session_id == INVALID_SESSION_ID:
            self.reset()  # the leader had no room to keep it
        else:
            self._epoch = next_epoch(self._epoch)
        return True

    def lost(self) -> None:
        """Has the next request close the session and begin a new one: no answer came, or one that could not be used;
        the leader does not know that."""
        self._epoch = INITIAL_EPOCH

    def reset(self) -> None:
        self.session_id = INVALID_SESSION_ID
        self._epoch = INITIAL_EPOCH
