"""``barnabas rehearse``: shows what a fault or an operation would do: the real controller runs on a copy of the
cluster's znodes."""

from __future__ import annotations

import textwrap
from collections.abc import Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Annotated, Any, Final

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import CommandError, Exit, Format, UsageError, numbers, print_json, table
from barnabas.cli.rehearse_migration import MIGRATION, rehearse_quietly, tell_migration
from barnabas.cli.zookeeper import HERE, ZooKeeperReach, with_zookeeper
from barnabas.model.config import parse_properties
from barnabas.model.ids import NO_BROKER
from barnabas.sim.rehearsal.forecast import Forecast, PartitionChange
from barnabas.sim.rehearsal.picture import page
from barnabas.sim.rehearsal.steps import parse_steps
from barnabas.sim.rehearsal.tree import (
    ClusterTree,
    RehearsalError,
    cluster_tree,
    copied_of,
    export_lines,
    read_cluster_tree,
    read_whole_tree,
)
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.check.finding import counted, listed
from barnabas.zk.inspection.transfer import ExportedZNode, TransferError, parse_export
from barnabas.zk.kafka.znode_json import ZNodeError

OFFLINE: Final = 3
"""The exit code when a partition goes offline."""
ROWS_MAX: Final = 20


def rehearse_(
    steps: Annotated[
        list[str] | None,
        Argument(
            metavar="[STEP..]",
            help="Steps, done one after the other: kill N, drain N (a controlled shutdown), start N, rack NAME (the "
            "rack is lost), failover (of the controller), elect (preferred leaders), reassign PLAN.json. N: broker ids "
            "separated by commas, or `controller`. Or migration alone: the obstacles to a migration to KRaft.",
        ),
    ] = None,
    at: ZooKeeperReach = HERE,
    file: Annotated[
        str | None,
        Option("--file", metavar="TREE", help="Read the znodes from a file that --save or `barnabas zk export` wrote."),
    ] = None,
    save: Annotated[
        str | None,
        Option("--save", metavar="TREE", help="Save the znodes to a file, without secrets, to rehearse elsewhere."),
    ] = None,
    config: Annotated[
        str | None,
        Option(
            "--config", metavar="FILE", help="The brokers' server.properties, for defaults that are not in ZooKeeper."
        ),
    ] = None,
    html: Annotated[
        str | None, Option("--html", metavar="PAGE", help="Also write the result as an HTML page with pictures.")
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show what a fault or an operation would do: the controller runs on a copy of the znodes.

    Nothing is written to the cluster. Exits with 3 when a partition goes offline.
    """
    if file is not None and at.zookeeper is not None:
        raise UsageError("--file and --zookeeper cannot be combined.")
    properties = parse_properties(_text(config)) if config else {}
    try:
        if steps == [MIGRATION]:
            if save is not None or html is not None:
                raise UsageError(f"{MIGRATION} cannot be combined with --save or --html.")
            whole, source = _read(file, at, read_whole_tree)
            tell_migration(source, whole, properties, output)
            return
        read, source = _read(file, at, read_cluster_tree)
        znodes = copied_of(read)
        tree = cluster_tree(source, znodes)
        if save is not None:
            _write(save, "".join(f"{line}\n" for line in export_lines(source, znodes)))
        forecasts = rehearse_quietly(tree, parse_steps(steps or (), tree, _text), properties)
    except ZNodeError as error:
        raise CommandError(f"{error}: `barnabas zk check` explains how to repair it.") from None
    except RehearsalError as error:
        raise CommandError(str(error), 2) from None
    shown = _shown(forecasts)
    if html is not None:
        _write(html, page(f"{_summary(tree)}", shown))
    if output is Format.json:
        print_json(_report(tree, shown))
    else:
        print(_summary(tree))
        for forecast in shown:
            print()
            print(*_told(forecast), sep="\n")
    if any(forecast.newly_offline() for forecast in forecasts):
        raise Exit(OFFLINE)


def _read(
    file: str | None,
    at: ZooKeeperReach,
    story: Callable[[ZooKeeperClient], Awaitable[tuple[ExportedZNode, ...]]],
) -> tuple[tuple[ExportedZNode, ...], str]:
    """The znodes that `story` reads from a ZooKeeper, or those in a file; and the source's name."""
    if file is None:
        place = at.where()
        return with_zookeeper(place, story), place.connect
    try:
        with open(file, "rb") as lines:
            return tuple(parse_export(lines)), file
    except OSError as error:
        raise CommandError(f"{file} cannot be read ({error.strerror}).") from None
    except TransferError as error:
        raise CommandError(f"{file}: {error}") from None


def _text(file: str) -> str:
    try:
        return Path(file).read_text()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{file} cannot be read ({getattr(error, 'strerror', None) or 'no text'}).") from None


def _write(file: str, text: str) -> None:
    try:
        Path(file).write_text(text)
    except OSError as error:
        raise CommandError(f"{file} cannot be written ({error.strerror}).") from None


def _shown(forecasts: Sequence[Forecast]) -> list[Forecast]:
    """The first forecast is what the controller does without any step. If it does nothing, only the steps' forecasts
    are shown."""
    now, *steps = forecasts
    return [now, *steps] if not steps or any(True for _ in now.changes()) else steps


def _summary(tree: ClusterTree) -> str:
    partitions = tree.state.partitions
    topics = len({partition.topic for partition in partitions})
    controller = "none" if tree.state.controller == NO_BROKER else str(tree.state.controller)
    return (
        f"{counted(len(tree.brokers), 'broker')} ({numbers(tree.state.brokers)}), controller {controller}, "
        f"{counted(topics, 'topic')}, {counted(len(partitions), 'partition')} read from {tree.source}"
    )


def _told(forecast: Forecast) -> Iterator[str]:
    before, after = forecast.before.controller, forecast.after.controller
    offline, under = forecast.newly_offline(), forecast.newly_under_min_isr()
    leaders, isrs, unclean = forecast.new_leaders(), forecast.new_isrs(), forecast.unclean()
    yield f"{forecast.step}:"
    yield f"  controller     {_id(after)}" + (", as before" if before == after else f", was {_id(before)}")
    yield f"  new leaders    {len(leaders)}"
    yield f"  new ISRs       {len(isrs)}"
    yield from _list("offline", offline, len(forecast.offline()))
    yield from _list("under min ISR", under, len(forecast.under_min_isr()))
    if unclean:
        yield from _list("records lost", unclean, len(unclean))
    yield "  requests       " + (
        ", ".join(
            f"{kind} {cost.requests}" + (f" ({counted(cost.partitions, 'partition')})" if cost.partitions else "")
            for kind, cost in forecast.costs.items()
        )
        or "none"
    )
    yield f"  znode writes   {forecast.znodes_written}"
    for note in forecast.notes:
        yield textwrap.fill(note, 120, initial_indent="  ", subsequent_indent="  ", break_on_hyphens=False)
    changes = sorted(forecast.changes(), key=lambda change: (change.after is None or change.after.leader >= 0, change))
    if changes:
        yield from table(["  partition", "leader", "isr", "replicas"], [_row(change) for change in changes[:ROWS_MAX]])
        if len(changes) > ROWS_MAX:
            yield f"  .. and {len(changes) - ROWS_MAX} more: --format json has all"


def _list(head: str, partitions: Sequence[Any], now: int) -> Iterator[str]:
    more = now - len(partitions)
    yield (
        f"  {head:15}{len(partitions)}"
        + (f": {listed(sorted(partitions))}" if partitions else "")
        + (f" (beside {more} before)" if more > 0 else "")
    )


def _id(broker_id: int) -> str:
    return "none" if broker_id == NO_BROKER else str(broker_id)


def _row(change: PartitionChange) -> list[str]:
    def both(before: str | None, after: str | None) -> str:
        return f"{after}" if before == after else f"{before or 'none'} > {after or 'none'}"

    old, new = change.before, change.after
    return [
        f"  {change.partition}",
        both(None if old is None else _id(old.leader), None if new is None else _id(new.leader)),
        both(None if old is None else numbers(old.isr), None if new is None else numbers(new.isr)),
        both(None if old is None else numbers(old.replicas), None if new is None else numbers(new.replicas)),
    ]


def _report(tree: ClusterTree, forecasts: Sequence[Forecast]) -> dict[str, Any]:
    return {
        "source": tree.source,
        "brokers": list(tree.state.brokers),
        "controller": tree.state.controller,
        "racks": {rack: list(brokers) for rack, brokers in tree.racks.items()},
        "partitions": len(tree.state.partitions),
        "steps": [forecast.as_json() for forecast in forecasts],
    }
