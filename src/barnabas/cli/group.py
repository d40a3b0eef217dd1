"""``barnabas group``: consumer groups, their members, how far they have read, and where they go on."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from barnabas.cli.command import Argument, Group, Option
from barnabas.cli.connect import with_cluster
from barnabas.cli.group_reset import reset
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, parse_partitions, partitions_of, sorted_out
from barnabas.cli.output import CommandError, Format, print_json, print_table
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.descriptions import GroupDescription, GroupListing, MemberDescription
from barnabas.client.offsets import LATEST, CommittedOffset, ListedOffset
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

app = Group("Consumer groups, how far they have read, and where they go on.")

GroupId = Annotated[str, Argument(metavar="GROUP", complete="group")]
GroupIds = Annotated[list[str], Argument(metavar="GROUP..", complete="group")]


@app.command("list")
def list_(
    states: Annotated[
        list[str] | None, Option("--state", metavar="STATE", help="Only those in this state; may be repeated.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List groups and their states."""

    async def story(cluster: ClusterClient) -> list[GroupListing]:
        return await Admin(cluster).list_groups(states or ())

    groups = with_cluster(at, {}, story)
    if output is Format.json:
        print_json([{"group": name, "protocol_type": kind, "state": state} for name, kind, state in groups])
    else:
        print_table(["group", "protocol-type", "state"], groups)


@app.command("describe")
def describe(group: GroupId, at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """Show a group's state, members and their partitions, committed offsets and lag."""

    async def story(
        cluster: ClusterClient,
    ) -> tuple[GroupDescription, dict[TopicPartition, CommittedOffset], dict[TopicPartition, ListedOffset]]:
        admin = Admin(cluster)
        described = await admin.describe_group(group)
        if not described.exists:
            raise CommandError(f"There is no group {group}: `barnabas group list` shows those there are.")
        committed = await admin.committed_offsets(group)
        owned = [each for member in described.members for each in member.assignment]
        ends, _ = sorted_out(await admin.list_offsets(dict.fromkeys([*committed, *owned], LATEST)))
        return described, committed, ends

    described, committed, ends = with_cluster(at, {}, story)
    offsets = _offsets(described, committed, ends)
    members = [_member(each) for each in described.members]
    if output is Format.json:
        print_json(
            {
                "group": group,
                "state": described.state,
                "assignor": described.assignor,
                "coordinator": described.coordinator.broker_id,
                "members": members,
                "offsets": offsets,
            }
        )
        return
    assignor = f", assigned by {described.assignor}" if described.assignor else ""
    coordinator = described.coordinator
    print(f"group {group}: {described.state}, {len(members)} members{assignor}, coordinator {coordinator.broker_id}")
    if offsets:
        heads = ["topic", "partition", "committed", "end", "lag", "client_id", "host"]
        print_table(
            [head.replace("_", "-") for head in heads], [[offset[name] for name in heads] for offset in offsets]
        )
    if members:
        print()
        print_table(
            ["member", "client-id", "host", "partitions"],
            [
                [each["member_id"], each["client_id"], each["host"], ", ".join(each["assignment"]) or None]
                for each in members
            ],
        )


def _member(member: MemberDescription) -> dict[str, Any]:
    return {
        "member_id": member.member_id,
        "instance_id": member.instance_id,
        "client_id": member.client_id,
        "host": member.host,
        "assignment": [str(each) for each in member.assignment],
    }


def _offsets(
    described: GroupDescription,
    committed: Mapping[TopicPartition, CommittedOffset],
    ends: Mapping[TopicPartition, ListedOffset],
) -> list[dict[str, Any]]:
    """What was committed, and what a member has without having committed, each with its owner."""
    owners = {each: member for member in described.members for each in member.assignment}
    rows = []
    for each in sorted({*committed, *owners}):
        offset = committed[each].offset if each in committed else None
        end = ends[each].offset if each in ends else None
        owner = owners.get(each)
        rows.append(
            {
                "topic": each.topic,
                "partition": each.partition,
                "committed": offset,
                "end": end,
                "lag": None if offset is None or end is None else max(0, end - offset),
                "member_id": None if owner is None else owner.member_id,
                "client_id": None if owner is None else owner.client_id,
                "host": None if owner is None else owner.host,
            }
        )
    return rows


app.command("reset")(reset)


@app.command("delete-offsets")
def delete_offsets(
    group: GroupId,
    topics: Annotated[
        list[str], Option("-t", "--topic", metavar="TOPIC[:0,2]", help="May be repeated.", complete="topic")
    ],
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Have a group forget what it committed for topics that no member of it reads."""
    words = parse_partitions(topics)

    async def story(cluster: ClusterClient) -> dict[TopicPartition, KafkaError | None]:
        admin = Admin(cluster)
        if not (await admin.describe_group(group)).exists:
            raise CommandError(f"There is no group {group}: `barnabas group list` shows those there are.")
        return await admin.delete_group_offsets(group, await partitions_of(cluster, words))

    outcomes = with_cluster(at, {}, story)
    done, failed = sorted_out(outcomes)
    if output is Format.json:
        print_json(
            [
                {"topic": each.topic, "partition": each.partition, **({} if error is None else as_json(error))}
                for each, error in outcomes.items()
            ]
        )
    else:
        for each in done:
            print(f"deleted {each}")
    fail(failed)


@app.command("delete")
def delete(groups: GroupIds, at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """Delete groups that have no members, with their committed offsets."""

    async def story(cluster: ClusterClient) -> dict[str, KafkaError | None]:
        admin = Admin(cluster)
        outcomes: dict[str, KafkaError | None] = {}
        for group in groups:
            try:
                await admin.delete_group(group)
                outcomes[group] = None
            except KafkaError as error:
                outcomes[group] = error
        return outcomes

    outcomes = with_cluster(at, {}, story)
    done, failed = sorted_out(outcomes)
    if output is Format.json:
        told = [
            {"group": each, "deleted": error is None, **({} if error is None else as_json(error))}
            for each, error in outcomes.items()
        ]
        print_json(told[0] if len(told) == 1 else told)
    else:
        for group in done:
            print(f"deleted {group}")
    fail(failed)
