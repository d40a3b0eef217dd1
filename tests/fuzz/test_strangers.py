"""Bytes from strangers find nothing: what was kept of earlier searches, and some that Hypothesis draws."""

from __future__ import annotations

import random
from collections.abc import Iterator

import pytest
from fuzz.fuzzed_world import DOORS, World
from fuzz.strangers import cut, kept, mutated, seeds
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st


@pytest.fixture(scope="module")
def world(tmp_path_factory: pytest.TempPathFactory) -> Iterator[World]:
    made = World(tmp_path_factory.mktemp("fuzzed"))
    try:
        yield made
    finally:
        made.close()


def test_what_was_kept_finds_nothing(world: World) -> None:
    inputs = kept()
    assert sorted(inputs) == sorted(DOORS)
    for door, all_of_it in inputs.items():
        for data in all_of_it:
            world.feed(door, data)
    world.grown_kb()


def test_every_door_is_open_to_what_clients_say(world: World) -> None:
    for door, make in seeds(world).items():
        chance = random.Random(1)
        assert sum(world.feed(door, make(chance) + b"\0\0") > 0 for _ in range(40)) > 10, door


@settings(max_examples=400, deadline=None, derandomize=True, database=None, suppress_health_check=list(HealthCheck))
@given(st.sampled_from(DOORS), st.randoms(use_true_random=False), st.integers(0, 3))
def test_what_clients_say_changed_by_chance_finds_nothing(
    world: World, door: str, chance: random.Random, changes: int
) -> None:
    data = seeds(world)[door](chance)
    for _ in range(changes):
        data = mutated(data, chance)
    world.feed(door, cut(data, chance))
