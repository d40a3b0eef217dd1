"""Whether a group's committed offsets are what its bookkeeper wrote last (G1)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from barnabas.client.cluster import ClusterClient
from barnabas.client.group import committed_offsets
from barnabas.model.ids import TopicPartition
from barnabas.sim.clients.bookkeeper import NOTHING, Bookkeeper
from barnabas.sim.clients.workload import Workload

if TYPE_CHECKING:
    from barnabas.sim.judges.checkers import Checkers


LOOKED_FOR: Final = "offsets.retention.check.interval.ms"


async def books_are_right(checkers: Checkers, workload: Workload, cluster: ClusterClient) -> None:
    for keeper in workload.books:
        wanted = {**keeper.written, **keeper.perhaps}
        found = await committed_offsets(cluster, keeper.group, sorted(wanted)) if wanted else {}
        for place, offset in found.items():
            checkers.world.check("G1")
            kept_in, right = checkers.offsets_partition(keeper.group), keeper.written.get(place, NOTHING)
            if checkers.gone_ns(place.topic) >= 0 or checkers.logs.losses.may_be_lost(kept_in, owner=keeper.group):
                checkers.world.waive("G1")
            elif offset in keeper.perhaps.get(place, {}) or (offset == NOTHING and place in keeper.brief):
                continue
            elif offset == right:
                is_kept_too_long(checkers, keeper, place, offset)
            elif offset == keeper.unburied.get(place):
                checkers.world.waive("G1")
            else:
                sentence = f"group {keeper.group!r} has {offset} for {place}, and {right} was written last"
                checkers.world.violated("G1", sentence, str(place))


def is_kept_too_long(checkers: Checkers, keeper: Bookkeeper, place: TopicPartition, offset: int) -> None:
    """G8: an offset with a retention time of its own is gone once brokers have looked for expired offsets."""
    world = checkers.world
    if place in keeper.brief and LOOKED_FOR in checkers.plan.config and not world.clocks_touched:
        world.check("G8")
        world.violated("G8", f"group {keeper.group!r} has {offset} for {place}, which should have expired", str(place))
