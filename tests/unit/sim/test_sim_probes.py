"""Probes find a method where it is defined, and leave everything as it was."""

from __future__ import annotations

from barnabas.sim.world.probes import Probes


class Base:
    def count(self) -> int:
        return 1

    @classmethod
    def name(cls) -> str:
        return cls.__name__


class Derived(Base):
    """Inherits what is watched."""


def test_what_a_class_inherits_is_watched_and_left_as_it_was() -> None:
    before = dict(Base.__dict__), dict(Derived.__dict__)
    probes = Probes()
    told: list[tuple[object, ...]] = []
    probes.after(Derived, "count", lambda result, *arguments: told.append(("count", result)))
    probes.after(Derived, "name", lambda result, *arguments: told.append(("name", result)))
    assert Derived().count() == 1
    assert Derived.name() == "Derived"
    assert told == [("count", 1), ("name", "Derived")]
    probes.remove()
    assert (dict(Base.__dict__), dict(Derived.__dict__)) == before
