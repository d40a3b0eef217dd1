"""Our broker in the place of one of Apache Kafka: its configuration file, its log directory, its port."""

from __future__ import annotations

import contextlib
import subprocess
import threading
from collections.abc import Iterator

import apache
from cluster import BARNABAS, until
from kazoo.client import KazooClient


@contextlib.contextmanager
def our_broker(kafka: apache.ApacheCluster, *, clean: bool = True) -> Iterator[None]:
    """In the place of broker 0, which is down; leaves it by SIGTERM, or by kill -9 where it is not `clean`."""
    directory = kafka.directory / "broker-0"
    with open(directory / "ours.log", "ab") as out:
        broker = subprocess.Popen([*BARNABAS, "broker", str(directory / "server.properties")], stdout=out, stderr=out)
    try:
        until(lambda: apache.is_in_cluster(0, kafka.ports[0]), "our broker answers")
        yield
        if clean:
            broker.terminate()
            assert broker.wait(30) == 0
    finally:
        if broker.poll() is None:
            broker.kill()
            broker.wait()


def wait_until_unregistered(zookeeper: str, broker: int) -> None:
    """A killed broker's registration lasts as long as its session."""
    gone = threading.Event()
    client = KazooClient(zookeeper)
    client.start()
    try:
        if client.exists(f"/brokers/ids/{broker}", watch=lambda event: gone.set()) is not None:
            assert gone.wait(30)
    finally:
        client.stop()
        client.close()
