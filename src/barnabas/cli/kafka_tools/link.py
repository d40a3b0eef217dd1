"""``barnabas kafka-tools link DIR``: makes commands of the names of Kafka's tools, for scripts that call them."""

from __future__ import annotations

import shlex
from pathlib import Path
from typing import Annotated

from barnabas.cli.command import Argument, CommandGroup
from barnabas.cli.kafka_tools.names import TOOLS
from barnabas.cli.output import CommandError
from barnabas.runtime.started_process import PYTHON

app = CommandGroup("Kafka's tools as commands by their own names.")


@app.command("list")
def list_() -> None:
    """List the tools."""
    print("\n".join(sorted(TOOLS)))


@app.command("link")
def link(directory: Annotated[str, Argument(metavar="DIR", help="The directory for the commands.")]) -> None:
    """Write kafka-topics, kafka-topics.sh and so on into a directory for PATH."""
    place = Path(directory)
    try:
        place.mkdir(parents=True, exist_ok=True)
        for name in sorted(TOOLS):
            for file in (place / name, place / f"{name}.sh"):
                _write(file, name)
    except OSError as error:
        raise CommandError(f"{place} cannot be written to: {error}.") from None
    print(f"{2 * len(TOOLS)} commands are in {place}: put it into PATH.")


def _write(file: Path, name: str) -> None:
    """Writes a tool's script; never overwrites another file, such as Kafka's own script."""
    if file.exists() and " -m barnabas kafka-" not in file.read_text(errors="replace"):
        raise CommandError(f"{file} exists and is not a script of this command: name another directory.")
    file.write_text(f'#!/bin/sh\nexec {shlex.join(PYTHON)} -m barnabas {name} "$@"\n')
    file.chmod(0o755)


def main(words: list[str]) -> int:
    return app.run("barnabas kafka-tools", words)
