"""Side by side with Apache Kafka, ZooKeeper and Spark's official connector: the loads, the clocks, the pictures.

The commands are in `barnabas.cli.bench`. `apache` and `apache_zookeeper` start the real things, for tests as well.
"""


class BenchError(Exception):
    """The reason why nothing can be measured or drawn, in one sentence."""
