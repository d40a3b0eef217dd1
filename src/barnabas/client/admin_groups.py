"""The operator's requests about consumer groups, each to the group's coordinator."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from barnabas.client.admin_routing import AdminRouting
from barnabas.client.connection import Connection
from barnabas.client.descriptions import GroupDescription, GroupListing, read_group
from barnabas.client.offsets import CommittedOffset, committed_offset
from barnabas.model.errors import KafkaError, check_code, outcome_of
from barnabas.model.ids import TopicPartition, numbers_by_topic
from barnabas.wire.messages.delete_groups import DeleteGroupsRequest
from barnabas.wire.messages.describe_groups import DescribeGroupsRequest
from barnabas.wire.messages.list_groups import ListGroupsRequest
from barnabas.wire.messages.offset_commit import OffsetCommitRequest
from barnabas.wire.messages.offset_delete import OffsetDeleteRequest


class GroupAdmin(AdminRouting):
    async def list_groups(self, states: Sequence[str] = ()) -> list[GroupListing]:
        """Every group of every broker, or those in some of the `states`. Raises when a broker does not answer."""

        async def ask(connection: Connection, broker_id: int) -> list[GroupListing]:
            answer = await connection.send(ListGroupsRequest(states_filter=list(states)))
            check_code(answer.error_code, what=f"groups of broker {broker_id}")
            return [GroupListing(group.group_id, group.protocol_type, group.group_state) for group in answer.groups]

        groups: dict[str, GroupListing] = {}
        for outcome in (await self._at_brokers(None, ask)).values():
            if isinstance(outcome, KafkaError):
                raise outcome
            groups.update((listing.group, listing) for listing in outcome)
        return [groups[name] for name in sorted(groups)]

    async def describe_group(self, group: str) -> GroupDescription:
        """Describes a classic group; `GroupDescription.exists` is false if there is none of that name."""
        target = self._coordinator_of(group)
        request = DescribeGroupsRequest(groups=[group])
        described = (await self._to(target, request, lambda a: [g.error_code for g in a.groups])).groups[0]
        check_code(described.error_code, what=f"group {group}")
        connection = await target()
        return read_group(described, await self._node_of(connection))

    async def delete_group(self, group: str) -> None:
        """Deletes a group without members, and its committed offsets."""
        request = DeleteGroupsRequest(groups_names=[group])
        answer = await self._to(self._coordinator_of(group), request, lambda a: [r.error_code for r in a.results])
        check_code(answer.results[0].error_code, what=f"group {group}")

    async def committed_offsets(self, group: str) -> dict[TopicPartition, CommittedOffset]:
        """All offsets that `group` has committed."""
        found = await self.cluster.committed_offsets(group, None)
        return {partition: found[partition] for partition in sorted(found)}

    async def alter_group_offsets(
        self, group: str, offsets: Mapping[TopicPartition, int | CommittedOffset]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Commits in the name of `group`, which must have no members (KIP-396); UNKNOWN_MEMBER_ID if it has."""
        request = OffsetCommitRequest(
            group_id=group,
            topics=[
                OffsetCommitRequest.OffsetCommitRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetCommitRequest.OffsetCommitRequestPartition(
                            partition_index=number,
                            committed_offset=committed.offset,
                            committed_leader_epoch=committed.leader_epoch,
                            committed_metadata=committed.metadata,
                        )
                        for number in numbers
                        for committed in [committed_offset(offsets[TopicPartition(topic, number)])]
                    ],
                )
                for topic, numbers in numbers_by_topic(offsets).items()
            ],
        )
        answer = await self._to(self._coordinator_of(group), request, _codes_of_partitions)
        return _outcomes_of_partitions(answer)

    async def delete_group_offsets(
        self, group: str, partitions: Iterable[TopicPartition]
    ) -> dict[TopicPartition, KafkaError | None]:
        """Deletes committed offsets of `group` (KIP-496); GROUP_SUBSCRIBED_TO_TOPIC if its members read that topic."""
        request = OffsetDeleteRequest(
            group_id=group,
            topics=[
                OffsetDeleteRequest.OffsetDeleteRequestTopic(
                    name=topic,
                    partitions=[
                        OffsetDeleteRequest.OffsetDeleteRequestPartition(partition_index=number) for number in numbers
                    ],
                )
                for topic, numbers in numbers_by_topic(partitions).items()
            ],
        )
        answer = await self._to(
            self._coordinator_of(group), request, lambda a: [a.error_code, *_codes_of_partitions(a)]
        )
        check_code(answer.error_code, what=f"group {group}")
        return _outcomes_of_partitions(answer)


def _codes_of_partitions(answer: Any) -> list[int]:
    return [partition.error_code for topic in answer.topics for partition in topic.partitions]


def _outcomes_of_partitions(answer: Any) -> dict[TopicPartition, KafkaError | None]:
    return {
        partition: outcome_of(found.error_code, None, partition)
        for topic in answer.topics
        for found in topic.partitions
        for partition in [TopicPartition(topic.name, found.partition_index)]
    }
