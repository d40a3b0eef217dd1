"""What a tool said, without what differs from one cluster, and one run, to the next."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

CASES = Path(__file__).with_name("kafka_tool_cases")

_LOG_LINE = re.compile(r"^\[\d{4}-\d\d-\d\d \d\d:\d\d:\d\d,\d{3}\] [A-Z]+ ")
_LOG_END = re.compile(r" \([\w.$]+\)$")
_HELP = re.compile(r"^Option(?: \(\* = required\))?\s+Description\s*$")
_STACK = ("\tat ", "\t... ", "\tSuppressed:", "Caused by:")
_DIFFERENT = (
    (re.compile(r"^(tx +\t)\d +\t\d+ +\t", re.MULTILINE), "\\1<coordinator>\t<producer id>\t"),
    (re.compile(r"^\d( +\ttx +\t)\d+ +\t", re.MULTILINE), "<coordinator>\\1<producer id>\t"),
    (re.compile(r"\t\d{13} +\t\d+ +\t"), "\t<start>\t<duration>\t"),
    (re.compile(r"\d+(\.\d+)? (records/sec|MB/sec|ms )"), r"<n> \2"),
    (re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d:\d{3}, .*"), "<times and rates>"),
    (re.compile(r'("timestamp"|"avg_throughput"):[\d.E]+'), r"\1:<n>"),
    (re.compile(r"(CreateTime:? ?|crc: |size: |position: (?!0)|timestamp: )\d+"), r"\1<n>"),
    (re.compile(r"broker-(\d)  \(\1\) +"), "<coordinator> "),
    (re.compile(r"TopicId: \S{22}"), "TopicId: <id>"),
)


class Said(NamedTuple):
    """What a tool answered: its exit status, and what it printed where."""

    status: int
    out: str
    err: str


class Place(NamedTuple):
    """Where a tool ran: the ports of the cluster's brokers by their ids, and the directory of its files."""

    ports: Sequence[int]
    directory: str

    def words(self, template: Sequence[str]) -> list[str]:
        """``{S}`` becomes the first broker's address, ``{S1}`` that of broker 1, ``{DIR}`` the directory, ``{CASES}``
        that of the files beside the tables."""
        names = {"{S}": f"127.0.0.1:{self.ports[0]}", "{DIR}": self.directory, "{CASES}": str(CASES)}
        names |= {f"{{S{number}}}": f"127.0.0.1:{port}" for number, port in enumerate(self.ports)}
        filled = []
        for word in template:
            for name, value in names.items():
                word = word.replace(name, value)
            filled.append(word)
        return filled


def normal(said: Said, place: Place) -> str:
    """Exit status, standard output, and of the standard error all but logs, stacks and the words of the help."""
    return "\n".join([f"exit {said.status}", *_lines(said.out, place), "--", *_errors(_lines(said.err, place))])


def _lines(text: str, place: Place) -> list[str]:
    for number, port in enumerate(place.ports):
        text = text.replace(f"127.0.0.1:{port}", f"broker-{number}")
    text = text.replace(place.directory, "<dir>")
    for pattern, instead in _DIFFERENT:
        text = pattern.sub(instead, text)
    lines = [line for line in text.split("\n") if not line.startswith(_STACK)]
    if "(principal=" in text:
        return sorted(line.strip() for line in lines)  # Kafka's tool keeps ACLs by hashes of enumerations: in no order
    text = re.sub(
        r"(only supports operations )(.*)", lambda found: found[1] + ", ".join(_sorted(found[2])), "\n".join(lines)
    )
    if re.search(r"^broker-\d \(id: .* -> \($", text, re.MULTILINE):
        text = "".join(sorted(re.split(r"(?<=\n\)\n)", text)))  # Kafka's tool has no order for the brokers
    return text.split("\n")


def _sorted(names: str) -> list[str]:
    return sorted(names.split(", "))


def _errors(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    waiting = list(reversed(_unlogged(lines)))
    while waiting:
        line = waiting.pop()
        if _HELP.match(line):
            kept.append(_options([line, *reversed(waiting)]))
            break
        if line.startswith("usage: "):  # argparse4j's, wrapped and filled by rules of its own; then what is wrong
            text = " ".join("\n".join([line, *reversed(waiting)]).split())
            kept.append(re.sub(r"- (?=\S)", "-", text[max(0, text.find(": error: ")) :]))
            break
        kept.append(line)
    return kept


def _unlogged(lines: Sequence[str]) -> list[str]:
    kept: list[str] = []
    entry = False
    for line in lines:
        if entry or _LOG_LINE.match(line):
            entry = not _LOG_END.search(line)  # an entry of several lines ends with the logger's name
        else:
            kept.append(line)
    return kept


def _options(table: Sequence[str]) -> str:
    """The left column of joptsimple's help: which options there are, and what they take. Where it breaks is Java's."""
    width = table[0].index("Description")
    return "".join("".join(line[:width] for line in table[2:]).split())
