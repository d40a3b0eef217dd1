"""Scenarios written by hand: stories of replication that are worth telling, each with the end that it must have.

A scenario is a plan, like a drawn one, with a sentence or two for the reader and an expectation of its outcome. So it
can be replayed, told as a timeline and made into a page like any other run. An expectation reads the trace (who was
controller when, which states were committed, what was truncated) and returns what is not as told. Every invariant has
to hold as well.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, Final

from barnabas.sim.plans.plan import MS, SECOND, Action, Plan, TopicPlan
from barnabas.sim.run import Outcome, run_plan
from barnabas.sim.world.trace import Event, Happening

Expectation = Callable[[Outcome], Iterable[str]]

ORDERS: Final = "orders"
PARTITION: Final = "orders-0"


@dataclass(frozen=True, slots=True)
class Scenario:
    name: str
    title: str
    story: str
    plan: Plan
    expect: Expectation


def play(scenario: Scenario) -> tuple[Outcome, list[str]]:
    """The outcome, and what about it is not as told. When an invariant broke, the story's end means nothing."""
    outcome = run_plan(scenario.plan)
    return outcome, list(map(str, outcome.violations)) or list(scenario.expect(outcome))


# Writing a plan


def at(seconds: float, name: str, lasts: float = 0, **arguments: Any) -> tuple[float, float, str, dict[str, Any]]:
    """`name` is done at `seconds`, and undone after `lasts`."""
    return seconds, lasts, name, arguments


def plan(
    *steps: tuple[float, float, str, dict[str, Any]],
    length: float,
    brokers: int = 3,
    replication_factor: int = 3,
    more_topics: tuple[TopicPlan, ...] = (),
    configs: Mapping[str, str],
    config: Mapping[str, str] | None = None,
    seed: int = 0,
) -> Plan:
    """A plan with one topic of one partition with `configs`, and `steps`; `config` are the brokers' settings.

    The seed decides who is controller and leader at first; a story that needs others has another seed.
    """
    topic = TopicPlan(ORDERS, 1, replication_factor, configs)
    actions = tuple(
        Action(number, round(when * SECOND), name, arguments, round(lasts * SECOND))
        for number, (when, lasts, name, arguments) in enumerate(steps)
    )
    return Plan(seed, "scenario", brokers, round(length * SECOND), (topic, *more_topics), actions, config or {})


def produce(lasts: float, records: int = 200, acks: int = -1) -> tuple[float, float, str, dict[str, Any]]:
    return at(0, "produce", lasts, client="producer", topic=ORDERS, records=records, acks=acks, idempotent=acks == -1)


def consume(lasts: float) -> tuple[float, float, str, dict[str, Any]]:
    return at(0, "consume", lasts, client="consumer", topic=ORDERS, isolation="read_uncommitted")


# Looking at an outcome


def events(outcome: Outcome, kind: Happening, **fields: Any) -> Iterator[Event]:
    for event in outcome.trace:
        if event.kind is kind and all(event.fields.get(key) == value for key, value in fields.items()):
            yield event


def begun(outcome: Outcome, name: str, nth: int = 0) -> Event:
    """The plan's action of that name; its arguments name the node that it met."""
    return list(events(outcome, Happening.ACTION, name=name))[nth]


def meant(outcome: Outcome, name: str, nth: int = 0) -> str:
    return str(begun(outcome, name, nth).fields["arguments"]["node"])


def broker_id(node: str) -> int:
    return int(node.rpartition("-")[2])


def states(outcome: Outcome, partition: str = PARTITION) -> list[Event]:
    return list(events(outcome, Happening.STATE, partition=partition))


def isr_sizes(outcome: Outcome) -> list[int]:
    """The size of the ISR, each time it changed."""
    sizes: list[int] = []
    for event in states(outcome):
        size = len(event.fields["isr"])
        if not sizes or sizes[-1] != size:
            sizes.append(size)
    return sizes


def leaders(outcome: Outcome) -> list[int]:
    """The leader, each time it changed; -1 is nobody."""
    found: list[int] = []
    for event in states(outcome):
        leader = int(event.fields["leader"])
        if not found or found[-1] != leader:
            found.append(leader)
    return found


def unless(holds: bool, sentence: str) -> Iterator[str]:
    if not holds:
        yield sentence


# The plays


def _controller_failover(outcome: Outcome) -> Iterator[str]:
    first, second = meant(outcome, "kill"), ""
    killed = begun(outcome, "kill")
    for event in events(outcome, Happening.CONTROLLER):
        if event.at_ns > killed.at_ns:
            second = event.node
            took_ms = (event.at_ns - killed.at_ns) // MS
            yield from unless(took_ms < 8_000, f"it took {took_ms} ms until there was a controller again")
            break
    yield from unless(second not in ("", first), f"after {first} no other broker became controller")
    epochs = [event.fields["controller_epoch"] for event in events(outcome, Happening.CONTROLLER)]
    risen = all(later == epoch + 1 for epoch, later in pairwise(epochs))
    yield from unless(risen, f"controller epochs were {epochs}")
    yield from unless(broker_id(first) not in _isr_after(outcome, second, first), f"{first} stayed in the ISR")


def _isr_after(outcome: Outcome, controller: str, gone: str) -> list[int]:
    """The first ISR that the new controller wrote, without the broker that is gone."""
    for event in states(outcome):
        if broker_id(gone) not in event.fields["isr"]:
            return list(event.fields["isr"])
    return [broker_id(gone)]


def _zombie_controller(outcome: Outcome) -> Iterator[str]:
    zombie = meant(outcome, "pause")
    elections = list(events(outcome, Happening.CONTROLLER))
    yield from unless(len(elections) >= 2, "nobody took the office over")
    if len(elections) < 2:
        return
    successor = elections[1]
    yield from unless(successor.node != zombie, f"{zombie} was elected while it stood still")
    for event in states(outcome):
        if event.at_ns > successor.at_ns:
            epoch = event.fields["controller_epoch"]
            yield from unless(
                epoch >= successor.fields["controller_epoch"], f"the zombie wrote with epoch {epoch}: {event.words}"
            )


def _isr_shrink_and_expand(outcome: Outcome) -> Iterator[str]:
    yield from unless(isr_sizes(outcome) == [3, 2, 3], f"the ISR had {isr_sizes(outcome)} members in turn")
    yield from unless(len(leaders(outcome)) == 1, f"the leader changed: {leaders(outcome)}")


def _kip_101(outcome: Outcome) -> Iterator[str]:
    bounced = meant(outcome, "bounce")
    for event in events(outcome, Happening.TRUNCATED, partition=PARTITION):
        if event.node == bounced:
            yield f"{bounced} truncated its log after its restart: {event.words}"
    yield from unless(
        leaders(outcome)[-1] == broker_id(bounced) or broker_id(bounced) in leaders(outcome),
        f"{bounced} never led, leaders were {leaders(outcome)}",
    )


def _kip_279(outcome: Outcome) -> Iterator[str]:
    cut = list(events(outcome, Happening.TRUNCATED, partition=PARTITION))
    yield from unless(bool(cut), "nobody truncated: the logs never differed")
    yield from unless(len(leaders(outcome)) >= 3, f"there were not two fast failovers: {leaders(outcome)}")


def _last_replica_standing(outcome: Outcome) -> Iterator[str]:
    last = broker_id(meant(outcome, "kill", 2))
    found = leaders(outcome)
    yield from unless(-1 in found, f"the partition was never without a leader: {found}")
    yield from unless(found[-1] == last, f"broker-{last} was the last in sync, and broker-{found[-1]} leads")
    alone = [event for event in states(outcome) if event.fields["isr"] == [last]]
    yield from unless(bool(alone), f"broker-{last} was never the only one in sync")
    for event in states(outcome):
        yield from unless(bool(event.fields["isr"]), f"the ISR was empty: {event.words}")


def _controlled_shutdown(outcome: Outcome) -> Iterator[str]:
    leaving = meant(outcome, "shutdown")
    down = [e for e in events(outcome, Happening.PROCESS, what="down") if e.node == leaving]
    yield from unless(bool(down), f"{leaving} never went down")
    moved = [event for event in states(outcome) if event.fields["leader"] != broker_id(leaving)]
    yield from unless(bool(moved), f"{leaving} led to the end")
    if down and moved:
        yield from unless(moved[0].at_ns < down[0].at_ns, f"{leaving} was gone before another broker led")
        yield from unless(broker_id(leaving) not in moved[0].fields["isr"], f"{leaving} left and stayed in the ISR")
    yield from unless(-1 not in leaders(outcome), "the partition was without a leader")


def _session_expiry(outcome: Outcome) -> Iterator[str]:
    expired = meant(outcome, "zk-expire")
    again = [e for e in events(outcome, Happening.PROCESS, what="starts") if e.node == expired]
    yield from unless(len(again) == 1, f"{expired} was started again, though only its session had ended")
    without = [event for event in states(outcome) if broker_id(expired) not in event.fields["isr"]]
    yield from unless(bool(without), f"{expired} was never out of the ISR")


def _broker_bounce(outcome: Outcome) -> Iterator[str]:
    bounced = meant(outcome, "bounce")
    up = [e for e in events(outcome, Happening.PROCESS, what="up") if e.node == bounced]
    yield from unless(len(up) == 2, f"{bounced} came up {len(up)} times")


def _reassignment(outcome: Outcome) -> Iterator[str]:
    wanted = list(begun(outcome, "reassign").fields["arguments"]["replicas"])
    first, last = states(outcome)[0], states(outcome)[-1]
    yield from unless(first.fields["replicas"] != wanted, "there was nothing to move")
    yield from unless(first.fields["leader"] not in wanted, "the leader was not to move")
    yield from unless(list(last.fields["replicas"]) == wanted, f"the replicas are {last.fields['replicas']}")
    yield from unless(sorted(last.fields["isr"]) == sorted(wanted), f"the ISR is {last.fields['isr']}")
    yield from unless(min(isr_sizes(outcome)) >= 3, f"fewer were in sync than before: {isr_sizes(outcome)}")


def _preferred_election(outcome: Outcome) -> Iterator[str]:
    preferred = states(outcome)[0].fields["replicas"][0]
    found = leaders(outcome)
    yield from unless(found[0] == found[-1] == preferred and len(found) >= 3, f"leaders were {found}")


def _deletion_with_a_dead_broker(outcome: Outcome) -> Iterator[str]:
    dead = meant(outcome, "kill")
    back = [e for e in events(outcome, Happening.PROCESS, what="up") if e.node == dead][-1]
    gone = list(events(outcome, Happening.DELETED, partition="returns-0"))
    yield from unless(len(gone) == 1, "the topic was not deleted")
    if gone:
        yield from unless(gone[0].at_ns > back.at_ns, f"it was deleted while {dead} still had a replica of it")


def _duplicate_broker_id(outcome: Outcome) -> Iterator[str]:
    original = meant(outcome, "twin")
    refused = [e for e in events(outcome, Happening.NOTE) if "could not start" in e.words]
    yield from unless(bool(refused), "the twin was not refused")
    ended = [
        e for e in outcome.trace if e.kind is Happening.PROCESS and e.node == original and e.fields["what"] == "down"
    ]
    yield from unless(not ended, f"{original} was disturbed: {[e.words for e in ended]}")


def _unclean_election(outcome: Outcome) -> Iterator[str]:
    outsider = broker_id(meant(outcome, "kill"))
    led = [e for e in states(outcome) if e.fields["leader"] == outsider and e.fields["isr"] == [outsider]]
    yield from unless(bool(led), f"broker-{outsider}, which was not in sync, never led alone")
    cut = list(events(outcome, Happening.TRUNCATED, partition=PARTITION))
    yield from unless(bool(cut), "nothing was lost: the election was no unclean one")


_LEADER: Final = f"leader:{PARTITION}"
_FOLLOWER: Final = f"follower:{PARTITION}"
_TWO_IN_SYNC: Final = {"min.insync.replicas": "2"}
_ONE_IN_SYNC: Final = {"min.insync.replicas": "1", "unclean.leader.election.enable": "true"}

_ALL: Final = (
    Scenario(
        "controller-failover",
        "The controller dies, another broker is elected",
        "The controller is killed. Its session ends, /controller goes, the others try to create it; whoever wins "
        "raises the controller epoch by one in the same multi, reads the cluster, and elects leaders where the dead "
        "one led.",
        plan(produce(20), consume(20), at(3, "kill", 10, node="controller"), length=20, configs=_TWO_IN_SYNC),
        _controller_failover,
    ),
    Scenario(
        "zombie-controller",
        "A controller sleeps past its session and wakes up deposed",
        "The controller stands still for longer than its session lasts. Another one is elected meanwhile. When the "
        "first goes on it believes for a moment that it still rules: its writes carry the epoch it was elected with, "
        "and fail.",
        plan(
            produce(25),
            consume(25),
            at(3, "pause", 11, node="controller"),
            at(10.5, "bounce", 1, node=_FOLLOWER),
            length=25,
            configs=_TWO_IN_SYNC,
        ),
        _zombie_controller,
    ),
    Scenario(
        "isr-shrink-and-expand",
        "A follower falls behind, leaves the ISR, and comes back",
        "The link between a follower and the leader is cut for longer than replica.lag.time.max.ms. The leader "
        "proposes to the controller an ISR without it; once the link is whole the follower catches up and is proposed "
        "again.",
        plan(
            produce(30),
            consume(30),
            at(2, "partition", 17, node=_FOLLOWER, others=[_LEADER]),
            length=32,
            configs=_TWO_IN_SYNC,
        ),
        _isr_shrink_and_expand,
    ),
    Scenario(
        "kip-101",
        "A follower that restarts keeps what lies above its high watermark",
        "A follower is killed and comes back within its session, its high watermark behind what the leader had told "
        "the producer. The leader dies before the follower has fetched again. Had the follower cut its log at its own "
        "high watermark, acknowledged records would now be gone; the leader epoch tells it that nothing is to be cut.",
        plan(
            produce(20, 400),
            consume(20),
            at(5, "bounce", 0.6, node=_FOLLOWER),
            at(5.7, "kill", 11, node=_LEADER),
            length=20,
            configs=_TWO_IN_SYNC,
            seed=3,
        ),
        _kip_101,
    ),
    Scenario(
        "kip-279",
        "Two failovers in a row leave epochs that one side never saw",
        "With acks=1 and unclean election the leader dies with records that nobody else has; so does its successor, "
        "and the first leads again. The second returns with records of an epoch that the leader never saw: it has to "
        "cut to the largest epoch that both know, not to the end of its own.",
        plan(
            produce(26, 300, acks=1),
            at(2, "partition", 2, node=_FOLLOWER, others=[_LEADER]),
            at(3.5, "kill", 9, node=_LEADER),
            at(12, "kill", 9, node=_LEADER),
            length=28,
            brokers=2,
            replication_factor=2,
            configs=_ONE_IN_SYNC,
        ),
        _kip_279,
    ),
    Scenario(
        "last-replica-standing",
        "The last member of the ISR is the only one that may lead",
        "The replicas die one after the other until one is left in the ISR, and then that one dies too. The others "
        "come back first: they may lack records, so the partition stays without a leader until the last one returns.",
        plan(
            produce(20),
            consume(50),
            at(2, "kill", 40, node=_FOLLOWER),
            at(14, "kill", 30, node=_FOLLOWER),
            at(26, "kill", 30, node=_LEADER),
            length=58,
            configs=_TWO_IN_SYNC,
        ),
        _last_replica_standing,
    ),
    Scenario(
        "controlled-shutdown",
        "A broker leaves politely",
        "The leader is asked to shut down. It asks the controller first, which gives its partitions to others and "
        "takes it out of their ISRs; only then does it stop. Nobody waits for a session to end.",
        plan(produce(15), consume(15), at(3, "shutdown", 6, node=_LEADER), length=15, configs=_TWO_IN_SYNC),
        _controlled_shutdown,
    ),
    Scenario(
        "session-expiry",
        "ZooKeeper ends the session of a broker that is alive",
        "The leader's session ends although it runs. It is dead to the controller, which elects another leader; it "
        "registers again in a new session, with a new broker epoch, follows, and comes back into the ISR.",
        plan(produce(20), consume(20), at(3, "zk-expire", node=_LEADER), length=20, configs=_TWO_IN_SYNC),
        _session_expiry,
    ),
    Scenario(
        "broker-bounce",
        "A broker restarts faster than anyone notices",
        "A follower is killed and is back within its session. It waits for the old registration to go, gets a larger "
        "broker epoch, and the controller sees by that alone that this is another life, to which old requests do not "
        "apply.",
        plan(produce(20), consume(20), at(3, "bounce", 0.5, node=_FOLLOWER), length=20, configs=_TWO_IN_SYNC),
        _broker_bounce,
    ),
    Scenario(
        "reassignment",
        "A partition moves while it is written to",
        "A replica moves to a fourth broker. The partition has the old replicas and the new one until the new one is "
        "in sync; then the old one leaves the ISR and is deleted.",
        plan(
            produce(20),
            consume(20),
            at(4, "reassign", topic=ORDERS, partition=0, replicas=[2, 3, 0]),
            length=20,
            brokers=4,
            configs=_TWO_IN_SYNC,
            seed=9,
        ),
        _reassignment,
    ),
    Scenario(
        "preferred-election",
        "Leadership goes home",
        "The preferred leader dies, another one leads. When it is back and in sync an operator asks for a preferred "
        "election, and the first of the assigned replicas leads again.",
        plan(
            produce(30),
            consume(30),
            at(2, "kill", 8, node=_LEADER),
            at(26, "elect", topic=ORDERS, unclean=False),
            length=30,
            configs=_TWO_IN_SYNC,
        ),
        _preferred_election,
    ),
    Scenario(
        "deletion-with-a-dead-broker",
        "A topic is not deleted before all of its replicas are",
        "A topic is deleted while a broker with one of its replicas is down. The deletion waits for the broker: only "
        "when it is back and has removed its replica do the topic's znodes go, and the name is free.",
        plan(
            produce(22),
            at(2, "kill", 10, node="broker-2"),
            at(4, "delete-topic", topic="returns"),
            length=24,
            more_topics=(TopicPlan("returns", 1, 3),),
            configs=_TWO_IN_SYNC,
        ),
        _deletion_with_a_dead_broker,
    ),
    Scenario(
        "duplicate-broker-id",
        "A second broker with the same id is refused",
        "Somebody starts another broker under an id that is in use. It waits whether the registration is a leftover; "
        "as it stays, the second one gives up and says why. The first is not disturbed.",
        plan(produce(25), consume(25), at(3, "twin", 20, node="broker-1"), length=25, configs=_TWO_IN_SYNC,
             config={"barnabas.registration.timeout.ms": "9000"}),
        _duplicate_broker_id,
    ),
    Scenario(
        "unclean-election",
        "Available again, at the price of records",
        "The only member of the ISR dies while a replica that is not in sync comes back. The topic allows unclean "
        "election: the outsider leads, alone, and what only the dead one had is cut from its log when it returns.",
        plan(
            produce(34, 300, acks=1),
            at(2, "kill", 14, node=_FOLLOWER),
            at(15, "kill", 12, node=_LEADER),
            length=36,
            brokers=2,
            replication_factor=2,
            configs=_ONE_IN_SYNC,
        ),
        _unclean_election,
    ),
)  # fmt: skip

SCENARIOS: Final = {scenario.name: scenario for scenario in _ALL}
