"""The extension in C (``_kernel.c``), where it was built; None where everything is done in Python."""

from __future__ import annotations

from typing import Any

kernel: Any
try:
    from barnabas.wire import _kernel  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    kernel = None
else:
    kernel = _kernel
