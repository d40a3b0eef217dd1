"""Where Python's small objects lie while long work goes on.

CPython keeps objects of up to 512 bytes in arenas of a megabyte, and an arena goes back to the system only when all of
its objects are gone. Among the hundred thousand elements of a long request lies something that stays, such as a new
topic or a compiled decoder, and keeps its megabyte: after two minutes of such requests a broker of 36 MiB
kept 95 arenas for 20 MiB of objects. What malloc gave goes back by pages (`barnabas.runtime.memory`);
but malloc for everything would cost some 3 to 8 % of a broker's CPU. So what a slice of long work makes
(`barnabas.runtime.turns`) comes from malloc, and everything else from arenas.

Only the allocating functions are exchanged. Objects are freed by the functions that were there before: they ask of
every address whether it is in an arena, since larger objects, and those for which no arena had room, always came from
malloc.
"""

from __future__ import annotations

import ctypes
import os
import sys
import sysconfig
from typing import Any, Final

_RAW: Final = 0
_WITH_ARENAS: Final = (1, 2)
"""``PYMEM_DOMAIN_MEM`` and ``PYMEM_DOMAIN_OBJ``."""


class _Allocator(ctypes.Structure):
    """``PyMemAllocatorEx``."""

    _fields_ = [(name, ctypes.c_void_p) for name in ("ctx", "malloc", "calloc", "realloc", "free")]


class SmallObjects:
    """Switches this process's new small objects between arenas and malloc, in 0.4 µs, in the loop's thread."""

    def __init__(self) -> None:
        """Raises ``OSError`` where this process does not use CPython's own allocators."""
        if sys.implementation.name != "cpython" or sysconfig.get_config_var("Py_GIL_DISABLED"):
            raise OSError("this Python has other arenas, or none")
        if os.environ.get("PYTHONMALLOC", "default") not in ("", "default", "pymalloc"):
            raise OSError("PYTHONMALLOC asks for another allocator")
        self._set: Any = ctypes.pythonapi.PyMem_SetAllocator
        self._set.restype = None
        raw = self._found(_RAW)
        self._arenas: list[tuple[Any, Any]] = []
        self._malloc: list[tuple[Any, Any]] = []
        for domain in _WITH_ARENAS:
            found = self._found(domain)
            mixed = _Allocator(None, raw.malloc, raw.calloc, found.realloc, found.free)
            self._arenas.append((ctypes.c_int(domain), ctypes.byref(found)))
            self._malloc.append((ctypes.c_int(domain), ctypes.byref(mixed)))

    @staticmethod
    def _found(domain: int) -> _Allocator:
        allocator = _Allocator()
        get: Any = ctypes.pythonapi.PyMem_GetAllocator
        get.restype = None
        get(ctypes.c_int(domain), ctypes.byref(allocator))
        if allocator.ctx:
            raise OSError("a debugger or a profiler watches over this process's memory")
        return allocator

    def from_malloc(self) -> None:
        for domain, allocator in self._malloc:
            self._set(domain, allocator)

    def from_arenas(self) -> None:
        for domain, allocator in self._arenas:
            self._set(domain, allocator)


def small_objects() -> SmallObjects | None:
    """The switch; None where the allocators are better left alone."""
    try:
        return SmallObjects()
    except OSError:
        return None
