"""What the documents show of the command, made by running it: ``make docs`` writes it, and a test finds what is stale.

In a document, a block below ``<!-- recorded -->`` is a session: each line that begins with ``$`` is run by bash, all of
them in one empty directory, and what follows it is what was said. ``docs/commands.md`` is every command's help,
``docs/api`` the Python names (`api_reference`).
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import api_reference
import metrics_reference

from barnabas.cli.app import ROOT
from barnabas.cli.command import CommandGroup

HOME: Final = Path(__file__).parent.parent
SESSIONS: Final = (HOME / "README.md",)
REFERENCE: Final = HOME / "docs" / "commands.md"

_BLOCK: Final = re.compile(r"(<!-- recorded -->\n```\n)(.*?)(```\n)", re.S)
_INTRODUCTION: Final = """\
# Commands

This page is every command's `--help`; `make docs` writes it. [operations.md](operations.md) tells what to do with them.

- **Which cluster**: `-b`, else `--dir`, else `BARNABAS_BOOTSTRAP`, else the cluster of `BARNABAS_DIR` or `./.barnabas`,
  else `localhost:9092`. Any Kafka cluster will do.
- **What comes out**: tables, and with `--format json` one JSON value and nothing else on the standard output. Colours
  (`NO_COLOR` turns them off), a pager (`PAGER`) for a table that is higher than the screen, and a progress bar after a
  second are for a terminal alone.
- **What went wrong** is a sentence on the standard error, with what to do next. Exit code 0: all is well. 1: something
  failed, or is not well. 2: the call was wrong.
- **What deletes or moves** (`group reset`, `topic trim`) only shows what it would do, until `--execute`.
- **Completion**: `eval "$(barnabas completion bash)"`; zsh and fish as `barnabas completion --help` says. It knows the
  names of topics, partitions, groups, brokers and transactional ids.
- **Kafka's own tools** are here by their names, flags and output: `barnabas kafka-topics --list …`.
"""


def played(commands: list[str], place: Path) -> list[str]:
    """What each command says, run one after the other by one shell in `place`."""
    mark = "\x1e"
    script = "\n".join(f"{command}\nprintf '{mark}'" for command in commands)
    environment = {
        **{name: value for name, value in os.environ.items() if not name.startswith("BARNABAS_")},
        "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
    }
    done = subprocess.run(
        ["bash", "-c", script],
        stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, cwd=place, env=environment, timeout=120,
    )  # fmt: skip
    return done.stdout.split(mark)[:-1]


def recorded(session: str) -> str:
    """The session, played again."""
    commands = [line.removeprefix("$ ") for line in session.splitlines() if line.startswith("$ ")]
    with tempfile.TemporaryDirectory(prefix="barnabas-docs-") as place:
        try:
            said = played(commands, Path(place))
        finally:
            played(["barnabas down --kill"], Path(place))
    assert len(said) == len(commands), (commands, said)
    return "".join(f"$ {command}\n{output}" for command, output in zip(commands, said, strict=True))


def constant(session: str) -> list[str]:
    """A session's lines without what changes from run to run: ports, pids, times, and who is controller."""
    text = re.sub(r"127\.0\.0\.1:\d+", "127.0.0.1:PORT", session.replace(", controller", ""))
    text = re.sub(r"\b\d+\.\d+ s\b", "TIME", text)
    text = re.sub(r"PORT +\d+ ", "PORT PID ", text)
    return [re.sub(r" +", " ", line) for line in text.splitlines()]


def sessions(document: Path) -> Iterator[str]:
    for found in _BLOCK.finditer(document.read_text()):
        yield found[2]


def reference() -> str:
    parts = [_INTRODUCTION]
    for path, entry in ROOT.walk("barnabas"):
        level = "##" if path.count(" ") < 2 else "###"
        if path == "barnabas":
            parts.append(f"```\n{entry.help_text(path)}\n```\n")
        elif isinstance(entry, CommandGroup):
            parts.append(f"{level} {path}\n\n{entry.help}\n")
        else:
            parts.append(f"{level} {path}\n\n```\n{entry.help_text(path)}\n```\n")
    return "\n".join(parts)


def main() -> None:
    for document in SESSIONS:
        text = _BLOCK.sub(lambda found: found[1] + recorded(found[2]) + found[3], document.read_text())
        document.write_text(text)
    REFERENCE.write_text(reference())
    api_reference.write()
    metrics_reference.write()


if __name__ == "__main__":
    main()
