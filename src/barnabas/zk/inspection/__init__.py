"""Reads whole trees of znodes, checks them, and moves them to another ZooKeeper."""
