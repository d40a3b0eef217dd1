"""``barnabas zk``: the znodes of a cluster, or of any ZooKeeper."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import Annotated, Any

from barnabas.cli import zk_check, zk_move, zk_tree
from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import CommandError, Format, UsageError, print_json, print_table, say
from barnabas.cli.zk_watch import Interrupt, until_interrupted, watch
from barnabas.cli.zookeeper import (
    HERE,
    ZNodePath,
    ZooKeeperReach,
    checked_path,
    data_fields,
    stat_fields,
    with_zookeeper,
)
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.image import read_tree
from barnabas.zk.inspection.transfer import acl_text, parse_acl
from barnabas.zk.protocol.data import ACL, ANY_VERSION, OPEN_ACL_UNSAFE, Stat
from barnabas.zk.protocol.errors import NodeExists, NoNode, NotEmpty
from barnabas.zk.protocol.ops import Create, Delete, GetACL, GetData
from barnabas.zk.protocol.paths import joined

app = CommandGroup("The znodes in ZooKeeper: read, write, watch, move and check them.")

Version = Annotated[int, Option("--version", metavar="V", help="Only if the znode has this version.")]
Data = Annotated[str | None, Argument(metavar="[DATA]", help="The znode's data; `-` reads it from the standard input.")]


def _given(data: str | None) -> bytes | None:
    """The data of the command line; `-` stands for the standard input, unchanged."""
    return sys.stdin.buffer.read() if data == "-" else None if data is None else data.encode()


@app.command("get")
def get(
    path: ZNodePath,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Print a znode's data, byte for byte. JSON also has its Stat."""
    path = checked_path(path)

    data, stat = with_zookeeper(at.where(), lambda client: client.get(path))
    if output is Format.json:
        print_json({"path": path, **data_fields(data), "stat": stat_fields(stat)})
        return
    sys.stdout.buffer.write(data or b"")
    if data and sys.stdout.isatty() and not data.endswith(b"\n"):
        sys.stdout.buffer.write(b"\n")
    sys.stdout.buffer.flush()


@app.command("ls")
def ls(
    path: Annotated[str, Argument(metavar="[PATH]")] = "/",
    long: Annotated[bool, Option("-l", help="Also show version, size, children and owner.")] = False,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List a znode's children."""
    path = checked_path(path)

    async def story(client: ZooKeeperClient) -> list[tuple[str, Stat | None]]:
        names = sorted(await client.children(path))
        if not long:
            return [(name, None) for name in names]
        answers = await client.handle_requests([GetData(joined(path, name)) for name in names])
        return [
            (name, answer[1]) for name, answer in zip(names, answers, strict=True) if not isinstance(answer, Exception)
        ]

    children = with_zookeeper(at.where(), story)
    if output is Format.json:
        print_json(
            [
                {"name": name}
                if stat is None
                else {"name": name, "path": joined(path, name), "stat": stat_fields(stat)}
                for name, stat in children
            ]
            if long
            else [name for name, _ in children]
        )
    elif long:
        print_table(
            ["name", "version", "bytes", "children", "owner"],
            [
                [name, stat.version, stat.data_length, stat.num_children, stat_fields(stat)["ephemeral_owner"] or "-"]
                for name, stat in children
                if stat is not None
            ],
        )
    else:
        for name, _ in children:
            print(name)


@app.command("stat")
def stat(
    path: ZNodePath,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Show a znode's Stat and ACLs: versions, zxids, times, owner."""
    path = checked_path(path)

    async def story(client: ZooKeeperClient) -> tuple[Stat, tuple[ACL, ...] | None]:
        found = await client.exists(path)
        if found is None:
            raise NoNode(path)
        (answer,) = await client.handle_requests([GetACL(path)])
        return found, None if isinstance(answer, Exception) else answer[0]

    found, acls = with_zookeeper(at.where(), story)
    fields = {"path": path, **stat_fields(found), "acl": None if acls is None else [acl_text(acl) for acl in acls]}
    if output is Format.json:
        print_json(fields)
        return
    for name, value in fields.items():
        print(f"{name:16}{_told(name, value)}")


def _told(name: str, value: Any) -> str:
    if name.endswith("zxid"):
        return f"0x{value:x}"
    if name in ("ctime", "mtime"):
        return datetime.fromtimestamp(value / 1000, UTC).isoformat(timespec="milliseconds")
    if name == "acl":
        return "not permitted to you" if value is None else " ".join(value)
    return "-" if value is None else str(value)


@app.command("set")
def set_(
    path: ZNodePath,
    data: Data = None,
    version: Version = ANY_VERSION,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Set a znode's data; without DATA the data become null."""
    path = checked_path(path)
    value = _given(data)

    _report_written(path, with_zookeeper(at.where(), lambda client: client.set(path, value, version)), "set", output)


def _report_written(path: str, stat: Stat | None, done: str, output: Format) -> None:
    if output is Format.json:
        print_json({"path": path, "version": None if stat is None else stat.version})
    else:
        print(f"{done} {path}" + ("" if stat is None else f", version {stat.version}"))


@app.command("create")
def create(
    path: ZNodePath,
    data: Data = None,
    ephemeral: Annotated[
        bool,
        Option(
            "-e",
            "--ephemeral",
            help="An ephemeral znode: it is deleted when this command ends, which waits until it is interrupted.",
        ),
    ] = False,
    sequential: Annotated[bool, Option("-s", "--sequential", help="Append a sequence number to the path.")] = False,
    container: Annotated[
        bool, Option("-c", "--container", help="A container znode: it is deleted after its last child.")
    ] = False,
    ttl_ms: Annotated[
        int | None,
        Option("--ttl", metavar="MS", help="Delete the znode if it is not changed and has no children for this time."),
    ] = None,
    acl: Annotated[
        list[str] | None,
        Option("--acl", metavar="SCHEME:ID:CDRWA", help="An ACL: an identity and its rights; may be repeated."),
    ] = None,
    parents: Annotated[bool, Option("-p", "--parents", help="Create missing parents.")] = False,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Create a znode and print its path."""
    ends_in_slash = sequential and path.endswith("/") and path != "/"
    path = checked_path(path)
    if sum((ephemeral, container, ttl_ms is not None)) > 1 or (container and sequential):
        raise UsageError("Give only one of --ephemeral, --container and --ttl; and --container without --sequential.")
    try:
        acls = tuple(map(parse_acl, acl)) if acl else OPEN_ACL_UNSAFE
    except ValueError as error:
        raise UsageError(f"--acl: {error}.") from None
    operation = Create(
        path + "/" if ends_in_slash else path,
        _given(data),
        ephemeral=ephemeral,
        sequential=sequential,
        acl=acls,
        container=container,
        ttl_ms=ttl_ms,
    )

    async def story(client: ZooKeeperClient) -> None:
        # The handler is set before the path is printed: the path's reader may interrupt at once.
        interrupt = Interrupt() if ephemeral else None
        if parents:
            await _make_parents(client, path)
        try:
            made = await client.submit(operation)
        except NoNode:
            raise CommandError(f"{path} has no parent: -p creates missing parents.") from None
        if isinstance(made, tuple):
            made = made[0]
        say(output, {"path": made}, made)
        sys.stdout.flush()
        if interrupt is not None:
            await until_interrupted(client, interrupt)

    with_zookeeper(at.where(), story)


async def _make_parents(client: ZooKeeperClient, path: str) -> None:
    names = path.split("/")[1:-1]
    for depth in range(1, len(names) + 1):
        try:
            await client.create("/" + "/".join(names[:depth]))
        except NodeExists:
            continue


@app.command("delete")
def delete(
    path: ZNodePath,
    recursive: Annotated[bool, Option("-r", "--recursive", help="Also delete everything below it.")] = False,
    version: Version = ANY_VERSION,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Delete a znode."""
    path = checked_path(path)
    if path == "/":
        raise UsageError("The root cannot be deleted: name the znodes below it.")

    async def story(client: ZooKeeperClient) -> int:
        if not recursive:
            await client.delete(path, version)
            return 1
        return await _delete_below(client, path, version)

    deleted = with_zookeeper(at.where(), story)
    below = f" and {deleted - 1} below it" if deleted > 1 else ""
    say(output, {"path": path, "deleted": deleted}, f"deleted {path}{below}")


async def _delete_below(client: ZooKeeperClient, path: str, version: int) -> int:
    """Deletes leaves first, in up to three rounds, as others may create znodes meanwhile. Returns the number of deleted
    znodes."""
    count = 0
    for attempt in range(3):
        paths = await _paths(client, path)
        answers = await client.handle_requests(
            [Delete(znode_path, version if znode_path == path else ANY_VERSION) for znode_path in reversed(paths)]
        )
        count += sum(1 for answer in answers if answer is None)
        errors = [answer for answer in answers if isinstance(answer, Exception) and not isinstance(answer, NoNode)]
        if errors and (attempt == 2 or not isinstance(errors[0], NotEmpty)):
            raise errors[0]
        if not errors:
            break
    return count


async def _paths(client: ZooKeeperClient, root: str) -> list[str]:
    paths: list[str] = []
    await read_tree(client, root, lambda found: paths.extend(znode.path for znode in found))
    return paths


app.command("watch")(watch)
app.command("tree")(zk_tree.tree)
app.command("export")(zk_move.export)
app.command("import")(zk_move.import_)
app.command("check")(zk_check.check_)
