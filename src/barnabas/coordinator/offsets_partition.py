"""The groups that one partition of ``__consumer_offsets`` holds, built from its records. Pure.

`replay_stored` loads it, record by record. Later commits go to the group itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from barnabas.coordinator.group_values import GroupLimits, Now
from barnabas.coordinator.groups import Group
from barnabas.coordinator.offsets_records import Bytes, OffsetKey, read_group, read_key, read_offset
from barnabas.wire.errors import WireError
from barnabas.wire.records import BatchHeader, Record


class OffsetsPartition:
    """One partition for which this broker is the coordinator in `leader_epoch`. While `loading`, it answers nothing."""

    __slots__ = ("groups", "leader_epoch", "limits", "loading", "open_groups", "partition", "unknown_keys")

    def __init__(self, partition: int, leader_epoch: int, limits: GroupLimits) -> None:
        self.partition = partition
        self.leader_epoch = leader_epoch
        self.limits = limits
        self.loading = True
        self.groups: dict[str, Group] = {}
        self.open_groups: dict[int, dict[str, None]] = {}
        """By producer id the groups for which the producer's open transaction commits offsets."""
        self.unknown_keys = 0

    def group(self, group_id: str, now: Now) -> Group:
        """The group, which is created, empty, if there is none."""
        group = self.groups.get(group_id)
        if group is None:
            group = self.groups[group_id] = Group(group_id, self.limits, now)
        return group

    def replay_stored(self, header: BatchHeader, record: Record, now: Now) -> None:
        """Replays one record of a log that is being loaded. Raises `WireError` for an unreadable record."""
        if record.key is None:
            raise WireError("it has no key")
        if not header.is_control:
            producer_id = header.producer_id if header.is_transactional else -1
            self.replay(record.key, record.value, header.base_offset, producer_id, now)
            return
        # A control record's key: int16 version, int16 type; 0 aborts, 1 commits.
        kind = int.from_bytes(record.key[2:4], "big")
        if kind in (0, 1):
            self.replay_marker(header.producer_id, kind == 1)

    def replay(self, key: Bytes, value: Bytes | None, record_offset: int, producer_id: int, now: Now) -> None:
        """Replays one record. `producer_id` is -1 outside of transactions; `record_offset` is the batch's."""
        read = read_key(key)
        if read is None:
            self.unknown_keys += 1
        elif isinstance(read, OffsetKey):
            committed = None if value is None else read_offset(value)
            if committed is None and read.group_id not in self.groups:
                return
            self.group(read.group_id, now).offsets.replay(read.topic_partition, committed, record_offset, producer_id)
            if producer_id >= 0:
                self.open_groups.setdefault(producer_id, {})[read.group_id] = None
        elif value is None:
            if read.group_id in self.groups:
                self.groups[read.group_id].forget_members(now)
        else:
            stored = read_group(read.group_id, value)
            self.group(read.group_id, now).restore(stored, now)

    def replay_marker(self, producer_id: int, committed: bool) -> None:
        """Replays the end of a transaction."""
        for group_id in self.open_groups.pop(producer_id, ()):
            group = self.groups.get(group_id)
            if group is not None:
                group.offsets.replay_marker(producer_id, committed)

    def drop(self, group_ids: Iterable[str]) -> None:
        for group_id in group_ids:
            self.groups.pop(group_id, None)

    def complete(self) -> None:
        """Drops empty groups, once the log has been read to its end."""
        self.drop(
            [
                group_id
                for group_id, group in self.groups.items()
                if not group.members and not group.offsets and group.generation_id == 0
            ]
        )
        self.loading = False
