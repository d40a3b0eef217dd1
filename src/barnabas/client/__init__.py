"""A Kafka client: `connect` for asyncio, `blocking.connect` for everybody else (docs/client.md).

::

    async with barnabas.client.connect("localhost:9092") as cluster:
        async with cluster.producer() as producer:
            await producer.send("topic", b"value", key=b"key")

Below it are the parts without I/O, each written once: `exchange` (one connection's requests), `asking` (brokers,
leaders, coordinators, retries), `producing` (batches and sequences), `transaction`; `assignors` and `sticky` assign
partitions. Two drivers use them: asyncio (`connection`, `cluster`, `producer`, `transactions`, `fetcher`, `consumer`,
`group`) and, for Spark's executors, plain sockets (`blocking`, `blocking_producer`, `blocking_transaction`). The names
of this package are imported at their first use, so that an executor loads nothing else.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from barnabas.client import blocking
    from barnabas.client.admin import Admin, ConfigEntry, NewTopic, ResourceType
    from barnabas.client.assignor import Assignor, Subscription
    from barnabas.client.connected import Cluster, ConsumerOptions, ProducerOptions, TransactionOptions, connect
    from barnabas.client.consumer import Consumer, RebalanceCallback
    from barnabas.client.offsets import EARLIEST, LATEST, CommittedOffset, ListedOffset
    from barnabas.client.positions import ConsumerRecord
    from barnabas.client.producer import Delivered, Producer
    from barnabas.client.transaction import ProducerFenced
    from barnabas.client.transaction_requests import ConsumerGroupMetadata
    from barnabas.client.transactions import TransactionalProducer
    from barnabas.model.config import AlterOperation
    from barnabas.model.errors import ConfigError, ErrorCode, KafkaError
    from barnabas.model.ids import TopicPartition
    from barnabas.model.leadership import ElectionType

__all__ = [
    "EARLIEST",
    "LATEST",
    "Admin",
    "AlterOperation",
    "Assignor",
    "Cluster",
    "CommittedOffset",
    "ConfigEntry",
    "ConfigError",
    "Consumer",
    "ConsumerGroupMetadata",
    "ConsumerOptions",
    "ConsumerRecord",
    "Delivered",
    "ElectionType",
    "ErrorCode",
    "KafkaError",
    "ListedOffset",
    "NewTopic",
    "Producer",
    "ProducerFenced",
    "ProducerOptions",
    "RebalanceCallback",
    "ResourceType",
    "Subscription",
    "TopicPartition",
    "TransactionOptions",
    "TransactionalProducer",
    "blocking",
    "connect",
]

_HOMES = {
    "barnabas.client.admin": ("Admin", "ConfigEntry", "NewTopic", "ResourceType"),
    "barnabas.client.assignor": ("Assignor", "Subscription"),
    "barnabas.client.connected": ("Cluster", "ConsumerOptions", "ProducerOptions", "TransactionOptions", "connect"),
    "barnabas.client.consumer": ("Consumer", "RebalanceCallback"),
    "barnabas.client.offsets": ("EARLIEST", "LATEST", "CommittedOffset", "ListedOffset"),
    "barnabas.client.positions": ("ConsumerRecord",),
    "barnabas.client.producer": ("Delivered", "Producer"),
    "barnabas.client.transaction": ("ProducerFenced",),
    "barnabas.client.transaction_requests": ("ConsumerGroupMetadata",),
    "barnabas.client.transactions": ("TransactionalProducer",),
    "barnabas.model.config": ("AlterOperation",),
    "barnabas.model.errors": ("ConfigError", "ErrorCode", "KafkaError"),
    "barnabas.model.ids": ("TopicPartition",),
    "barnabas.model.leadership": ("ElectionType",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}


def __getattr__(name: str) -> Any:
    if name == "blocking":
        return importlib.import_module("barnabas.client.blocking")
    if name in _HOME_OF:
        return getattr(importlib.import_module(_HOME_OF[name]), name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
