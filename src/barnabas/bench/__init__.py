"""Measures Barnabas beside Apache Kafka, ZooKeeper and Spark's official connector: the loads, the clocks, the pictures.

The commands are in `barnabas.cli.bench`. `apache` and `apache_zookeeper` start Apache's servers, for tests as well.
"""


class BenchError(Exception):
    """A measurement or a drawing is impossible; the text is the reason, in one sentence."""
