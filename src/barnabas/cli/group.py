"""``barnabas group``: consumer groups, their members, their lag, and resetting their offsets."""

from __future__ import annotations

from typing import Annotated

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin, with_cluster
from barnabas.cli.group_describe import describe
from barnabas.cli.group_reset import reset
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, parse_partitions, partitions_of, sorted_out
from barnabas.cli.output import CommandError, Format, print_json, print_table
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition

app = CommandGroup("Consumer groups: their members, their lag, and resetting their offsets.")

GroupId = Annotated[str, Argument(metavar="GROUP", complete="group")]
GroupIds = Annotated[list[str], Argument(metavar="GROUP..", complete="group")]


@app.command("list")
def list_(
    states: Annotated[
        list[str] | None,
        Option(
            "--state",
            metavar="STATE",
            help="Only groups in this state; may be repeated.",
            choices=("Stable", "PreparingRebalance", "CompletingRebalance", "Empty", "Dead"),
        ),
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List groups and their states."""

    groups = with_admin(at, lambda admin: admin.list_groups(states or ()))
    if output is Format.json:
        print_json([{"group": name, "protocol_type": kind, "state": state} for name, kind, state in groups])
    else:
        print_table(["group", "protocol-type", "state"], groups)


app.command("describe")(describe)
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
    """Delete a group's committed offsets of topics that none of its members reads."""
    words = parse_partitions(topics)

    async def story(cluster: ClusterClient) -> dict[TopicPartition, KafkaError | None]:
        admin = Admin(cluster)
        if not (await admin.describe_group(group)).exists:
            raise CommandError(f"There is no group {group}: `barnabas group list` shows the groups.")
        return await admin.delete_group_offsets(group, await partitions_of(cluster, words))

    outcomes = with_cluster(at, story)
    done, failed = sorted_out(outcomes)
    if output is Format.json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    **({} if error is None else as_json(error)),
                }
                for partition, error in outcomes.items()
            ]
        )
    else:
        for partition in done:
            print(f"deleted {partition}")
    fail(failed)


@app.command("delete")
def delete(groups: GroupIds, at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """Delete groups without members, and their committed offsets."""

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

    outcomes = with_cluster(at, story)
    done, failed = sorted_out(outcomes)
    if output is Format.json:
        told = [
            {"group": group, "deleted": error is None, **({} if error is None else as_json(error))}
            for group, error in outcomes.items()
        ]
        print_json(told[0] if len(told) == 1 else told)
    else:
        for group in done:
            print(f"deleted {group}")
    fail(failed)
