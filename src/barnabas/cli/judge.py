"""``barnabas judge``: a verdict on any broker that speaks Kafka, by what its clients saw."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Annotated

from barnabas.cli.command import Argument, Group
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import CommandError, Exit, Format, print_json


class _Judge(Group):
    """Its commands end with 0 where all is well, 1 where an anomaly was found, 2 where they could not judge."""

    def run(self, path: str, words: Sequence[str]) -> int:
        try:
            return super().run(path, words)
        except ModuleNotFoundError as error:
            raise CommandError(
                f"{path} needs {error.name}, which is not installed: `pip install 'barnabas[judge]'`.", 2
            ) from None


app = _Judge("A verdict on any broker that speaks Kafka, by what its clients saw.")


@app.command("check")
def check_command(
    path: Annotated[Path, Argument(metavar="HISTORY", help="A history that `judge run` has written.")],
    output: OutputFormat = Format.text,
) -> None:
    """Looks for anomalies in a history: by Jepsen's and Adya's names, with the rows that show them.

    Exit code 0: none beyond known limits. 1: at least one. 2: there is no such history.
    """
    from barnabas.judge.check import check
    from barnabas.judge.history import HistoryError, read
    from barnabas.judge.report import text

    try:
        verdict = check(read(path))
    except HistoryError as error:
        raise CommandError(f"{error}.", 2) from None
    except OSError as error:
        raise CommandError(f"{path} cannot be read ({error.strerror or error}).", 2) from None
    if output is Format.json:
        print_json(verdict.as_json())
    else:
        print(*text(verdict), sep="\n")
    raise Exit(0 if verdict.good else 1)
