"""``barnabas quota``: the quotas of users, clients and addresses."""

from __future__ import annotations

from typing import Annotated, Any, Final

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin
from barnabas.cli.options import HERE, OutputFormat, Reach, pairs_of
from barnabas.cli.output import CommandError, Format, UsageError, print_json, print_table

app = CommandGroup("Quotas: limits on what clients may send and ask for.")

KEYS: Final = {
    "produce": "producer_byte_rate",
    "fetch": "consumer_byte_rate",
    "request": "request_percentage",
    "mutation": "controller_mutation_rate",
    "connection": "connection_creation_rate",
}
_NAMES: Final = {key: name for name, key in KEYS.items()}

User = Annotated[
    str | None, Option("--user", metavar="NAME", help="A user; * for all users without a quota of their own.")
]
Client = Annotated[
    str | None, Option("--client", metavar="ID", help="A client id; with --user a client id of that user.")
]
Address = Annotated[
    str | None, Option("--ip", metavar="ADDRESS", help="An IP address, for `connection`; * for all other addresses.")
]


def entity_of(user: str | None, client: str | None, address: str | None) -> dict[str, str | None]:
    """Raises `UsageError`."""
    named = {"user": user, "client-id": client, "ip": address}
    entity = {kind: None if name == "*" else name for kind, name in named.items() if name is not None}
    if not entity or ("ip" in entity and len(entity) > 1):
        raise UsageError("Say whose quota: give --user, --client or both, or --ip.")
    return entity


def _key(name: str) -> str:
    if name not in KEYS and name not in _NAMES:
        raise UsageError(f"{name!r} is not a quota; the quotas are {', '.join(KEYS)}.")
    return KEYS.get(name, name)


@app.command("list")
def list_(at: Reach = HERE, output: OutputFormat = Format.text) -> None:
    """List quotas, in bytes a second, percent of a thread's time, partitions a second and connections a second."""
    found = with_admin(at, lambda admin: admin.describe_quotas())
    rows: list[dict[str, Any]] = [
        {
            **{kind: "*" if kind in entity and entity[kind] is None else entity.get(kind) for kind in _KINDS},
            "quota": _NAMES.get(key, key),
            "limit": value,
        }
        for entity, quotas in found
        for key, value in sorted(quotas.items())
    ]
    if output is Format.json:
        print_json(rows)
    elif rows:
        shown = [[row[kind] or "" for kind in _KINDS] + [row["quota"], f"{row['limit']:.15g}"] for row in rows]
        print_table([*_KINDS, "quota", "limit"], shown)


_KINDS: Final = ("user", "client-id", "ip")


@app.command("set")
def set_(
    limits: Annotated[list[str], Argument(metavar="QUOTA=LIMIT..", help=f"{', '.join(KEYS)}, each with a number.")],
    user: User = None,
    client: Client = None,
    address: Address = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Set quotas of a user, a client id, both together, an address, or the defaults."""
    changes: dict[str, float | None] = {}
    for name, text in pairs_of(limits, "QUOTA=LIMIT").items():
        try:
            changes[_key(name)] = float(text)
        except ValueError:
            raise UsageError(f"{name}={text}: a limit is a number.") from None
    _alter(entity_of(user, client, address), changes, at, output)


@app.command("remove")
def remove(
    quotas: Annotated[list[str], Argument(metavar="QUOTA..", help=f"{', '.join(KEYS)}.")],
    user: User = None,
    client: Client = None,
    address: Address = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Remove quotas."""
    _alter(entity_of(user, client, address), {_key(name): None for name in quotas}, at, output)


def _alter(entity: dict[str, str | None], changes: dict[str, float | None], at: Reach, output: Format) -> None:
    if "ip" in entity and changes.keys() != {KEYS["connection"]}:
        raise CommandError("An address can only have a quota of connections: connection=LIMIT.", 2)

    with_admin(at, lambda admin: admin.alter_quotas(entity, changes))
    if output is Format.json:
        print_json({"entity": entity, "quotas": {_NAMES[key]: value for key, value in changes.items()}})
    else:
        named = ", ".join(f"{kind} {'*' if name is None else name}" for kind, name in entity.items())
        print(
            f"{named}: "
            + ", ".join(f"{_NAMES[key]} {'removed' if v is None else f'{v:.15g}'}" for key, v in changes.items())
        )
