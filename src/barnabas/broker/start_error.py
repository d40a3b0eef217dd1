"""Why a broker does not start."""

from __future__ import annotations


class BrokerStartError(Exception):
    """The broker cannot start; the text says why and what to do."""
