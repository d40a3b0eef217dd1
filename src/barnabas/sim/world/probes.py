"""Wraps methods of the product for one run, so that watchers are told what they did.

The product knows nothing of it, and a copy of the product with a bug put back is watched in the same way. Probes use
only the product's public methods and properties, so that its private parts may change without regard to the simulator
(`tests/unit/sim/test_sim_door.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from types import ModuleType
from typing import Any

from barnabas.sim.world.loop import current_incarnation


class Probes:
    """Wraps methods from `install` on until `remove`."""

    def __init__(self) -> None:
        self._originals: list[tuple[type | ModuleType, str, Any]] = []

    def around(self, owner: type | ModuleType, name: str, hook: Callable[..., Any]) -> None:
        """Calls `hook(original, *arguments)` in place of the method or function, where that is defined; an original
        that is a classmethod is given bound to `owner`."""
        homes = owner.__mro__ if isinstance(owner, type) else (owner,)
        home = next(base for base in homes if name in base.__dict__)
        kept = home.__dict__[name]
        self._originals.append((home, name, kept))
        is_classmethod = isinstance(kept, classmethod)
        original = getattr(owner, name) if is_classmethod else kept

        def wrapped(*arguments: Any, **named: Any) -> Any:
            return hook(original, *arguments, **named)

        setattr(home, name, staticmethod(wrapped) if is_classmethod else wrapped)

    def instead(self, module: ModuleType, name: str, value: object) -> None:
        """Sets a module's constant to `value`."""
        self._originals.append((module, name, module.__dict__[name]))
        setattr(module, name, value)

    def after(self, owner: type | ModuleType, name: str, told: Callable[..., None]) -> None:
        """Calls `told(result, instance, *arguments)` when the method has returned."""

        def hook(original: Any, *arguments: Any, **named: Any) -> Any:
            result = original(*arguments, **named)
            told(result, *arguments, **named)
            return result

        self.around(owner, name, hook)

    def across(self, owner: type, name: str, look: Callable[[Any], Any], told: Callable[..., None]) -> None:
        """As `after`, with the result of `look(instance)` from before the call in front: `told(before, result,
        instance, *arguments)`."""

        def hook(original: Any, instance: Any, *arguments: Any, **named: Any) -> Any:
            before = look(instance)
            result = original(instance, *arguments, **named)
            told(before, result, instance, *arguments, **named)
            return result

        self.around(owner, name, hook)

    def remove(self) -> None:
        while self._originals:
            owner, name, original = self._originals.pop()
            setattr(owner, name, original)


def node() -> str:
    """The node whose process runs now; empty for the world itself."""
    incarnation = current_incarnation.get()
    return "" if incarnation is None else incarnation.name


def life() -> int:
    incarnation = current_incarnation.get()
    return -1 if incarnation is None else incarnation.number
