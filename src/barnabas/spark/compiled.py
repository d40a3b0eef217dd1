"""Decides whether a process uses compiled kernels or plain Python, and knows which kernels it has."""

from __future__ import annotations

import logging
from importlib import import_module
from typing import Final

from barnabas.spark.record_columns import RecordWalk
from barnabas.wire.kernel import kernel as _kernel

IS_BUILT: Final = hasattr(_kernel, "columns")
"""Whether the extension in C is installed, and of this version's source."""
COMPILED_RECORDS_MIN: Final = 200_000
"""How many records a process decodes in plain Python first where numba does it: that takes a second of CPU to load."""
COMPILED_ROWS_MIN: Final = 50_000
"""How many rows it encodes in plain Python first: a row takes three times as long as a record that is read."""
COMPILED_VALUES_MIN: Final = 100_000
"""How many Protobuf values it reads in plain Python first."""

_LOG: Final = logging.getLogger(__name__)
_troubles: dict[str, str] = {}
"""Why a library could not be loaded in this process: a failed import is slow, and not tried again."""


def takes_compiled(
    word: str, records: int, *, option: str = "decoder", records_min: int = COMPILED_RECORDS_MIN, built: bool = False
) -> bool:
    """By the value `word` of `option`; for ``auto`` by how many `records` this process has handled, earlier tasks'
    included, or whether the extension in C does it and was `built`. Raises ``ValueError`` for ``compiled`` without
    either."""
    if word == "python" or built:
        return word != "python"
    if word == "auto" and records < records_min:
        return False
    trouble = trouble_with_numba()
    if word == "compiled" and trouble:
        raise ValueError(
            f"Option {option}=compiled needs numba, which this executor's Python does not have ({trouble}): install "
            f"barnabas[spark] there, or set {option}=auto."
        )
    return not trouble


def trouble_with_numba() -> str:
    """Why numba cannot be used here, empty where it can: it is absent, or its version does not fit the installed numpy
    or Python. Loads it, which takes a second of CPU."""
    if "numba" not in _troubles:
        try:
            import_module("numba")
            _troubles["numba"] = ""
        except (ImportError, AttributeError, SystemError) as error:
            _troubles["numba"] = str(error).rstrip(".")
            _LOG.warning("Rows go through plain Python, slowly: numba cannot be used, %s.", _troubles["numba"])
    return _troubles["numba"]


def record_walk() -> RecordWalk:
    """The extension in C if it was built: its load takes no time. Otherwise, as when Barnabas came in a zip, numba's,
    which takes a second of CPU to load. Raises ``ImportError`` if there is neither."""
    if IS_BUILT:
        return RecordWalk(_kernel.columns, _kernel.headers)
    from barnabas.spark import kernels

    return RecordWalk(kernels.decode, kernels.decode_headers)
