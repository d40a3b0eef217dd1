"""Broker 1's replicas, with nobody in the place of the controller and of other brokers."""

from __future__ import annotations

from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import Config
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.replicas import Replicas
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime


def replicas_alone(config: Config, log_dirs: LogDirs, tasks: Tasks, metadata: MetadataCache) -> Replicas:
    return Replicas(
        real_runtime(),
        1,
        config,
        log_dirs,
        tasks=tasks,
        metadata=metadata,
        alter_partition=None,  # type: ignore[arg-type]
        connect=None,  # type: ignore[arg-type]
        inter_broker_listener="PLAINTEXT",
        broker_epoch=lambda: 1,
    )
