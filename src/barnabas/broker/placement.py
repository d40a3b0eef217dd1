"""Which brokers hold a new partition's replicas (Kafka's ``AdminUtils.assignReplicasToBrokers``). Pure.

Leaders go round robin over the brokers from a random start; the other replicas follow at a shift that grows by one
with each round, so that the followers of one broker's partitions are spread too. Where every broker names its rack the
brokers are put in an order that alternates racks, and no rack gets a second replica before each has one (KIP-36).
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Final

from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.runtime.doors import Entropy

PARTITIONS_MAX: Final = 50_000
"""How many partitions one request may create; KRaft also has such a limit (``ReplicationControlManager``: 10,000). A
topic's assignment is one znode of at most a megabyte, which hardly holds so many partitions."""


def check_partition_count(counts: Iterable[int]) -> None:
    if sum(counts) > PARTITIONS_MAX:
        raise KafkaError(ErrorCode.POLICY_VIOLATION, "Excessively large number of partitions per request.")


def assign_replicas(
    racks: Mapping[int, str | None],
    partition_count: int,
    replication_factor: int,
    entropy: Entropy,
    *,
    start_index: int | None = None,
    start_partition: int = 0,
) -> dict[int, tuple[int, ...]]:
    """Replicas by partition, from `start_partition` on. `racks` names the live brokers, each with its rack or None.

    Racks count when every broker has one. `start_index` fixes the first leader, for partitions added to a topic.
    """
    if partition_count <= 0:
        raise KafkaError(ErrorCode.INVALID_PARTITIONS, "Number of partitions must be larger than 0.")
    if replication_factor <= 0:
        raise KafkaError(ErrorCode.INVALID_REPLICATION_FACTOR, "Replication factor must be larger than 0.")
    if replication_factor > len(racks):
        raise KafkaError(
            ErrorCode.INVALID_REPLICATION_FACTOR,
            f"Replication factor: {replication_factor} larger than available brokers: {len(racks)}.",
        )
    known = {broker: rack for broker, rack in racks.items() if rack is not None}
    rack_aware = len(known) == len(racks)
    brokers = rack_alternated(known) if rack_aware else sorted(racks)
    count = len(brokers)
    first = entropy.randrange(0, count) if start_index is None else start_index
    shift = entropy.randrange(0, count) if start_index is None else start_index
    assignment = {}
    for partition in range(start_partition, start_partition + partition_count):
        if partition > 0 and partition % count == 0:
            shift += 1
        leader = (partition + first) % count
        if rack_aware:
            assignment[partition] = _over_racks(brokers, known, leader, shift, replication_factor)
        else:
            followers = (brokers[_follower(leader, shift, which, count)] for which in range(replication_factor - 1))
            assignment[partition] = (brokers[leader], *followers)
    return assignment


def _follower(leader: int, shift: int, which: int, count: int) -> int:
    return (leader + 1 + (shift + which) % (count - 1)) % count


def _over_racks(
    brokers: Sequence[int], racks: Mapping[int, str], leader: int, shift: int, replication_factor: int
) -> tuple[int, ...]:
    rack_count = len(set(racks.values()))
    replicas = [brokers[leader]]
    racks_used = {racks[brokers[leader]]}
    which = 0
    while len(replicas) < replication_factor:
        broker = brokers[_follower(leader, shift * rack_count, which, len(brokers))]
        which += 1
        if broker not in replicas and (racks[broker] not in racks_used or len(racks_used) == rack_count):
            replicas.append(broker)
            racks_used.add(racks[broker])
    return tuple(replicas)


def rack_alternated(racks: Mapping[int, str]) -> list[int]:
    """The brokers in an order that takes one from each rack in turn."""
    by_rack = [sorted(broker for broker in racks if racks[broker] == rack) for rack in sorted(set(racks.values()))]
    order: list[int] = []
    while len(order) < len(racks):
        order.extend(brokers.pop(0) for brokers in by_rack if brokers)
    return order


def assign_added_partitions(
    racks: Mapping[int, str | None], first_replicas: Sequence[int], existing: int, added: int, entropy: Entropy
) -> dict[int, tuple[int, ...]]:
    """Replicas for `added` partitions of a topic that has `existing` ones, the first of them on `first_replicas`."""
    start = next((index for index, broker in enumerate(sorted(racks)) if broker >= first_replicas[0]), 0)
    return assign_replicas(racks, added, len(first_replicas), entropy, start_index=start, start_partition=existing)
