"""One broker of ours and one of Apache Kafka's, both fresh."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from pathlib import Path

from apache import ApacheCluster
from cluster import running
from drawn.sides import Side

CONFIG = {
    "authorizer.class.name": "kafka.security.authorizer.AclAuthorizer",
    "super.users": "User:ANONYMOUS",
    "auto.create.topics.enable": "false",
    "group.initial.rebalance.delay.ms": "0",
    "log.cleaner.backoff.ms": "3600000",  # what is compacted when is chance,
    "log.initial.task.delay.ms": "3600000",  # and so is what is deleted by its age
    "log.retention.ms": "-1",
    "default.replication.factor": "1",
    "offsets.topic.num.partitions": "2",
    "offsets.topic.replication.factor": "1",
    "transaction.state.log.num.partitions": "2",
    "transaction.state.log.replication.factor": "1",
    "transaction.state.log.min.isr": "1",
}


@contextlib.contextmanager
def both(directory: Path) -> Iterator[tuple[Side, Side]]:
    """Ours and Apache's."""
    with (
        running(directory / "ours", 1, *(f"{key}={value}" for key, value in CONFIG.items())) as ours,
        ApacheCluster(directory / "apache", 1, config=CONFIG) as apaches,
        contextlib.closing(Side(ours.broker(0)["port"])) as here,
        contextlib.closing(Side(apaches.ports[0])) as there,
    ):
        yield here, there
