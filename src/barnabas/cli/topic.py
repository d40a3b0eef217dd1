"""``barnabas topic``: create, list, describe, alter, delete."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin, with_cluster
from barnabas.cli.options import HERE, OutputFormat, Reach, pairs_of
from barnabas.cli.outcomes import explained
from barnabas.cli.output import Bad, CommandError, Exit, Format, complain, numbers, print_json, print_table
from barnabas.cli.topic_offsets import offsets, trim
from barnabas.client.admin import Admin, NewTopic, ResourceType
from barnabas.client.cluster import ClusterClient
from barnabas.client.metadata import PartitionMetadata, TopicMetadata
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError

app = CommandGroup("Topics, their partitions' offsets, and deleting records.")

Names = Annotated[list[str], Argument(metavar="TOPIC..", complete="topic")]


def report_items(outcomes: dict[str, KafkaError | None], done: str, output: Format, **more: Any) -> None:
    """Prints each item's outcome; exits with 1 if one failed."""
    if output is Format.json:
        items = [
            {
                "name": name,
                "error": None if error is None else error.code.name,
                "message": None if error is None else str(error),
                **more,
            }
            for name, error in outcomes.items()
        ]
        print_json(items)
    for name, error in outcomes.items():
        if error is not None:
            complain(explained(name, error))
        elif output is Format.text:
            print(f"{done} {name}")
    if any(error is not None for error in outcomes.values()):
        raise Exit(1)


@app.command("create")
def create(
    names: Annotated[list[str], Argument(metavar="TOPIC..")],
    at: Reach = HERE,
    partitions: Annotated[
        int, Option("-p", "--partitions", help="The number of partitions; -1: the brokers' default.")
    ] = -1,
    replication_factor: Annotated[int, Option("-r", "--replication-factor", help="-1: the broker's default.")] = -1,
    config: Annotated[
        list[str] | None, Option("-c", "--config", metavar="K=V", help="A topic configuration; may be repeated.")
    ] = None,
    assignment: Annotated[
        str | None,
        Option(
            "--replica-assignment", metavar="0:1,1:2", help="The brokers of each partition, the preferred leader first."
        ),
    ] = None,
    if_not_exists: Annotated[bool, Option("--if-not-exists", help="Do not fail if the topic exists.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Create topics."""
    configs = pairs_of(config or (), "--config")
    replicas: dict[int, list[int]] = {}
    if assignment is not None:
        try:
            replicas = {
                number: [int(broker) for broker in group.split(":")]
                for number, group in enumerate(assignment.split(","))
            }
        except ValueError:
            raise CommandError(f"--replica-assignment {assignment}: expected broker ids such as 0:1,1:2.", 2) from None
    wanted = [NewTopic(name, partitions, replication_factor, configs, replicas) for name in names]
    outcomes = with_admin(at, lambda admin: admin.create_topics(wanted))
    for name, error in outcomes.items():
        if if_not_exists and error is not None and error.code is ErrorCode.TOPIC_ALREADY_EXISTS:
            outcomes[name] = None
    report_items(outcomes, "created", output)


@app.command("list")
def list_(
    at: Reach = HERE,
    internal: Annotated[bool, Option("-i", "--internal", help="Internal topics too.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """List topics."""
    topics = with_cluster(at, lambda cluster: cluster.refresh(None)).topics
    shown = [topics[name] for name in sorted(topics) if internal or not topics[name].is_internal]
    if output is Format.json:
        print_json([_summary(topic) for topic in shown])
    else:
        print_table(
            ["name", "partitions", "replicas"],
            [[topic.name, len(topic.partitions), _replication_factor(topic)] for topic in shown],
        )


_SET_FOR_TOPIC: Final = 1
"""``DescribeConfigsResponse.ConfigSource.TOPIC_CONFIG``."""
_PARTITION_HEADS: Final = ("topic", "partition", "leader", "epoch", "replicas", "isr")


def _partition_row(topic: str, partition: PartitionMetadata) -> list[object]:
    whole = len(partition.isr) == len(partition.replicas)
    isr = numbers(partition.isr)
    return [
        topic,
        partition.partition,
        partition.leader if partition.leader >= 0 else Bad("none"),
        partition.leader_epoch,
        numbers(partition.replicas),
        isr if whole else Bad(isr),
    ]


def _replication_factor(topic: TopicMetadata) -> int:
    return max((len(partition.replicas) for partition in topic.partitions.values()), default=0)


def _summary(topic: TopicMetadata) -> dict[str, Any]:
    return {
        "name": topic.name,
        "topic_id": str(topic.topic_id),
        "internal": topic.is_internal,
        "partitions": len(topic.partitions),
        "replication_factor": _replication_factor(topic),
    }


@app.command("describe")
def describe(
    names: Annotated[
        list[str] | None, Argument(metavar="TOPIC..", help="All topics by default.", complete="topic")
    ] = None,
    at: Reach = HERE,
    under_replicated: Annotated[
        bool, Option("--under-replicated-partitions", help="Only partitions with a replica out of sync.")
    ] = False,
    unavailable: Annotated[bool, Option("--unavailable-partitions", help="Only partitions without a leader.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Describe topics: leaders, replicas, ISR and configurations that were set."""

    async def story(cluster: ClusterClient) -> list[tuple[TopicMetadata, dict[str, str]]]:
        metadata = await cluster.look_up(names or None)
        found: list[tuple[TopicMetadata, dict[str, str]]] = []
        for topic in sorted(metadata.topics.values(), key=lambda topic: topic.name):
            configs: dict[str, str] = {}
            if topic.error is ErrorCode.NONE:
                entries = await Admin(cluster).describe_configs(ResourceType.TOPIC, topic.name)
                configs = {entry.name: entry.value or "" for entry in entries if entry.source == _SET_FOR_TOPIC}
            found.append((topic, configs))
        return found

    described = with_cluster(at, story)
    failed = False
    items: list[dict[str, Any]] = []
    for topic, configs in described:
        if topic.error is not ErrorCode.NONE:
            failed = True
            complain(f"{topic.name}: {topic.error.name}: `barnabas topic list` shows the topics.")
            items.append({"name": topic.name, "error": topic.error.name})
            continue
        partitions = [
            partition
            for partition in topic.partitions.values()
            if (not under_replicated or len(partition.isr) < len(partition.replicas))
            and (not unavailable or partition.leader < 0)
        ]
        items.append(
            {
                **_summary(topic),
                "configs": configs,
                "partitions": [
                    {
                        "partition": partition.partition,
                        "leader": partition.leader,
                        "leader_epoch": partition.leader_epoch,
                        "replicas": list(partition.replicas),
                        "isr": list(partition.isr),
                        "offline_replicas": list(partition.offline_replicas),
                    }
                    for partition in partitions
                ],
            }
        )
        if output is Format.text:
            if not under_replicated and not unavailable:
                print(
                    f"topic {topic.name}: {len(topic.partitions)} partitions, {_replication_factor(topic)} replicas, "
                    f"id {topic.topic_id}" + "".join(f", {key}={value}" for key, value in configs.items())
                )
            if partitions:
                print_table(_PARTITION_HEADS, [_partition_row(topic.name, partition) for partition in partitions])
    if output is Format.json:
        print_json(items)
    if failed:
        raise Exit(1)


@app.command("alter")
def alter(
    names: Names,
    at: Reach = HERE,
    partitions: Annotated[int | None, Option("-p", "--partitions", help="Raise the number of partitions.")] = None,
    config: Annotated[
        list[str] | None, Option("-c", "--config", metavar="K=V", help="Set a configuration; may be repeated.")
    ] = None,
    delete_config: Annotated[
        list[str] | None,
        Option("--delete-config", metavar="K", help="Set this configuration back to its default; may be repeated."),
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Alter topics: add partitions, change configurations."""
    changes: list[tuple[AlterOperation, str, str | None]] = [
        (AlterOperation.SET, key, value) for key, value in pairs_of(config or (), "--config").items()
    ]
    changes += [(AlterOperation.DELETE, key, None) for key in delete_config or ()]
    if partitions is None and not changes:
        raise CommandError("Nothing to alter: give --partitions, --config or --delete-config.", 2)

    report_items(with_admin(at, lambda admin: _altered(admin, names, partitions, changes)), "altered", output)


async def _altered(
    admin: Admin,
    names: Sequence[str],
    partitions: int | None,
    changes: Sequence[tuple[AlterOperation, str, str | None]],
) -> dict[str, KafkaError | None]:
    outcomes: dict[str, KafkaError | None] = dict.fromkeys(names)
    if partitions is not None:
        outcomes.update(await admin.create_partitions(dict.fromkeys(names, partitions)))
    for name in names:
        if changes and outcomes[name] is None:
            try:
                await admin.alter_configs(ResourceType.TOPIC, name, changes)
            except KafkaError as error:
                outcomes[name] = error
    return outcomes


@app.command("delete")
def delete(names: Names, at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """Delete topics and their records."""

    report_items(with_admin(at, lambda admin: admin.delete_topics(names)), "deleted", output)


app.command("offsets")(offsets)
app.command("trim")(trim)
