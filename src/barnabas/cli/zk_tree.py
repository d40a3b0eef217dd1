"""``barnabas zk tree``: draws the znodes, with their sizes and a summary of the data of Kafka's znodes."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Annotated, Any, Final

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import Format, numbers, print_json
from barnabas.cli.zookeeper import HERE, ZooKeeperReach, checked_path, stat_fields, text_of, with_zookeeper
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.image import ReadZNode, read_tree
from barnabas.zk.protocol.paths import joined

SUMMARY_LENGTH: Final = 100


def tree(
    path: Annotated[str, Argument(metavar="[PATH]")] = "/",
    depth: Annotated[
        int | None, Option("-d", "--depth", metavar="N", help="At most this many levels below PATH.")
    ] = None,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Draw the znodes at and below PATH, with their sizes and a summary of their data."""
    path = checked_path(path)

    async def story(client: ZooKeeperClient) -> dict[str, ReadZNode]:
        found: dict[str, ReadZNode] = {}

        def take(batch: Sequence[ReadZNode]) -> None:
            # Only each znode's summary is kept, not its data.
            for znode in batch:
                found[znode.path] = znode._replace(data=summary(znode.path, znode.data).encode())

        await read_tree(client, path, take)
        return found

    znodes = with_zookeeper(at.where(), story)
    if output is Format.json:
        print_json(_as_json(znodes, path, depth))
        return
    print(_label(znodes[path], path))
    _draw(znodes, path, "", depth)


def _draw(znodes: dict[str, ReadZNode], path: str, indent: str, depth: int | None) -> None:
    if depth is not None and depth <= 0:
        return
    children = [name for name in znodes[path].children if joined(path, name) in znodes]
    for index, name in enumerate(children):
        last = index == len(children) - 1
        child = joined(path, name)
        print(f"{indent}{'└── ' if last else '├── '}{_label(znodes[child], name)}")
        _draw(znodes, child, indent + ("    " if last else "│   "), None if depth is None else depth - 1)


def _label(znode: ReadZNode, name: str) -> str:
    words = [name]
    if znode.stat.data_length:
        words.append(f"({znode.stat.data_length} B)")
    if znode.stat.ephemeral_owner > 0:
        words.append(f"[{stat_fields(znode.stat)['ephemeral_owner']}]")
    if znode.data:
        words.append(znode.data.decode())
    return " ".join(words)


def _as_json(znodes: dict[str, ReadZNode], path: str, depth: int | None) -> list[dict[str, Any]]:
    base = path.count("/") if path != "/" else 0
    return [
        {
            "path": znode.path,
            "bytes": znode.stat.data_length,
            "version": znode.stat.version,
            "children": znode.stat.num_children,
            "ephemeral_owner": stat_fields(znode.stat)["ephemeral_owner"],
            "summary": (znode.data or b"").decode(),
        }
        for znode in znodes.values()
        if depth is None or (znode.path.count("/") if znode.path != "/" else 0) - base <= depth
    ]


def summary(path: str, data: bytes | None) -> str:
    """A znode's data on one line: in Kafka's terms if it is one of Kafka's znodes, else their beginning."""
    if not data:
        return ""
    text = text_of(data)
    if text is None:
        return "binary"
    try:
        value = json.loads(text)
    except ValueError:
        return _shortened(" ".join(text.split()))
    if isinstance(value, dict):
        try:
            known = _known(path.split("/")[1:], value)
        except (KeyError, TypeError, ValueError, AttributeError):
            known = None  # not in Kafka's format: shown unchanged
        if known is not None:
            return _shortened(known)
    return _shortened(json.dumps(value, ensure_ascii=False))


def _known(names: list[str], value: dict[str, Any]) -> str | None:
    match names:
        case [*_, "brokers", "ids", _]:
            rack = f", rack {value['rack']}" if "rack" in value else ""
            return ", ".join(value["endpoints"]) + rack
        case [*_, "brokers", "topics", _]:
            partitions = value["partitions"]
            moving = {*(value.get("adding_replicas") or {}), *(value.get("removing_replicas") or {})}
            held = ", ".join(f"{key}: {numbers(replicas)}" for key, replicas in sorted(partitions.items(), key=_number))
            return f"{{{held}}}" + (f", reassigning {len(moving)}" if moving else "")
        case [*_, "partitions", _, "state"]:
            return f"leader {value['leader']}, epoch {value['leader_epoch']}, ISR {numbers(value['isr'])}"
        case [*_, "controller"]:
            return f"broker {value['brokerid']}"
        case [*_, "config", _, _] | [*_, "config", "users", _, "clients", _] if isinstance(value.get("config"), dict):
            return ", ".join(f"{key}={item}" for key, item in value["config"].items()) or "nothing set"
        case [*_, "changes", _] if "entity_path" in value:
            return str(value["entity_path"])
        case [*_, "cluster", "id"]:
            return str(value["id"])
        case [*_, "latest_producer_id_block"]:
            return f"{value['block_start']} to {value['block_end']}, broker {value['broker']}"
        case ["kafka-acl" | "kafka-acl-extended", *_]:
            return "; ".join(
                f"{acl['permissionType']} {acl['principal']} {acl['operation']} from {acl['host']}"
                for acl in value["acls"]
            )
    return None


def _number(item: tuple[str, Any]) -> int:
    return int(item[0])


def _shortened(text: str) -> str:
    return text if len(text) <= SUMMARY_LENGTH else text[: SUMMARY_LENGTH - 2] + ".."
