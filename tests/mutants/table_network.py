# ruff: noqa: E501 -- the texts to be replaced are lines of the product with their ends
"""Mutants: network."""

from __future__ import annotations

from typing import Final

from mutants.mutant import mutant

MUTANTS: Final = (
    mutant(
        "B88", "KAFKA-2614", "a connection that was reset is counted for ever",
        "NET", "S2 L1",
        (
            "broker/connection.py",
            "        self._end()\n        self._broker.connections.closed(self)\n",
            "        self._end()\n        if error is None:\n            self._broker.connections.closed(self)\n",
        ),
    ),
    mutant(
        "B89", "KAFKA-7639", "the length that a frame announces is trusted",
        "NET", "S2",
        (
            "broker/connection.py",
            "            if not 0 <= size <= self._limits.max_request_bytes:\n",
            "            if size < 0:\n",
        ),
    ),
    mutant(
        "B90", "KAFKA-765", "a request whose bytes cannot be read ends more than its connection",
        "NET", "S4",
        (
            "broker/connection.py",
            "            request, _ = route.decode(frame, version, offset)\n        except WireError as error:\n",
            "            request, _ = route.decode(frame, version, offset)\n        except ZeroDivisionError as error:\n",
        ),
    ),
)  # fmt: skip
