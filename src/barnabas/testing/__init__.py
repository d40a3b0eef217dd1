"""A replicated cluster for tests: it runs in the test's own process, can be broken, and is checked for kept promises.

See `KafkaCluster` and docs/testing.md; pytest finds the fixture `kafka_cluster` by itself. Names are imported at their
first use, so that a test run without a cluster pays nothing.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.testing.awaited import AsyncBroker, AsyncGroup, AsyncPartition, AsyncTopic, AsyncUser
    from barnabas.testing.cluster import AsyncKafkaCluster, KafkaCluster
    from barnabas.testing.handles import BrokerHandle, GroupHandle, PartitionHandle, Record, TopicHandle
    from barnabas.testing.host import DEFAULTS
    from barnabas.testing.life import ClusterError
    from barnabas.testing.promises import AcknowledgedRecordLost, Verdict
    from barnabas.testing.users import UserHandle

__all__ = [
    "DEFAULTS",
    "AcknowledgedRecordLost",
    "AsyncBroker",
    "AsyncGroup",
    "AsyncKafkaCluster",
    "AsyncPartition",
    "AsyncTopic",
    "AsyncUser",
    "BrokerHandle",
    "ClusterError",
    "GroupHandle",
    "KafkaCluster",
    "PartitionHandle",
    "Record",
    "TopicHandle",
    "UserHandle",
    "Verdict",
]


_MODULES = ("awaited", "cluster", "handles", "host", "life", "promises", "users")


def __getattr__(name: str) -> Any:
    if name in __all__:
        for module in _MODULES:
            found = getattr(importlib.import_module(f"{__name__}.{module}"), name, None)
            if found is not None:
                return found
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
