"""The extension in C (``_kernel.c``), where it was built; None where everything is done in Python."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import Any, Final, ParamSpec, TypeVar

kernel: Any
try:
    from barnabas.wire import _kernel  # type: ignore[attr-defined, unused-ignore]
except ImportError:
    kernel = None
else:
    kernel = _kernel

STAYING: Final = 2
"""An argument of the kernel's ``made_for``: slabs for lasting objects. 0: may last, 1: passing (``_slabs.h``)."""

P = ParamSpec("P")
T = TypeVar("T")


def staying(make: Callable[P, T]) -> Callable[P, T]:
    """Calls `make`, which may not await. Many of its objects live as long as the process or a partition: they are kept
    apart from others."""
    if kernel is None:
        return make

    @wraps(make)
    def made(*args: P.args, **named: P.kwargs) -> T:
        before = kernel.made_for(STAYING)
        try:
            return make(*args, **named)
        finally:
            kernel.made_for(before)

    return made
