"""``barnabas group``: consumer groups, their members and how far they have read."""

from __future__ import annotations

from typing import Annotated, Any

import typer

from barnabas.cli.connect import with_cluster
from barnabas.cli.output import Format, print_json, print_table
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.group import committed_offsets
from barnabas.client.offsets import LATEST
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Consumer groups and how far they have read.")

Bootstrap = Annotated[
    str | None, typer.Option("-b", "--bootstrap", "--bootstrap-server", metavar="H:P,..", help="Bootstrap servers.")
]
OutputFormat = Annotated[Format, typer.Option("--format", help="Text for people or JSON for programs.")]
Group = Annotated[str, typer.Argument(metavar="GROUP")]


@app.command("list")
def list_(bootstrap: Bootstrap = None, output: OutputFormat = Format.text) -> None:
    """List groups and their states."""

    async def story(cluster: ClusterClient) -> list[tuple[str, str, str]]:
        return await Admin(cluster).list_groups()

    groups = with_cluster(bootstrap, {}, story)
    if output is Format.json:
        print_json([{"group": name, "protocol_type": kind, "state": state} for name, kind, state in groups])
    else:
        print_table(["group", "protocol-type", "state"], groups)


@app.command()
def describe(group: Group, bootstrap: Bootstrap = None, output: OutputFormat = Format.text) -> None:
    """Show a group's state, members, committed offsets and lag."""

    async def story(cluster: ClusterClient) -> tuple[Any, dict[TopicPartition, int], dict[TopicPartition, int]]:
        described = await Admin(cluster).describe_group(group)
        metadata = await cluster.refresh(None)
        partitions = [
            each
            for name, topic in metadata.topics.items()
            if not topic.is_internal and topic.error is ErrorCode.NONE
            for each in metadata.partitions(name)
        ]
        committed = {
            each: offset
            for each, offset in (await committed_offsets(cluster, group, partitions)).items()
            if offset >= 0
        }
        listed = await cluster.list_offsets(dict.fromkeys(committed, LATEST)) if committed else {}
        return described, committed, {each: found.offset for each, found in listed.items()}

    described, committed, ends = with_cluster(bootstrap, {}, story)
    offsets = [
        {
            "topic": each.topic,
            "partition": each.partition,
            "committed": offset,
            "end": ends[each],
            "lag": max(0, ends[each] - offset),
        }
        for each, offset in sorted(committed.items())
    ]
    members = [
        {"member_id": each.member_id, "client_id": each.client_id, "host": each.client_host}
        for each in described.members
    ]
    if output is Format.json:
        state = described.group_state
        print_json({"group": group, "state": state, "members": members, "offsets": offsets})
        return
    print(f"group {group}: {described.group_state}, {len(members)} members")
    print_table(
        ["topic", "partition", "committed", "end", "lag"],
        [[each["topic"], each["partition"], each["committed"], each["end"], each["lag"]] for each in offsets],
    )


@app.command()
def delete(group: Group, bootstrap: Bootstrap = None, output: OutputFormat = Format.text) -> None:
    """Delete a group that has no members, with its committed offsets."""

    async def story(cluster: ClusterClient) -> None:
        await Admin(cluster).delete_group(group)

    with_cluster(bootstrap, {}, story)
    if output is Format.json:
        print_json({"group": group, "deleted": True})
    else:
        print(f"deleted {group}")
