"""Converts a simulated run to a history, which the view shows like that of a running cluster.

The simulator sees every broker, so it computes followers' lag from their own logs, not from their leaders' knowledge.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from barnabas.sim.timeline import Picture, broker_id
from barnabas.sim.world.trace import Event, Happening
from barnabas.web.history import HISTORY_BYTES_MAX, SeenHistory, broker_fact, leader_fact, partition_fact

_MOVES: Final = (Happening.LEADING, Happening.FOLLOWING, Happening.LOG, Happening.TRUNCATED)
_FACTS: Final = (
    *_MOVES,
    Happening.PROCESS,
    Happening.CONTROLLER,
    Happening.RESIGNED,
    Happening.STATE,
    Happening.DELETED,
)
"""The events that facts show; any other becomes a line."""
_ALL_OF_IT_MS: Final = 2**53


def history_of(trace: Iterable[Event], made_by: str) -> SeenHistory:
    history = SeenHistory(made_by, 0, bytes_max=HISTORY_BYTES_MAX, kept_ms=_ALL_OF_IT_MS)
    picture = Picture()
    for event in trace:
        picture.take(event)
        ms = event.at_ns // 1_000_000
        kind = event.kind
        if kind is Happening.PROCESS and event.node.startswith("broker-"):
            up = not picture.is_down(event.node)
            fact = broker_fact(str(event.fields["what"]), None, up=up)
            history.note(ms, f"broker/{broker_id(event.node)}", fact)
        elif kind in (Happening.CONTROLLER, Happening.RESIGNED):
            seen = (
                {"id": broker_id(picture.controller), "epoch": picture.controller_epoch} if picture.controller else None
            )
            history.note(ms, "controller", seen)
        elif kind is Happening.STATE:
            name = str(event.fields["partition"])
            known = picture.partitions[name]
            fact = partition_fact(known.leader, known.leader_epoch, known.isr, known.replicas)
            history.note(ms, f"partition/{name}", fact)
        elif kind is Happening.DELETED:
            for of in ("partition", "offsets"):
                history.note(ms, f"{of}/{event.fields['partition']}", None)
        if kind in _MOVES or kind is Happening.STATE:
            _note_offsets(history, ms, picture, str(event.fields["partition"]))
        if kind not in _FACTS:
            history.line(
                ms, f"{event.node}: {event.words}" if event.node and event.node not in event.words else event.words
            )
    return history


def _note_offsets(history: SeenHistory, ms: int, picture: Picture, partition: str) -> None:
    """The offsets that the partition's leader has, while there is a leader."""
    known = picture.partitions.get(partition)
    leader = None if known is None else picture.replicas.get((f"broker-{known.leader}", partition))
    if known is None or leader is None:
        return
    followers = {
        follower: replica.log_end_offset
        for follower in known.replicas
        if follower != known.leader and (replica := picture.replicas.get((f"broker-{follower}", partition))) is not None
    }
    history.note(ms, f"offsets/{partition}", leader_fact(leader.high_watermark, leader.log_end_offset, followers))
