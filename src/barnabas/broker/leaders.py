"""The address of a partition's leader, in the answer to a client that asked another broker (KIP-951)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from barnabas.broker.parts import BrokerParts
from barnabas.model.ids import NO_BROKER, NO_EPOCH, TopicPartition


def leader_of(broker: BrokerParts, topic_partition: TopicPartition) -> tuple[int, int]:
    """The leader and its epoch: from the partition if this broker hosts it, else from the metadata."""
    partition = broker.replicas.partition(topic_partition)
    if partition is not None:
        return partition.leader_id, partition.leader_epoch
    known = broker.metadata.partition(topic_partition)
    return (NO_BROKER, NO_EPOCH) if known is None else (known.leader, known.leader_epoch)


def leader_endpoints(
    broker: BrokerParts, leaders: Iterable[int], listener: str
) -> Iterator[tuple[int, str, int, str | None]]:
    """Id, host, port and rack of those `leaders` that are alive and have the client's listener."""
    for leader in leaders:
        info = broker.metadata.image.brokers.get(leader)
        endpoint = None if info is None else info.endpoint(listener)
        if info is not None and endpoint is not None:
            yield leader, endpoint.host, endpoint.port, info.rack
