"""``barnabas config``: the configurations of topics and brokers."""

from __future__ import annotations

from typing import Annotated

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin
from barnabas.cli.options import HERE, OutputFormat, Reach, pairs_of
from barnabas.cli.output import CommandError, Format, print_json, print_table, say
from barnabas.client.admin import ResourceType
from barnabas.model.config import AlterOperation

app = CommandGroup("Configurations of topics and brokers.")

_SOURCES = {1: "topic", 2: "broker", 3: "all brokers", 4: "server.properties", 5: "default"}

Resource = Annotated[str, Argument(metavar="topic:NAME|broker:ID", complete="resource")]


def parse_resource(text: str) -> tuple[ResourceType, str]:
    kind, colon, name = text.partition(":")
    if colon and name and kind == "topic":
        return ResourceType.TOPIC, name
    if colon and kind == "broker" and (name.isdigit() or name in ("", "all")):
        return ResourceType.BROKER, "" if name == "all" else name
    raise CommandError(f"{text!r} does not name a resource: use topic:NAME, broker:ID or broker:all.", 2)


@app.command("describe")
def describe(
    resource: Resource,
    at: Reach = HERE,
    everything: Annotated[bool, Option("-a", "--all", help="Defaults too.")] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Show a resource's configuration: the values that were set, or with --all every value."""
    kind, name = parse_resource(resource)

    found = with_admin(at, lambda admin: admin.describe_configs(kind, name))
    entries = [entry for entry in found if everything or not entry.is_default]
    if output is Format.json:
        print_json(
            [
                {
                    "name": entry.name,
                    "value": entry.value,
                    "source": _SOURCES.get(entry.source, str(entry.source)),
                    "read_only": entry.read_only,
                    "sensitive": entry.sensitive,
                }
                for entry in entries
            ]
        )
    else:
        rows = [[entry.name, entry.value or "", _SOURCES.get(entry.source, entry.source)] for entry in entries]
        print_table(["key", "value", "source"], rows)


@app.command("alter")
def alter(
    resource: Resource,
    at: Reach = HERE,
    changes: Annotated[list[str] | None, Option("--set", metavar="K=V", help="May be repeated.")] = None,
    deletions: Annotated[
        list[str] | None,
        Option("--delete", metavar="K", help="Set this configuration back to its default; may be repeated."),
    ] = None,
    output: OutputFormat = Format.text,
) -> None:
    """Change a resource's configuration."""
    kind, name = parse_resource(resource)
    wanted: list[tuple[AlterOperation, str, str | None]] = [
        (AlterOperation.SET, key, value) for key, value in pairs_of(changes or (), "--set").items()
    ]
    wanted += [(AlterOperation.DELETE, key, None) for key in deletions or ()]
    if not wanted:
        raise CommandError("Nothing to alter: give --set K=V or --delete K.", 2)

    with_admin(at, lambda admin: admin.alter_configs(kind, name, wanted))
    say(output, {"resource": resource, "altered": [key for _, key, _ in wanted]}, f"altered {resource}")
