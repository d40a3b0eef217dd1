"""Makes a failing plan small: fewer actions, shorter, simpler, as long as the same invariant breaks.

Delta debugging over the plan's values, never over its seed: an action that is dropped disturbs no other, because each
draws from a stream named after its own number. In turn, until nothing helps any more:

- *drop*: halves of the actions, then quarters, down to single ones (Zeller's ddmin);
- *simplify*: one partition instead of several, fewer brokers, fewer records, one link instead of many;
- *shorten*: the run ends right after what broke it; actions last half as long; times become round.

Every step is a run of the simulator. The caller says by `more` when there is no time for another one; what was reached
by then is returned.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, TypeVar

from barnabas.sim.plans.plan import MS, SECOND, Action, Plan
from barnabas.sim.world.trace import Violation

T = TypeVar("T")

Run = Callable[[Plan], Sequence[Violation]]
"""Carries a plan out and returns the violations."""


@dataclass(frozen=True, slots=True)
class Shrunk:
    """`plan` breaks `invariant` as the original plan did; it took `runs` to find it."""

    plan: Plan
    invariant: str
    runs: int
    finished: bool
    """False where time ran out before no step helped any more."""


def shrink(
    plan: Plan,
    invariant: str,
    run: Run,
    *,
    more: Callable[[], bool] = lambda: True,
    on_step: Callable[[Plan, int], None] = lambda plan, runs: None,
) -> Shrunk:
    """The smallest plan found that still breaks `invariant`. `on_step` is told of each smaller one."""
    return _Shrinking(plan, invariant, run, more, on_step).shrunk()


class _OutOfTime(Exception):
    """`more` returned False."""


class _Shrinking:
    def __init__(
        self,
        plan: Plan,
        invariant: str,
        run: Run,
        more: Callable[[], bool],
        on_step: Callable[[Plan, int], None],
    ) -> None:
        self.plan = plan
        self.invariant = invariant
        self.runs = 0
        self._run = run
        self._more = more
        self._on_step = on_step
        self._tried: set[str] = set()

    def shrunk(self) -> Shrunk:
        finished = True
        try:
            while self._drop() | self._simplify() | self._shorten():
                pass
        except _OutOfTime:
            finished = False
        return Shrunk(self.plan, self.invariant, self.runs, finished)

    def _accept(self, candidate: Plan) -> bool:
        """Whether `candidate` fails in the same way; if so it is the plan from here on."""
        key = candidate.dumps()
        if candidate == self.plan or key in self._tried:
            return False
        if not self._more():
            raise _OutOfTime
        self._tried.add(key)
        self.runs += 1
        if all(violation.invariant != self.invariant for violation in self._run(candidate)):
            return False
        self.plan = candidate
        self._on_step(candidate, self.runs)
        return True

    def _drop(self) -> bool:
        """Drops actions that are not needed. True when there were any."""
        before = len(self.plan.actions)
        size = max(1, before // 2)
        while True:
            start = 0
            while start < len(self.plan.actions):
                actions = self.plan.actions
                if not self._accept(self.plan.with_actions(actions[:start] + actions[start + size :])):
                    start += size
            if size == 1:
                return len(self.plan.actions) < before
            size = max(1, size // 2)

    def _simplify(self) -> bool:
        return any(
            [self._accept_first(simpler_plan) for simpler_plan in _simpler_plans(self.plan)]
            + [self._simplify_actions()]
        )

    def _simplify_actions(self) -> bool:
        return self._each_action(_simpler_actions)

    def _shorten(self) -> bool:
        shorter = self._accept_first(
            replace(self.plan, length_ns=length_ns) for length_ns in _shorter_lengths(self.plan)
        )
        return self._each_action(_shorter_actions) | shorter

    def _each_action(self, simpler: Callable[[Action], Iterator[Action]]) -> bool:
        changed = False
        for number in [action.number for action in self.plan.actions]:
            progress = True
            while progress:
                (place,) = [at for at, action in enumerate(self.plan.actions) if action.number == number]
                actions = self.plan.actions
                progress = self._accept_first(
                    self.plan.with_actions((*actions[:place], simpler_action, *actions[place + 1 :]))
                    for simpler_action in simpler(actions[place])
                )
                changed |= progress
        return changed

    def _accept_first(self, candidates: Plan | Iterator[Plan]) -> bool:
        return any(
            self._accept(candidate) for candidate in ([candidates] if isinstance(candidates, Plan) else candidates)
        )


def _simpler_plans(plan: Plan) -> Iterator[Plan]:
    if any(topic.partitions > 1 for topic in plan.topics):
        yield replace(plan, topics=tuple(replace(topic, partitions=1) for topic in plan.topics))
    if len(plan.topics) > 1:
        named = [str(action.arguments.get("topic", "")) for action in plan.actions]
        kept = tuple(topic for topic in plan.topics if topic.name in named)
        if kept:
            yield replace(plan, topics=kept)
    if plan.config:
        yield replace(plan, config={})
    if plan.slices:
        yield replace(plan, slices=0)
    fewer = plan.brokers - 1
    needed = max((topic.replication_factor for topic in plan.topics), default=1)
    if fewer >= needed and f"broker-{fewer}" not in plan.dumps():
        yield replace(plan, brokers=fewer)


def _shorter_lengths(plan: Plan) -> Iterator[int]:
    """Lengths to try: a second after the last action begins, then half the length; never before the last action."""
    last_ns = max((action.at_ns for action in plan.actions), default=0)
    for length_ns in (last_ns + SECOND, plan.length_ns // 2, plan.length_ns * 3 // 4):
        rounded = -(-max(length_ns, last_ns + 1) // SECOND) * SECOND
        if rounded < plan.length_ns:
            yield rounded


def _simpler_actions(action: Action) -> Iterator[Action]:
    for key, value in action.arguments.items():
        for simpler in _simpler_values(key, value):
            yield replace(action, arguments={**action.arguments, key: simpler})


def _simpler_values(key: str, value: Any) -> Iterator[Any]:
    if isinstance(value, list) and len(value) > 1:
        for at in range(len(value)):
            yield value[:at] + value[at + 1 :]
    elif key == "records" and isinstance(value, int) and value > 1:
        yield from (1, value // 4, value // 2)


def _shorter_actions(action: Action) -> Iterator[Action]:
    if action.duration_ns > 1:
        for divisor in (10, 2):
            yield replace(action, duration_ns=max(1, _round(action.duration_ns // divisor)))
        yield replace(action, duration_ns=_round(action.duration_ns))
    yield replace(action, at_ns=action.at_ns // SECOND * SECOND)
    yield replace(action, at_ns=_round(action.at_ns))


def _round(ns: int) -> int:
    """To seconds where there are some, else to a tenth of a second, else to a millisecond."""
    for unit in (SECOND, SECOND // 10, MS):
        if ns >= unit:
            return ns // unit * unit
    return ns
