"""``barnabas spark init|run|check|migrate-checkpoint``: users' own projects, programs and checkpoints."""

from __future__ import annotations

import os
import traceback
from contextlib import suppress
from pathlib import Path
from typing import Annotated

from barnabas.cli import secured
from barnabas.cli.command import Argument, Option
from barnabas.cli.connect import BOOTSTRAP, COMMAND_CONFIG, settings_of
from barnabas.cli.options import HERE, OutputFormat, Reach, pairs_of
from barnabas.cli.output import CommandError, Exit, Format, UsageError, complain, print_json, print_table
from barnabas.cli.spark_run import WRONG, Conf, Master
from barnabas.spark.reasons import reason


def init(
    project: Annotated[Path, Argument(metavar="DIR", help="The project's directory, new or empty.")],
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Make an example project for spark-pipelines: topic, streaming table, materialized view, topic."""
    from barnabas.spark.jobs import JobError
    from barnabas.spark.jobs.project import make_project

    settings = settings_of(at)
    servers = at.servers(*(settings.get(name) for name in BOOTSTRAP))
    client = at.command_config or os.environ.get(COMMAND_CONFIG) or at.own_profile(secured.CLIENT)
    try:
        files = make_project(project, servers, None if client is None else Path(client))
    except JobError as error:
        raise CommandError(f"{str(error).rstrip('.')}.") from None
    if output is Format.json:
        print_json({"directory": str(project), "files": [str(file) for file in files]})
    else:
        print(*files, sep="\n")
        print(f"Run it as {project / 'README.md'} says.")


def run(
    what: Annotated[
        Path, Argument(metavar="DIR|PROGRAM.py", help="A project with a spark-pipeline.yml, or a program.")
    ],
    words: Annotated[list[str] | None, Argument(metavar="WORD..", help="The program's own arguments.")] = None,
    restart: Annotated[
        int,
        Option("--restart", min=0, help="How often a program is run again, in the same session, if its query fails."),
    ] = 0,
    master: Master = "local[*]",
    conf: Conf = None,
) -> None:
    """Run a project of declarative pipelines, or a program, with Barnabas' Java and Python."""
    from barnabas.spark.jobs import JobError
    from barnabas.spark.jobs.project import run_project
    from barnabas.spark.session import SparkUnavailable

    if what.suffix == ".py":
        _run_program(what, words or [], restart, master, conf)
        return
    if restart or words:
        raise UsageError("--restart and WORD.. need a program: spark-pipelines restarts failed flows by itself.")
    try:
        code = run_project(what, master)
    except (JobError, SparkUnavailable) as error:
        raise CommandError(f"{str(error).rstrip('.')}.") from None
    raise Exit(WRONG if code else 0)


def _run_program(program: Path, words: list[str], restart: int, master: str, conf: list[str] | None) -> None:
    from barnabas.spark.jobs.program import run_program
    from barnabas.spark.session import SparkUnavailable, session

    if not program.is_file():
        raise CommandError(f"There is no program {program}.")
    try:
        spark = session(program.stem, master=master, config=pairs_of(conf or (), "--conf"))
    except SparkUnavailable as error:
        raise CommandError(str(error)) from None
    try:
        run_program(
            spark, program, words, restart=restart, told=lambda why: complain(f"{why.rstrip('.')}. Begun again.")
        )
    except SystemExit as ended:
        raise Exit(ended.code if isinstance(ended.code, int) else 0 if ended.code is None else 1) from None
    except Exception as error:
        if type(error).__name__ == "StreamingQueryException":
            complain(f"{reason(error).rstrip('.')}.")
            raise Exit(WRONG) from None
        traceback.print_exc()  # the program's own trace
        raise Exit(WRONG) from None
    finally:
        with suppress(Exception):  # the program may have stopped its session already
            spark.stop()


def check(
    programs: Annotated[list[Path], Argument(metavar="PROGRAM.py..", help="Programs in Python.")],
    output: OutputFormat = Format.text,
) -> None:
    """Show what programs for the official connector must change; exit 1 if it is more than the format's name."""
    from barnabas.spark.jobs import JobError
    from barnabas.spark.jobs import check as job

    found = []
    for program in programs:
        try:
            found += [(program, finding) for finding in job.check(program.read_text(encoding="utf-8"), str(program))]
        except OSError as error:
            raise CommandError(f"{program} cannot be read: {error.strerror}.") from None
        except (JobError, UnicodeDecodeError) as error:
            raise CommandError(f"{str(error).rstrip('.')}.") from None
    if output is Format.json:
        print_json([{"program": str(program), **finding._asdict()} for program, finding in found])
    else:
        print_table(
            ["place", "what", "", "says"],
            [
                [f"{program}:{finding.line}", finding.what, "change" if finding.must else "", finding.says]
                for program, finding in found
            ],
        )
    if any(finding.must for _, finding in found):
        raise Exit(WRONG)


def migrate_checkpoint(
    checkpoint: Annotated[
        Path, Argument(metavar="CHECKPOINT", help="The checkpoint directory of a query that does not run.")
    ],
    to: Annotated[Path, Option("--to", metavar="DIR", help="The directory for the copy; it must not exist.")],
    back: Annotated[bool, Option("--back", help="Convert from format('barnabas') to format('kafka').")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Copy a checkpoint of format("kafka") to one of format("barnabas"); offsets, state and query id are kept."""
    from barnabas.spark.checkpoint import CheckpointError, migrate

    try:
        done = migrate(checkpoint, to, back=back)
    except CheckpointError as error:
        raise CommandError(f"{error}.") from None
    if output is Format.json:
        print_json({"checkpoint": str(to), **done._asdict()})
        return
    print(f"{to}: {done.batches} batches")
    print_table(
        ["source", "topic", "partition", "goes on at"],
        [
            [source, topic, partition, offset]
            for source, topics in sorted(done.sources.items())
            for topic, offsets in topics.items()
            for partition, offset in offsets.items()
        ],
    )
