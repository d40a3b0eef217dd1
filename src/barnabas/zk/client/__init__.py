"""A ZooKeeper client: a session over any number of connections."""

from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.client.connection import ClientSecurity

__all__ = ["ClientSecurity", "ZooKeeperClient"]
