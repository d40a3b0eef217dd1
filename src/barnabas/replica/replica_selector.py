"""Chooses the replica from which a consumer reads (KIP-392, ``ReplicaSelector``).

A consumer names its rack. If another replica is preferred, the leader answers the fetch with that replica's id;
followers answer up to the high watermark that they know.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Final

from barnabas.model.config import Config
from barnabas.model.errors import ConfigError


@dataclass(frozen=True, slots=True)
class ReplicaView:
    """A replica in sync that has the requested offset. `lag_ms`: for how long it has not been caught up."""

    broker_id: int
    rack: str | None
    log_end_offset: int
    lag_ms: int


Select = Callable[[str, ReplicaView, Sequence[ReplicaView]], ReplicaView]
"""Chooses the replica for a consumer in that rack: the leader, or one of its followers."""


def rack_aware(rack: str, leader: ReplicaView, followers: Sequence[ReplicaView]) -> ReplicaView:
    """The leader if it is in the consumer's rack, else the follower there with the smallest lag."""
    near = [follower for follower in followers if follower.rack == rack]
    if not rack or leader.rack == rack or not near:
        return leader
    return max(near, key=lambda follower: (follower.log_end_offset, -follower.lag_ms, follower.broker_id))


_SELECTORS: Final[dict[str, Select | None]] = {
    "": None,
    "org.apache.kafka.common.replica.LeaderSelector": None,
    "org.apache.kafka.common.replica.RackAwareReplicaSelector": rack_aware,
}


def replica_selector(config: Config) -> Select | None:
    """The ``replica.selector.class``; None if all consumers read from leaders. Raises `ConfigError`."""
    name = config.text("replica.selector.class")
    if name not in _SELECTORS:
        raise ConfigError(
            f"Invalid value {name!r} for configuration replica.selector.class: "
            f"it takes {', '.join(filter(None, _SELECTORS))}."
        )
    return _SELECTORS[name]
