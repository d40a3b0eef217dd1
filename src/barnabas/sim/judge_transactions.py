"""What became of transactions in the end (T3): of each all records count or none, and as its sender was told."""

from __future__ import annotations

from collections.abc import Callable, Container

from barnabas.sim.history import History, Sent
from barnabas.sim.world import World


def transactions_are_whole(
    world: World, history: History, counts: Container[bytes], is_excused: Callable[[str, Sent], bool]
) -> None:
    """`counts` are the values that readers of what is committed are given; `is_excused` asks of a transaction's id."""
    by_transaction: dict[str, list[tuple[bytes, Sent]]] = {}
    for value, sent in history.sent.items():
        if sent.transaction and sent.offset >= 0:
            by_transaction.setdefault(sent.transaction, []).append((value, sent))
    for name, records in by_transaction.items():
        world.check("T3")
        if any(is_excused(name.partition(" ")[0], sent) for _, sent in records):
            world.waive("T3")
            continue
        counting = [value for value, _ in records if value in counts]
        outcome = records[0][1].answered
        if outcome == "aborted" and counting:
            world.violated("T3", f"transaction {name} was aborted, and {counting} count")
        elif outcome == "acknowledged" and len(counting) < len(records):
            missing = [value for value, _ in records if value not in counts]
            world.violated("T3", f"transaction {name} was committed, and {missing} do not count")
        elif counting and len(counting) < len(records):
            world.violated("T3", f"of transaction {name} only {counting} count, of {len(records)} records")
    for value, (partition, offset) in history.committed_reads.items():
        known = history.sent.get(value)
        if known is not None and known.answered == "aborted" and not is_excused(known.client, known):
            world.violated("T3", f"{value!r} at {partition}@{offset} was given to a reader, and was aborted", partition)
