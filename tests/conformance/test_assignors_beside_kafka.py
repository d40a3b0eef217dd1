"""Our assignors and those of Kafka's Java client, on drawn groups that go from one rebalance to the next.

Members have names of one letter: so the Java client's hash maps go through them in the order of the alphabet, as ours
does, and where the order decides, both decide the same.
"""

from __future__ import annotations

import random
import subprocess
from pathlib import Path
from typing import NamedTuple

import apache
import pytest

from barnabas.client.assignor import Assignor, Subscription
from barnabas.client.assignors import assignors_named
from barnabas.model.ids import TopicPartition

ROUNDS = 250


class Case(NamedTuple):
    assignor: str
    counts: dict[str, int]
    members: dict[str, Subscription]

    def line(self) -> str:
        counts = ",".join(f"{topic}={count}" for topic, count in self.counts.items()) or "-"
        return " ".join([self.assignor, counts, *(_member(name, each) for name, each in self.members.items())])

    def ours(self) -> str:
        (assignor,) = assignors_named([self.assignor])
        given = assignor.assign(self.counts, self.members)
        return " ".join(f"{member}={_listed(given[member])}" for member in sorted(given))


def _listed(partitions: list[TopicPartition] | tuple[TopicPartition, ...]) -> str:
    return ",".join(f"{topic}:{number}" for topic, number in partitions)


def _member(name: str, said: Subscription) -> str:
    data = "-" if said.user_data is None else said.user_data.hex()
    fields = [name, ",".join(said.topics) or "-", data, _listed(said.owned) or "-", str(said.generation)]
    return ";".join(fields if said.group_instance_id is None else [*fields, said.group_instance_id])


def drawn(assignor: str, chance: random.Random) -> list[Case]:
    """Rebalances of groups: members come, go, and change their minds, topics grow, and some tell old tales."""
    cases: list[Case] = []
    while len(cases) < ROUNDS:
        counts = {topic: chance.randrange(9) for topic in "stuv"[: chance.randrange(1, 5)]}
        counts = {topic: count for topic, count in counts.items() if count}
        minds: dict[str, tuple[str, ...]] = {}
        memories: dict[str, Assignor] = {}
        had: dict[str, tuple[TopicPartition, ...]] = {}
        since: dict[str, int] = {}
        alike = chance.random() < 0.5
        for generation in range(chance.randrange(1, 7)):
            for name in chance.sample("abcdefgh", chance.randrange(1, 3)):
                if name in minds and len(minds) > 1 and chance.random() < 0.4:
                    del minds[name], memories[name], had[name], since[name]
                elif name not in minds:
                    minds[name] = ()
                    (memories[name],) = assignors_named([assignor])
                    had[name], since[name] = (), -1
            for name, topics in minds.items():
                if alike or not topics or chance.random() < 0.1:
                    some = [topic for topic in counts if alike or chance.random() < 0.6]
                    minds[name] = tuple(some) or tuple(counts)
            members = {}
            for name in sorted(minds):
                instance = f"i{name}" if name in "ceg" and chance.random() < 0.8 else None
                members[name] = Subscription(
                    minds[name],
                    memories[name].user_data(),
                    had[name] if memories[name].cooperative else (),
                    since[name],
                    instance,
                )
            case = Case(assignor, dict(counts), members)
            cases.append(case)
            given = memories[min(minds)].assign(case.counts, case.members)
            for name, partitions in given.items():
                if chance.random() < 0.9:  # else it has not heard of this generation, and tells what it had before
                    memories[name].assigned(partitions, generation)
                    had[name], since[name] = tuple(partitions), generation
            if chance.random() < 0.2 and counts:
                counts[chance.choice(list(counts))] += chance.randrange(1, 4)
    return cases


@pytest.mark.parametrize("assignor", ["range", "roundrobin", "sticky", "cooperative-sticky"])
def test_our_assignors_choose_as_kafkas_do(assignor: str) -> None:
    apache.require()
    cases = drawn(assignor, random.Random(39))
    program = Path(__file__).with_name("AssignorOracle.java")
    told = subprocess.run(
        apache.program_command(program),
        input="".join(f"{case.line()}\n" for case in cases),
        text=True,
        capture_output=True,
        check=True,
    ).stdout.splitlines()
    assert len(told) == len(cases)
    differing = []
    for case, theirs in zip(cases, told, strict=True):
        ours = {word.split("=")[0]: sorted(word.split("=")[1].split(",")) for word in case.ours().split()}
        if ours != {word.split("=")[0]: sorted(word.split("=")[1].split(",")) for word in theirs.split()}:
            differing.append((case.line(), case.ours(), theirs))
    assert not differing, f"{len(differing)} of {len(cases)}: {differing[0]}"
