"""``barnabas spark lag``: the lag of groups and streaming queries."""

from __future__ import annotations

import sys
import time
from typing import Annotated, Final

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.output import Format, complain, print_json, print_table
from barnabas.cli.spark_run import reach

_WATCH_INTERVAL_S: Final = 2.0
_CLEAR: Final = "\x1b[H\x1b[2J"


def lag(
    groups: Annotated[list[str] | None, Argument(metavar="GROUP..", help="All groups by default.")] = None,
    topics: Annotated[
        list[str] | None, Option("--topic", metavar="TOPIC", help="Only these topics; may be repeated.")
    ] = None,
    everything: Annotated[bool, Option("--all", help="Also show the groups of queries without a groupId.")] = False,
    watch: Annotated[
        bool, Option("--watch", help="Show it again every two seconds, until the command is interrupted.")
    ] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show how far groups and streaming queries are behind, in records and seconds. Needs no JVM."""
    servers, _ = reach(at, topics)
    try:
        while True:
            _show(servers, groups, topics, everything, output)
            if not watch:
                return
            time.sleep(_WATCH_INTERVAL_S)
            if output is Format.text:
                print(_CLEAR if sys.stdout.isatty() else "")
    except KeyboardInterrupt:
        if not watch:
            raise


def _show(
    servers: dict[str, str], groups: list[str] | None, topics: list[str] | None, everything: bool, output: Format
) -> None:
    from barnabas.spark.jobs import lag as job

    left_out: list[str] = []
    if not groups:
        groups, automatic = job.chosen_groups(servers)
        groups, left_out = ([*groups, *automatic], []) if everything else (groups, automatic)
    found = job.lag(servers, groups, topics)
    if output is Format.json:
        print_json([partition._asdict() for partition in found])
    else:
        print_table(
            ["group", "topic", "partition", "committed", "end", "lag", "behind", "lost"],
            [
                [
                    *partition[:6],
                    "" if partition.behind_s is None else f"{partition.behind_s:,.1f} s",
                    partition.lost or "",
                ]
                for partition in found
            ],
        )
        if left_out:
            complain(f"{len(left_out)} groups of queries without a groupId are left out: --all shows them.")
    sys.stdout.flush()
