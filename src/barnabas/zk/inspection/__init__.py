"""Whole trees looked at from outside: read, checked, moved to another ZooKeeper."""
