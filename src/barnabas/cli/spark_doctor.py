"""``barnabas spark doctor``: checks that Spark can reach and use a cluster."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated

from barnabas.cli.command import Option
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.output import Bad, CommandError, Exit, Format, UsageError, print_json, print_table
from barnabas.cli.spark_run import COULD_NOT, WRONG, Conf, Master, servers_of, spark_session
from barnabas.spark.jobs import doctor as job


def doctor(
    topics: Annotated[
        list[str] | None,
        Option("--topic", metavar="TOPIC", help="Show the user's rights on this topic; may be repeated."),
    ] = None,
    without_spark: Annotated[bool, Option("--without-spark", help="Start no JVM and check no executors.")] = False,
    at: Reach = HERE,
    master: Master = "local[*]",
    conf: Conf = None,
    output: OutputFormat = Format.text,
) -> None:
    """Show what keeps Spark from using a cluster, and the remedy; exit 1 if something is wrong, 2 if the check
    failed."""
    found = list(_looked(servers_of(at), topics or [], master, None if without_spark else (conf or [])))
    if output is Format.json:
        print_json([finding._asdict() for finding in found])
    else:
        print_table(["what", "state", "says", "do"], [_cells(finding) for finding in found])
    states = {finding.state for finding in found}
    if job.WRONG in states:
        raise Exit(WRONG)
    if job.UNSEEN in states:
        raise Exit(COULD_NOT)


def _looked(
    servers: dict[str, str], topics: list[str], master: str, conf: list[str] | None
) -> Iterator[job.DoctorFinding]:
    """Runs the checks; with `conf` None the executors are left out."""
    here = list(job.of_this_machine())
    yield from here
    yield from job.of_the_cluster(servers, topics, local=master.startswith("local"))
    if conf is None:
        return
    if any(finding.state == job.WRONG for finding in here):
        yield job.DoctorFinding("executors", job.UNSEEN, "Spark does not start without the above")
        return
    try:
        with spark_session("doctor", master, conf) as spark:
            yield from job.of_the_executors(spark, servers)
    except UsageError:
        raise
    except CommandError as error:
        yield job.DoctorFinding("executors", job.WRONG, str(error).rstrip("."), "look at --master and --conf")


def _cells(found: job.DoctorFinding) -> list[str]:
    state = found.state if found.state == job.OK else Bad(found.state)
    return [found.what, state, found.says, found.do]
