"""``barnabas reassign``: moves partitions to other brokers; its plans are the files of
``kafka-reassign-partitions``."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Mapping, Sequence
from typing import Annotated, Any

from barnabas.broker.placement import assign_replicas
from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin, with_cluster
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import partitions_as_json, report_partitions
from barnabas.cli.output import CommandError, Format, UsageError, numbers, print_json, print_table, progress
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime.real import real_runtime

app = CommandGroup("Move partitions to other brokers.")

Moves = dict[TopicPartition, list[int]]

_POLL_S = 0.1


def parse_moves(words: Sequence[str], file: str | None) -> Moves:
    """Parses ``TOPIC-N=0,1,2`` words, or Kafka's reassignment JSON. Raises `UsageError`."""
    named = [] if file is None else _moves_in(file)
    for word in words:
        where, _, replicas = word.rpartition("=")
        try:
            partition = TopicPartition.from_dir_name(where)
            named.append((partition, [int(broker) for broker in replicas.split(",")]))
        except ValueError:
            raise UsageError(f"{word!r} is not a move: use TOPIC-N=0,1,2, with the preferred leader first.") from None
    if not named:
        raise UsageError("Nothing to move: name TOPIC-N=0,1,2, or a file by --file.")
    moves: Moves = {}
    for partition, brokers in named:
        if partition in moves:
            raise UsageError(f"{partition} is named twice: name each partition once.")
        moves[partition] = brokers
    return moves


def _moves_in(file: str) -> list[tuple[TopicPartition, list[int]]]:
    try:
        with open(file, encoding="utf-8") as opened:
            plan = json.load(opened)
        return [
            (TopicPartition(move["topic"], int(move["partition"])), [int(broker) for broker in move["replicas"]])
            for move in plan["partitions"]
        ]
    except OSError as error:
        raise UsageError(f"{file} cannot be read ({error.strerror}).") from None
    except (ValueError, KeyError, TypeError) as error:
        raise UsageError(
            f'{file} is not a reassignment ({error!r}): write {{"version":1,"partitions":[{{"topic":..,"partition":..,'
            '"replicas":[..]}]}.'
        ) from None


def plan_of(moves: Mapping[TopicPartition, Sequence[int]]) -> dict[str, Any]:
    """A plan in Kafka's JSON format."""
    return {
        "version": 1,
        "partitions": [
            {"topic": partition.topic, "partition": partition.partition, "replicas": list(replicas)}
            for partition, replicas in sorted(moves.items())
        ],
    }


@app.command("plan")
def plan(
    topics: Annotated[list[str], Argument(metavar="TOPIC..", complete="topic")],
    brokers: Annotated[str, Option("--brokers", metavar="0,1,2", help="The brokers that may have replicas.")],
    at: Reach = HERE,
) -> None:
    """Propose an assignment that spreads partitions over brokers and racks: JSON for `start --file`."""
    try:
        allowed = dict.fromkeys(int(broker) for broker in brokers.split(","))
    except ValueError:
        raise UsageError(f"--brokers {brokers}: expected broker ids separated by commas.") from None

    async def story(cluster: ClusterClient) -> Moves:
        metadata = await cluster.look_up(topics)
        unknown = [broker for broker in allowed if broker not in metadata.brokers]
        if unknown:
            raise CommandError(f"There is no broker {numbers(unknown)}: {numbers(sorted(metadata.brokers))} are alive.")
        racks = {broker: metadata.brokers[broker].rack for broker in allowed}
        moves: Moves = {}
        for topic in metadata.topics.values():
            if topic.error is not ErrorCode.NONE:
                raise KafkaError(topic.error, f"topic {topic.name}: {topic.error.name}")
            factor = max(len(partition.replicas) for partition in topic.partitions.values())
            placed = assign_replicas(racks, len(topic.partitions), factor, real_runtime().entropy)
            moves.update(
                (TopicPartition(topic.name, number), list(placed[number])) for number in sorted(topic.partitions)
            )
        return moves

    print_json(plan_of(with_cluster(at, story)))


@app.command("start")
def start(
    moves: Annotated[list[str] | None, Argument(metavar="TOPIC-N=0,1,2..")] = None,
    file: Annotated[str | None, Option("--file", metavar="PLAN.json", help="Kafka's reassignment JSON.")] = None,
    wait: Annotated[bool, Option("--wait", help="Return when all moves are done.")] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Start to move partitions; `--format json` also prints their present assignment, by which they can be moved
    back."""
    targets = parse_moves(moves or [], file)

    async def story(cluster: ClusterClient) -> tuple[Moves, dict[TopicPartition, KafkaError | None]]:
        before = await _replicas(cluster, targets)
        outcomes = await Admin(cluster).alter_reassignments(targets)
        if wait:
            await _until_done(cluster, [partition for partition, error in outcomes.items() if error is None])
        return before, outcomes

    before, outcomes = with_cluster(at, story)
    if output is Format.json:
        print_json({"before": plan_of(before), "moves": partitions_as_json(outcomes)})
    report_partitions(outcomes, f"{'moved' if wait else 'moving'} {{}}", output)


@app.command("list")
def list_(at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """List the moves in progress."""
    under_way = with_admin(at, lambda admin: admin.list_reassignments())
    if output is Format.json:
        print_json(
            [
                {
                    "topic": partition.topic,
                    "partition": partition.partition,
                    "replicas": now,
                    "adding": adding,
                    "removing": removing,
                }
                for partition, (now, adding, removing) in sorted(under_way.items())
            ]
        )
    elif under_way:
        print_table(
            ["partition", "replicas", "adding", "removing"],
            [[str(partition), *map(numbers, replicas)] for partition, replicas in sorted(under_way.items())],
        )
    else:
        print("no partition is being moved")


@app.command("cancel")
def cancel(
    partitions: Annotated[list[str] | None, Argument(metavar="TOPIC-N..", complete="partition")] = None,
    everything: Annotated[bool, Option("--all", help="Every move in progress.")] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Cancel moves in progress: the partitions go back to their earlier replicas."""
    if everything == bool(partitions):
        raise UsageError("Name the partitions as TOPIC-N, or all of them by --all.")
    try:
        named = [TopicPartition.from_dir_name(partition) for partition in partitions or []]
    except ValueError as fault:
        raise UsageError(f"{fault}: use TOPIC-N.") from None

    async def story(admin: Admin) -> dict[TopicPartition, KafkaError | None]:
        wanted = list(await admin.list_reassignments()) if everything else named
        return await admin.alter_reassignments(dict.fromkeys(wanted)) if wanted else {}

    outcomes = with_admin(at, story)
    if output is Format.json:
        print_json(partitions_as_json(outcomes))
    elif not outcomes:
        print("no partition is being moved")
    report_partitions(outcomes, "cancelled {}", output)


async def _replicas(cluster: ClusterClient, wanted: Mapping[TopicPartition, object]) -> Moves:
    metadata = await cluster.look_up(sorted({partition.topic for partition in wanted}))
    found: Moves = {}
    for partition in wanted:
        topic = metadata.topics.get(partition.topic)
        known = topic.partitions.get(partition.partition) if topic is not None else None
        if known is not None:
            found[partition] = list(known.replicas)
    return found


async def _until_done(cluster: ClusterClient, moves: Sequence[TopicPartition]) -> None:
    admin = Admin(cluster)
    left = len(moves)
    with progress("moved", left) as bar:
        while left:
            under_way = await admin.list_reassignments()
            now = sum(1 for move in moves if move in under_way)
            bar.advance(left - now)
            left = now
            if left:
                await asyncio.sleep(_POLL_S)
