"""The errors of decoding bytes and of encoding messages."""

from __future__ import annotations


class WireError(ValueError):
    """Bytes that no Kafka peer would send, or a message that Kafka's format cannot hold."""


class UnsupportedVersionError(WireError):
    """A version that the message does not have, or a field that the asked version cannot carry."""
