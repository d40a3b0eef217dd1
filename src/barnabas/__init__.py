"""Kafka's replicated cluster as a Python package."""

__version__ = "0.1.0"
