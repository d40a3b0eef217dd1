"""Whether a process works with compiled kernels or in plain Python."""

from __future__ import annotations

import importlib.util
from typing import Final

COMPILED_RECORDS_MIN: Final = 200_000
"""What a process decodes in plain Python first: to import numba and load the kernels takes it a second of CPU."""
COMPILED_ROWS_MIN: Final = 50_000
"""What it encodes so: a row takes three times as long as a record that is read."""
COMPILED_VALUES_MIN: Final = 100_000
"""What it reads of Protobuf's values so."""


def takes_compiled(
    word: str, records: int, *, option: str = "decoder", records_min: int = COMPILED_RECORDS_MIN
) -> bool:
    """By the `word` that `option` is, and how many `records` this process has to do with: those of its earlier tasks
    included. Raises ``ValueError`` for ``compiled`` without numba."""
    if word == "python":
        return False
    numba_is_there = importlib.util.find_spec("numba") is not None
    if word == "compiled" and not numba_is_there:
        raise ValueError(
            f"Option {option}=compiled needs numba, which this executor's Python does not have: install barnabas[spark]"
            f" there, or set {option}=auto."
        )
    return word == "compiled" or (numba_is_there and records >= records_min)
