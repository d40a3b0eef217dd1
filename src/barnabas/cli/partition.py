"""``barnabas partition``: the replicas, leaders and elections of partitions."""

from __future__ import annotations

from typing import Annotated

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin, with_cluster
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import partitions_as_json, report_partitions
from barnabas.cli.output import CommandError, Format, numbers, print_json, print_table
from barnabas.client.cluster import ClusterClient
from barnabas.client.metadata import ClusterMetadata
from barnabas.client.offsets import EARLIEST, LATEST, ListedOffset
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.model.leadership import ElectionType

app = CommandGroup("Leaders, replicas and elections of partitions.")


@app.command("list")
def list_(
    topics: Annotated[
        list[str] | None, Argument(metavar="TOPIC..", help="All topics by default.", complete="topic")
    ] = None,
    at: Reach = HERE,
    offsets: Annotated[
        bool, Option("--offsets", help="Also show first and last offsets, asked from the leaders.")
    ] = False,
    output: OutputFormat = Format.text,
) -> None:
    """List partitions with leader, epoch, replicas and ISR."""
    Listed = dict[TopicPartition, ListedOffset]

    async def story(cluster: ClusterClient) -> tuple[ClusterMetadata, Listed, Listed]:
        metadata = await cluster.look_up(topics or None)
        for topic in metadata.topics.values():
            if topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, f"topic {topic.name}: {topic.error.name}")
        if not offsets:
            return metadata, {}, {}
        led = [
            partition
            for name in metadata.topics
            for partition in metadata.partitions(name)
            if metadata.leader(partition) >= 0
        ]
        first = await cluster.list_offsets(dict.fromkeys(led, EARLIEST))
        return metadata, first, await cluster.list_offsets(dict.fromkeys(led, LATEST))

    metadata, first, last = with_cluster(at, story)
    rows = []
    items = []
    for name in sorted(metadata.topics):
        for partition in metadata.topics[name].partitions.values():
            where = TopicPartition(name, partition.partition)
            row = [
                name,
                partition.partition,
                partition.leader,
                partition.leader_epoch,
                numbers(partition.replicas),
                numbers(partition.isr),
            ]
            item = {
                "topic": name,
                "partition": partition.partition,
                "leader": partition.leader,
                "leader_epoch": partition.leader_epoch,
                "replicas": list(partition.replicas),
                "isr": list(partition.isr),
            }
            if offsets:
                start = first[where].offset if where in first else None
                end = last[where].offset if where in last else None
                row += ["-" if start is None else start, "-" if end is None else end]
                item.update(start=start, end=end)
            rows.append(row)
            items.append(item)
    if output is Format.json:
        print_json(items)
    else:
        heads = ["topic", "partition", "leader", "epoch", "replicas", "isr", *(["start", "end"] if offsets else [])]
        print_table(heads, rows)


@app.command("elect")
def elect(
    partitions: Annotated[
        list[str] | None, Argument(metavar="TOPIC-N..", help="All by default.", complete="partition")
    ] = None,
    at: Reach = HERE,
    unclean: Annotated[
        bool,
        Option(
            "--unclean",
            help="Elect a replica that is out of sync, where there is no other. May lose acknowledged records.",
        ),
    ] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Elect each partition's preferred leader, its first replica."""
    try:
        wanted = [TopicPartition.from_dir_name(partition) for partition in partitions] if partitions else None
    except ValueError as fault:
        raise CommandError(f"{fault}: use TOPIC-N.", 2) from None
    if unclean and wanted is None:
        raise CommandError("Name the partitions of an unclean election: it may lose acknowledged records.", 2)

    election = ElectionType.UNCLEAN if unclean else ElectionType.PREFERRED
    outcomes = with_admin(at, lambda admin: admin.elect_leaders(wanted, election))
    needed = {
        partition: error
        for partition, error in outcomes.items()
        if error is None or error.code is not ErrorCode.ELECTION_NOT_NEEDED
    }
    if output is Format.json:
        print_json(partitions_as_json(outcomes))
    elif not needed:
        print("no partition needed an election")
    report_partitions(needed, "elected {}", output)
