"""``barnabas cluster info``, ``api-versions`` and ``features``: the brokers, their requests and their features."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any

from barnabas.cli.command import CommandGroup, Option
from barnabas.cli.connect import with_admin, with_cluster
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, sorted_out
from barnabas.cli.output import CommandError, Format, UsageError, print_json, print_table
from barnabas.client.descriptions import BrokerVersions, FeatureUpgrade, VersionRange
from barnabas.model.errors import KafkaError
from barnabas.wire.frames import request_class
from barnabas.wire.messages import APIS

app = CommandGroup("The cluster as a whole.")

Brokers = Annotated[
    list[int] | None, Option("--broker", metavar="ID", help="Only these brokers; may be repeated.", complete="broker")
]


@app.command("info")
def info(at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """Show the cluster's id, its controller, and its brokers with their racks and partitions."""

    metadata = with_cluster(at, lambda cluster: cluster.refresh(None))
    partitions = [partition for topic in metadata.topics.values() for partition in topic.partitions.values()]
    brokers = [
        {
            "id": node.broker_id,
            "host": node.host,
            "port": node.port,
            "rack": node.rack,
            "controller": node.broker_id == metadata.controller_id,
            "leaders": sum(1 for partition in partitions if partition.leader == node.broker_id),
            "replicas": sum(1 for partition in partitions if node.broker_id in partition.replicas),
        }
        for node in metadata.brokers.values()
    ]
    if output is Format.json:
        controller = metadata.controller
        print_json(
            {
                "cluster_id": metadata.cluster_id,
                "controller": None if controller is None else controller.broker_id,
                "brokers": brokers,
                "topics": len(metadata.topics),
                "partitions": len(partitions),
            }
        )
        return
    print(
        f"cluster {metadata.cluster_id}: {len(brokers)} brokers, {len(metadata.topics)} topics, "
        f"{len(partitions)} partitions"
    )
    print_table(
        ["broker", "address", "rack", "leaders", "replicas", ""],
        [
            [
                broker["id"],
                f"{broker['host']}:{broker['port']}",
                broker["rack"],
                broker["leaders"],
                broker["replicas"],
                "controller" if broker["controller"] else "",
            ]
            for broker in brokers
        ],
    )


def api_versions(brokers: Brokers = None, at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """Show which requests brokers answer and in which versions, beside this client's versions."""
    outcomes = with_admin(at, lambda admin: admin.api_versions(brokers))
    found, failed = sorted_out(outcomes)
    if output is Format.json:
        told: list[dict[str, Any]] = [
            {
                "broker": broker_id,
                "apis": [
                    {"key": key, "name": _name(key), "lowest": versions.lowest, "highest": versions.highest}
                    for key, versions in sorted(broker.apis.items())
                ],
            }
            for broker_id, broker in found.items()
        ]
        print_json([*told, *({"broker": broker_id, **as_json(error)} for broker_id, error in failed.items())])
    else:
        keys = sorted({key for broker in found.values() for key in broker.apis})
        print_table(
            ["key", "request", *(f"broker {broker_id}" for broker_id in found), "client"],
            [
                [key, _name(key), *(_range(broker.apis.get(key)) for broker in found.values()), _range(_ours(key))]
                for key in keys
            ],
        )
    fail({f"broker {broker_id}": error for broker_id, error in failed.items()})


def _name(key: int) -> str:
    return APIS[key].name if key in APIS else f"UNKNOWN({key})"


def _ours(key: int) -> VersionRange | None:
    if key not in APIS:
        return None
    message = request_class(key)
    return VersionRange(message.min_version, message.max_version)


def _range(versions: VersionRange | None) -> str | None:
    if versions is None:
        return None
    return str(versions.lowest) if versions.lowest == versions.highest else f"{versions.lowest}-{versions.highest}"


def features(
    upgrade: Annotated[
        list[str] | None,
        Option("--upgrade", metavar="NAME=LEVEL", help="Raise this feature to the level; may be repeated."),
    ] = None,
    downgrade: Annotated[
        list[str] | None,
        Option(
            "--downgrade", metavar="NAME=LEVEL", help="Lower this feature to the level, 0 removes it; may be repeated."
        ),
    ] = None,
    unsafe: Annotated[bool, Option("--unsafe", help="Downgrade even if stored data may be lost.")] = False,
    dry_run: Annotated[
        bool, Option("--dry-run", help="Change nothing: ask the controller whether it would accept the change.")
    ] = False,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show the features that brokers support and the levels that are finalized, or change them."""
    changes = {**_levels(upgrade, "--upgrade"), **_levels(downgrade, "--downgrade", lower=True, unsafe=unsafe)}
    if changes:
        outcomes = with_admin(at, lambda admin: admin.update_features(changes, validate_only=dry_run))
        _tell_changes(changes, outcomes, dry_run, output)
        return
    versions, failed = sorted_out(with_admin(at, lambda admin: admin.api_versions()))
    if not versions:
        raise CommandError("No broker answered with its features: see `barnabas status`.")
    rows = _features(versions)
    if output is Format.json:
        print_json(rows)
    elif rows:
        print_table(
            ["feature", "supported", "finalized", "epoch"],
            [[row["name"], _shown(row["supported"]), row["finalized"], row["epoch"]] for row in rows],
        )
    else:
        print("no broker supports a feature, and none is finalized")
    fail({f"broker {broker_id}": error for broker_id, error in failed.items()})


def _levels(
    texts: list[str] | None, option: str, *, lower: bool = False, unsafe: bool = False
) -> dict[str, FeatureUpgrade]:
    levels: dict[str, FeatureUpgrade] = {}
    for text in texts or ():
        name, equals, level = text.partition("=")
        if not equals or not name or not level.isdigit():
            raise UsageError(f"{option} takes NAME=LEVEL, not {text!r}.")
        levels[name] = FeatureUpgrade(int(level), downgrade=lower, unsafe=lower and unsafe)
    return levels


def _features(versions: Mapping[int, BrokerVersions]) -> list[dict[str, Any]]:
    """Every feature: the levels that all brokers support, and the finalized level as the broker with the highest epoch
    reports it."""
    newest = max(versions.values(), key=lambda broker: broker.finalized_features_epoch)
    names = {*newest.finalized_features, *(name for broker in versions.values() for name in broker.supported_features)}
    rows = []
    for name in sorted(names):
        supported = [broker.supported_features.get(name) for broker in versions.values()]
        known = [levels for levels in supported if levels is not None]
        everywhere = len(known) == len(supported)
        finalized = newest.finalized_features.get(name)
        rows.append(
            {
                "name": name,
                "supported": [max(levels.lowest for levels in known), min(levels.highest for levels in known)]
                if everywhere
                else None,
                "finalized": None if finalized is None else finalized.highest,
                "epoch": newest.finalized_features_epoch,
            }
        )
    return rows


def _shown(supported: list[int] | None) -> str | None:
    if supported is None:
        return None
    lowest, highest = supported
    return f"{lowest}-{highest}"


def _tell_changes(
    changes: Mapping[str, FeatureUpgrade], outcomes: Mapping[str, KafkaError | None], dry_run: bool, output: Format
) -> None:
    done, failed = sorted_out(outcomes)
    if output is Format.json:
        print_json(
            [
                {"name": name, "level": changes[name].level, **({} if error is None else as_json(error))}
                for name, error in outcomes.items()
            ]
        )
    else:
        for name in done:
            print(f"{name} {'could be' if dry_run else 'is'} finalized at {changes[name].level}")
    fail(failed)
