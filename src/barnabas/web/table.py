"""All metrics of one broker: its own counters, and measurements that only an admin endpoint needs."""

from __future__ import annotations

from barnabas.broker.server import Broker
from barnabas.web.group_lag import GroupLag
from barnabas.web.loop_lag import LoopLag
from barnabas.web.metrics import METRICS
from barnabas.web.process_metrics import PROCESS_METRICS


class Table:
    """Measures from `start` to `stop`. It does not have the metrics of topics and partitions: see
    `partition_metrics`."""

    def __init__(self) -> None:
        self._loop_lag = LoopLag()
        self.group_lag = GroupLag()
        self.metrics = (*METRICS, *PROCESS_METRICS, *self._loop_lag.metrics, *self.group_lag.metrics)

    def start(self, broker: Broker) -> None:
        self._loop_lag.start()
        self.group_lag.start(broker)

    def stop(self) -> None:
        self._loop_lag.stop()
        self.group_lag.stop()
