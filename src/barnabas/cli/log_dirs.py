"""``barnabas log dirs``: the brokers' log directories, their content, and how full their volumes are."""

from __future__ import annotations

from typing import Annotated, Any

from barnabas.cli.command import Option
from barnabas.cli.connect import with_cluster
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, parse_partitions, partitions_of, sorted_out
from barnabas.cli.output import Bad, Format, print_json, print_table
from barnabas.client.admin import Admin
from barnabas.client.cluster import ClusterClient
from barnabas.client.descriptions import LogDirDescription
from barnabas.model.errors import KafkaError

_UNITS = ("B", "KiB", "MiB", "GiB", "TiB")


def shown_bytes(count: int) -> str | None:
    """1536 as ``1.5 KiB``; None for -1, which means unknown."""
    if count < 0:
        return None
    size, unit = float(count), 0
    while size >= 1024 and unit < len(_UNITS) - 1:
        size, unit = size / 1024, unit + 1
    return f"{count} B" if unit == 0 else f"{size:.1f} {_UNITS[unit]}"


def dirs(
    brokers: Annotated[
        list[int] | None,
        Option("--broker", metavar="ID", help="Only these brokers; may be repeated.", complete="broker"),
    ] = None,
    topics: Annotated[
        list[str] | None,
        Option("-t", "--topic", metavar="TOPIC[:0,2]", help="Only these topics; may be repeated.", complete="topic"),
    ] = None,
    replicas: Annotated[bool, Option("-r", "--replicas", help="Show each replica with its size and lag.")] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show brokers' log directories: replicas, bytes, and free space."""
    words = parse_partitions(topics) if topics else None

    async def story(cluster: ClusterClient) -> dict[int, list[LogDirDescription] | KafkaError]:
        wanted = None if words is None else await partitions_of(cluster, words)
        return await Admin(cluster).describe_log_dirs(brokers, wanted)

    outcomes = with_cluster(at, story)
    found, failed = sorted_out(outcomes)
    every = [(broker_id, log_dir) for broker_id, described in found.items() for log_dir in described]
    if output is Format.json:
        told = [_as_json(broker_id, log_dir) for broker_id, log_dir in every]
        print_json([*told, *({"broker": broker_id, **as_json(error)} for broker_id, error in failed.items())])
    elif replicas:
        print_table(
            ["broker", "directory", "topic", "partition", "size", "lag", ""],
            [
                [
                    broker_id,
                    log_dir.path,
                    partition.topic,
                    partition.partition,
                    shown_bytes(replica.size),
                    replica.offset_lag,
                    "future" if replica.is_future else "",
                ]
                for broker_id, log_dir in every
                for partition, replica in sorted(log_dir.replicas.items())
            ],
        )
    else:
        print_table(
            ["broker", "directory", "replicas", "size", "free", "volume", "state"],
            [
                [
                    broker_id,
                    log_dir.path,
                    len(log_dir.replicas),
                    shown_bytes(sum(replica.size for replica in log_dir.replicas.values())),
                    shown_bytes(log_dir.usable_bytes),
                    shown_bytes(log_dir.total_bytes),
                    "online" if log_dir.error is None else Bad(f"offline: {log_dir.error.code.name}"),
                ]
                for broker_id, log_dir in every
            ],
        )
    offline = {
        f"broker {broker_id}, {log_dir.path}": log_dir.error
        for broker_id, log_dir in every
        if log_dir.error is not None
    }
    fail({**{f"broker {broker_id}": error for broker_id, error in failed.items()}, **offline})


def _as_json(broker_id: int, described: LogDirDescription) -> dict[str, Any]:
    return {
        "broker": broker_id,
        "directory": described.path,
        "error": None if described.error is None else described.error.code.name,
        "total_bytes": described.total_bytes,
        "usable_bytes": described.usable_bytes,
        "replicas": [
            {
                "topic": partition.topic,
                "partition": partition.partition,
                "size": replica.size,
                "offset_lag": replica.offset_lag,
                "is_future": replica.is_future,
            }
            for partition, replica in sorted(described.replicas.items())
        ],
    }
