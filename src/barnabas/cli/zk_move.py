"""``barnabas zk export`` and ``import``: move a tree of znodes from one ZooKeeper to another by a file."""

from __future__ import annotations

import hashlib
import os
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Annotated

from barnabas.cli.command import Argument, Option
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import CommandError, Format, complain, print_json, say
from barnabas.cli.plain import is_no_file
from barnabas.cli.zookeeper import HERE, ZooKeeperReach, with_zookeeper
from barnabas.zk.client.client import ZooKeeperClient
from barnabas.zk.inspection.image import SYSTEM_ROOT, ReadZNode, read_tree
from barnabas.zk.inspection.transfer import (
    ExportedZNode,
    Imported,
    TransferError,
    exported,
    first_line,
    import_tree,
    last_line,
    parse_export,
)
from barnabas.zk.protocol.errors import ConnectionLoss, SessionExpired


def export(
    file: Annotated[str, Argument(metavar="[FILE]", help="The file to write; `-`: the standard output.")] = "-",
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Write the tree to FILE as JSON lines: data, versions, counters and ACLs. Stop the brokers first."""
    place = at.where()
    counts = {"znodes": 0, "ephemerals": 0}

    def written(lines: IO[str]) -> None:
        def take(batch: Sequence[ReadZNode]) -> None:
            for read in batch:
                znode = exported(read)
                counts["ephemerals" if znode.ephemeral else "znodes"] += 1
                lines.write(znode.line() + "\n")

        async def story(client: ZooKeeperClient) -> None:
            await client.sync("/")
            await read_tree(client, "/", take, with_acls=True, hidden=(SYSTEM_ROOT,))

        lines.write(first_line(place.connect) + "\n")
        with_zookeeper(place, story)
        lines.write(last_line(**counts) + "\n")
        lines.flush()

    try:
        if file == "-":
            with open(os.dup(sys.stdout.fileno()), "w", encoding="utf-8", newline="\n") as lines:
                written(lines)
        else:
            _whole(Path(file), written)
    except TransferError as error:
        raise CommandError(str(error)) from None
    if counts["ephemerals"]:
        complain(
            f"{counts['ephemerals']} ephemeral znodes are marked and not imported. Some program uses this tree, so the "
            "export may mix states of different times. Stop the brokers before you move a cluster."
        )
    if file != "-":
        say(output, {"file": file, **counts}, f"wrote {counts['znodes']} znodes to {file}")


def _whole(path: Path, write: Callable[[IO[str]], None]) -> None:
    """Writes a file that appears only when it is complete. Only its owner may read it, as it may contain credentials.

    A device or a pipe is written to directly, and not replaced.
    """
    path = path.resolve()
    if is_no_file(path):
        try:
            with path.open("w", encoding="utf-8", newline="\n") as lines:
                write(lines)
        except OSError as error:
            raise CommandError(f"{path} cannot be written ({os.strerror(error.errno or 0)}).") from None
        return
    try:
        descriptor, name = tempfile.mkstemp(prefix=f".{path.name}.", dir=path.absolute().parent)
    except OSError as error:
        raise CommandError(f"{path} cannot be written ({os.strerror(error.errno or 0)}): name another place.") from None
    part = Path(name)
    try:
        with open(descriptor, "w", encoding="utf-8", newline="\n") as lines:
            write(lines)
            os.fsync(lines.fileno())
        part.replace(path)
    except BaseException:
        part.unlink(missing_ok=True)
        raise


def import_(
    file: Annotated[str, Argument(metavar="FILE", help="The export to read; `-`: the standard input.")],
    force: Annotated[bool, Option("--force", help="Overwrite existing znodes that have other data or ACLs.")] = False,
    at: ZooKeeperReach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Import an export into a ZooKeeper, below --zookeeper's chroot. It can be interrupted and run again."""
    place = at.where()
    try:
        with _seekable(file) as lines:
            secret = hashlib.sha256()
            while block := lines.read(1 << 20):
                secret.update(block)

            def read() -> Iterator[ExportedZNode]:
                lines.seek(0)
                return parse_export(lines)

            async def story(client: ZooKeeperClient) -> Imported:
                try:
                    return await import_tree(
                        client,
                        read,
                        secret=secret.hexdigest(),
                        identities=place.identities,
                        force=force,
                    )
                except (ConnectionLoss, SessionExpired) as error:
                    raise CommandError(
                        f"The connection to ZooKeeper broke in the middle of it ({error}): give the same command "
                        "again, and it goes on from there."
                    ) from None

            done = with_zookeeper(place, story)
    except TransferError as error:
        raise CommandError(str(error)) from None
    if done.higher:
        complain(
            f"{', '.join(done.higher)}: the version in ZooKeeper was higher already and stays: it cannot be lowered."
        )
    if output is Format.json:
        print_json(
            {
                "created": done.created,
                "unchanged": done.unchanged,
                "overwritten": done.overwritten,
                "left_out": done.left_out,
            }
        )
    else:
        more = "".join(
            f", {count} {word}"
            for count, word in (
                (done.unchanged, "were there already"),
                (done.overwritten, "overwritten"),
                (done.left_out, "ephemeral left out"),
            )
            if count
        )
        print(f"created {done.created} znodes{more}")


@contextmanager
def _seekable(file: str) -> Iterator[IO[bytes]]:
    """The export, which is read several times; an export from a pipe is copied to a temporary file."""
    try:
        source = sys.stdin.buffer if file == "-" else open(file, "rb")  # noqa: SIM115
    except OSError as error:
        raise CommandError(f"{file} cannot be read ({os.strerror(error.errno or 0)}): name an export.") from None
    with source:
        if source.seekable():
            yield source
            return
        with tempfile.TemporaryFile() as copy:
            while block := source.read(1 << 20):
                copy.write(block)
            copy.seek(0)
            yield copy
