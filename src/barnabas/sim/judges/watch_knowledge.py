"""Watches what clients and brokers believe about leaders (C23) and coordinators (G10).

C23: no client or broker goes back to an earlier leader epoch of the same topic, whoever tells it, perhaps a broker that
is cut off. When a topic is made again nothing is left of what was known of the former one. G10: a client that is told
that another broker coordinates looks for that broker, and does not ask the same one again.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from barnabas.client.connection import Connection
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.transaction_requests import errors_of
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import NO_EPOCH, ZERO_UUID
from barnabas.replica.metadata_cache import MetadataCache, MetadataUpdate
from barnabas.sim.world.probes import Probes, node
from barnabas.sim.world.world import World
from barnabas.wire.messages.add_offsets_to_txn import AddOffsetsToTxnRequest
from barnabas.wire.messages.add_partitions_to_txn import AddPartitionsToTxnRequest
from barnabas.wire.messages.end_txn import EndTxnRequest
from barnabas.wire.messages.find_coordinator import FindCoordinatorRequest
from barnabas.wire.messages.heartbeat import HeartbeatRequest
from barnabas.wire.messages.join_group import JoinGroupRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.sync_group import SyncGroupRequest
from barnabas.wire.messages.txn_offset_commit import TxnOffsetCommitRequest

_OF_GROUPS: Final = (
    JoinGroupRequest, SyncGroupRequest, HeartbeatRequest, OffsetCommitRequest, TxnOffsetCommitRequest,
)  # fmt: skip
_OF_TRANSACTIONS: Final = (AddOffsetsToTxnRequest, EndTxnRequest)
_UNDER_WAY: Final = 3
"""Requests that may be about to be sent when the answer comes: heartbeats, commits, a join."""


class KnowledgeWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self._told: dict[tuple[str, str, Connection], int] = {}
        """By client, group or transactional id, and connection: how many requests went by that connection since its
        broker said that it is not the coordinator, and before the client has looked for it. Several members of one
        client have one each."""
        probes.around(ClusterMetadata, "merged", self._around_merged)
        probes.around(MetadataCache, "take", self._around_take)
        probes.around(Connection, "send", self._around_send)

    # C23

    def _around_merged(
        self, original: Any, known: ClusterMetadata, newer: ClusterMetadata, asked: list[str] | None
    ) -> ClusterMetadata:
        result: ClusterMetadata = original(known, newer, asked)
        self.goes_not_back(known.topics, {name: result.topics[name] for name in newer.topics})
        return result

    def _around_take(self, original: Any, cache: MetadataCache, update: MetadataUpdate) -> None:
        original(cache, update)
        self.goes_not_back(update.before.topics, update.image.topics)

    def goes_not_back(self, before: Mapping[str, Any], now: Mapping[str, Any]) -> None:
        """Compares topics as somebody knew them before and knows them now."""
        self.world.check("C23")
        for name, topic in now.items():
            known = before.get(name)
            if known is None or known is topic or ZERO_UUID in (known.topic_id, topic.topic_id):
                continue
            for number, partition in topic.partitions.items():
                was = known.partitions.get(number)
                if was is None:
                    continue
                if topic.topic_id != known.topic_id:
                    is_wrong, how = partition is was, "as it was of the topic before"
                else:
                    is_wrong, how = NO_EPOCH < partition.leader_epoch < was.leader_epoch, f"after {was.leader_epoch}"
                if is_wrong:
                    self.world.violated(
                        "C23", f"{node()} takes {partition.leader_epoch} for the leader epoch of {name}-{number}, "
                        f"{how}", f"{name}-{number}", node(),
                    )  # fmt: skip

    # G10

    def _around_send(self, original: Any, connection: Connection, message: Any, *arguments: Any, **named: Any) -> Any:
        sending = original(connection, message, *arguments, **named)
        if isinstance(message, FindCoordinatorRequest):
            self._asks_who(message)
        elif isinstance(message, _OF_GROUPS):
            return self.asked(sending, connection, message.group_id)
        elif isinstance(message, AddPartitionsToTxnRequest):
            return self.asked(sending, connection, message.v3_and_below_transactional_id)
        elif isinstance(message, _OF_TRANSACTIONS):
            return self.asked(sending, connection, message.transactional_id)
        return sending

    def _asks_who(self, message: FindCoordinatorRequest) -> None:
        for key in message.coordinator_keys or [message.key]:
            for told in [each for each in self._told if each[:2] == (node(), key)]:
                del self._told[told]

    async def asked(self, sending: Any, connection: Connection, key: str) -> Any:
        """Counts a request about a group or a transactional id, and looks at its answer."""
        place = node(), key, connection
        self.world.check("G10")
        if place in self._told:
            self._told[place] += 1
            if self._told[place] > _UNDER_WAY:
                self.world.violated(
                    "G10", f"{node()} goes on asking {connection.host} about {key!r}, which has told it that another "
                    "coordinates", node=connection.host,
                )  # fmt: skip
                self._told[place] = 0
        answer = await sending
        if ErrorCode.NOT_COORDINATOR in errors_of(answer):
            self._told.setdefault(place, 0)
        else:
            self._told.pop(place, None)  # it is by now
        return answer
