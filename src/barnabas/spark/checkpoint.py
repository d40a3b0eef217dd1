"""Reads a streaming query's checkpoint, and takes over checkpoints of the official connector.

``offsets/N`` has a line for the version, one for the batch, and one for each source: its offset when the batch ended.
The official connector's is ``{"orders": {"0": 15}}``; ours adds the topic's id and, in the first batch, the offsets
where that batch began, which the official connector keeps in ``sources/I/0``.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote, urlsplit

from barnabas.spark.plan import TopicOffsets, is_official, offsets_from_json, offsets_to_json

_HEAD_LINES: Final = 2
_SOURCE: Final = "sources/{}/0"


class CheckpointError(ValueError):
    """A checkpoint that cannot be taken over; the text says why."""


class Migrated(NamedTuple):
    """`sources` are the numbers of the rewritten sources, with the offsets at which each goes on."""

    batches: int
    sources: Mapping[int, Mapping[str, Mapping[str, int]]]


def query_id(location: str) -> str | None:
    """The id that a query keeps with its checkpoint; Spark writes it before the query begins.

    None if `location` is no directory of this machine (``hdfs:``, ``s3a:``), or has no checkpoint of a query.
    """
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    directory = Path(unquote(parts.path) if parts.scheme else location)
    try:
        found = json.loads((directory / "metadata").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None


def migrate(checkpoint: Path, to: Path, *, back: bool = False) -> Migrated:
    """Copies a checkpoint of ``format("kafka")`` to `to` as one of ``format("barnabas")``, or `back`.

    Query id, state and batches stay as they are; the query must not run. Raises `CheckpointError`, ``OSError``.
    """
    batches = sorted(int(file.name) for file in (checkpoint / "offsets").glob("*") if file.name.isdecimal())
    if not batches:
        raise CheckpointError(f"{checkpoint} is not a checkpoint of a streaming query that has run: it has no offsets")
    if to.exists():
        raise CheckpointError(f"{to} exists already: name a new directory")
    logs: dict[int, list[str]] = {}
    firsts: dict[int, dict[str, TopicOffsets]] = {}
    goes_on: dict[int, dict[str, dict[str, int]]] = {}
    for batch in batches:
        logs[batch] = (checkpoint / "offsets" / str(batch)).read_text(encoding="utf-8").split("\n")
        for index, offsets in _of_topics(logs[batch], official=not back):
            if batch == 0:
                if not back:
                    offsets = _with_first(offsets, checkpoint / _SOURCE.format(index))
                firsts[index] = offsets
            goes_on[index] = official(offsets)
            text = json.dumps(goes_on[index] if back else offsets_to_json(offsets), separators=(",", ":"))
            logs[batch][_HEAD_LINES + index] = text
    if not goes_on:
        which = "barnabas" if back else "kafka"
        raise CheckpointError(f"{checkpoint} has no source that is format({which!r})")
    shutil.copytree(checkpoint, to)
    for batch, lines in logs.items():
        _replace(to / "offsets" / str(batch), "\n".join(lines))
    for index, offsets in firsts.items() if back else ():
        began = {name: _with_text(topic.first) for name, topic in offsets.items() if topic.first is not None}
        _replace(to / _SOURCE.format(index), f"\0v1\n{json.dumps(began)}")
    return Migrated(len(batches), goes_on)


def official(offsets: Mapping[str, TopicOffsets]) -> dict[str, dict[str, int]]:
    """As the official connector writes them."""
    return {name: _with_text(topic.next_offsets) for name, topic in sorted(offsets.items())}


def _with_text(offsets: Mapping[int, int]) -> dict[str, int]:
    return {str(partition): offset for partition, offset in sorted(offsets.items())}


def _of_topics(lines: list[str], *, official: bool) -> Iterator[tuple[int, dict[str, TopicOffsets]]]:
    """Index and offsets of the sources in a batch's lines that are the official connector's, or else ours."""
    for index, line in enumerate(lines[_HEAD_LINES:]):
        try:
            written: Any = json.loads(line)
            offsets = offsets_from_json(written)
        except (ValueError, AttributeError):
            continue  # another source's, or a source that had none yet
        if offsets and all(is_official(topic) == official for topic in written.values()):
            yield index, offsets


def _with_first(offsets: dict[str, TopicOffsets], log: Path) -> dict[str, TopicOffsets]:
    """`offsets` with where the first batch began, which the official connector's `log` has behind its version."""
    try:
        text = log.read_text(encoding="utf-8").removeprefix("\0")
        began = offsets_from_json(json.loads(text.partition("\n")[2]))
    except (OSError, ValueError, AttributeError) as error:
        raise CheckpointError(f"{log}, where the first batch began, cannot be read: {error}") from None
    return {
        name: replace(topic, first=began[name].next_offsets) if name in began else topic
        for name, topic in offsets.items()
    }


def _replace(file: Path, text: str) -> None:
    """Writes a file of a copied checkpoint, and deletes the checksum that Hadoop keeps beside it."""
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text, encoding="utf-8")
    (file.parent / f".{file.name}.crc").unlink(missing_ok=True)
