"""Watches what followers ask for: R30, that a fetch session is asked for all that its follower wants, and no more.

A request of a session names what has changed, and the leader remembers the rest. A partition that is not named, or that
is forgotten in the request that names it, is not fetched until something else changes of it; one that nobody wants is
fetched in vain, and its follower looks alive. Here the requests of each session are added up.
"""

from __future__ import annotations

from typing import Any, Final, TypeAlias

from barnabas.model.ids import ZERO_UUID, Uuid
from barnabas.replica.fetch_session_handler import FetchSessionHandler
from barnabas.sim.probes import Probes, node
from barnabas.sim.world import World
from barnabas.wire.messages.fetch import FetchRequest

FIRST_EPOCH: Final = (0, -1)
"""Of requests that name everything (KIP-227)."""
Key: TypeAlias = tuple[Uuid | str, int]


class FetchSessionWatch:
    def __init__(self, world: World, probes: Probes) -> None:
        self.world = world
        self._asked: dict[FetchSessionHandler, dict[Key, None]] = {}
        probes.after(FetchSessionHandler, "build", self._built)
        probes.after(FetchSessionHandler, "build_one", self._built_one)

    def _built(self, request: tuple[list[Any], list[Any], int, int], session: FetchSessionHandler) -> None:
        topics, forgotten, _, epoch = request
        asked = {} if epoch in FIRST_EPOCH else self._asked.get(session, {})
        for topic in topics:
            asked.update(((_name(topic), each.partition), None) for each in topic.partitions)
        for topic in forgotten:
            for number in topic.partitions:
                asked.pop((_name(topic), number), None)
        self._asked[session] = asked
        self._is_what_is_wanted(session, asked)

    def _built_one(self, _: int, session: FetchSessionHandler, key: Key) -> None:
        asked = self._asked.setdefault(session, {})
        asked[key] = None
        self._is_what_is_wanted(session, asked)

    def _is_what_is_wanted(self, session: FetchSessionHandler, asked: dict[Key, None]) -> None:
        self.world.check("R30")
        if asked.keys() != session.wanted.keys():
            wrong = sorted(f"{name}-{number}" for name, number in asked.keys() ^ session.wanted.keys())
            self.world.violated(
                "R30", f"{node()} has asked for {len(asked)} partitions in a session and wants {len(session.wanted)}; "
                f"one of them alone has {wrong}", node=node(),
            )  # fmt: skip


def _name(topic: FetchRequest.FetchTopic | FetchRequest.ForgottenTopic) -> Uuid | str:
    return topic.topic_id if topic.topic_id != ZERO_UUID else topic.topic or ""
