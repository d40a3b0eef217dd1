"""Values with which no broker can run are refused at the start, by the key's name."""

from __future__ import annotations

import pytest

from barnabas.broker.start_check import check_start
from barnabas.model.config import broker_config
from barnabas.model.errors import ConfigError


@pytest.mark.parametrize(
    "values",
    [
        {"num.replica.fetchers": "0"},
        {"num.replica.fetchers": "-1"},
        {"log.roll.ms": "0"},
        {"log.roll.jitter.ms": "-1"},
        {"log.retention.ms": "0"},
        {"log.retention.minutes": "0"},
        {"log.retention.hours": "0"},
        {"log.cleaner.dedupe.buffer.size": "1048576"},
        {"log.cleaner.dedupe.buffer.size": "4000000", "log.cleaner.threads": "4"},
        {"log.cleaner.io.max.bytes.per.second": "0"},
        {"log.cleaner.io.buffer.load.factor": "-1"},
        {"replica.fetch.wait.max.ms": "501", "replica.socket.timeout.ms": "500"},
        {"replica.lag.time.max.ms": "499"},
        {"group.consumer.heartbeat.interval.ms": "4999"},
        {"group.consumer.session.timeout.ms": "60001"},
        {"group.share.heartbeat.interval.ms": "4999"},
        {"offsets.commit.required.acks": "-2"},
        {"offsets.commit.required.acks": "2", "offsets.topic.replication.factor": "1"},
        {"connections.max.idle.ms": "100"},
        {"process.roles": "broker"},
        {"process.roles": "controller"},
        {"group.coordinator.rebalance.protocols": "classic,consumer"},
        {"group.coordinator.rebalance.protocols": ""},
        {"remote.log.storage.system.enable": "true"},
        {"broker.id": "-2"},
        {"broker.id": "1001"},
        {"broker.id": "1", "node.id": "2"},
    ],
    ids=str,
)
def test_a_file_that_no_broker_can_run_with_is_refused(values: dict[str, str]) -> None:
    with pytest.raises(ConfigError) as refused:
        check_start(broker_config(values))
    assert any(name in str(refused.value) for name in values)


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"log.retention.ms": "-1"},
        {"log.retention.hours": "-1"},
        {"log.cleaner.threads": "0"},
        {"connections.max.idle.ms": "-1"},
        {"broker.id": "1001", "broker.id.generation.enable": "false"},
        {"offsets.commit.required.acks": "3"},
        {"replica.fetch.wait.max.ms": "499", "replica.lag.time.max.ms": "499"},
    ],
    ids=str,
)
def test_what_kafka_starts_with_is_not(values: dict[str, str]) -> None:
    check_start(broker_config(values))
