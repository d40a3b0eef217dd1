"""``barnabas user``: users who log in by SCRAM."""

from __future__ import annotations

import getpass
import sys
from collections.abc import Sequence
from typing import Annotated, Final

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.outcomes import as_json, fail, sorted_out
from barnabas.cli.output import CommandError, Format, UsageError, print_json, print_table, say
from barnabas.client.admin import Admin
from barnabas.model.errors import KafkaError
from barnabas.security.sasl.scram_credential import ITERATIONS_MAX, ITERATIONS_MIN, MECHANISMS

app = CommandGroup("Users who log in by SCRAM.")

DEFAULT_MECHANISM: Final = "SCRAM-SHA-512"
Name = Annotated[str, Argument(metavar="USER", help="The user's name, without User:.")]


@app.command("list")
def list_(
    users: Annotated[list[str] | None, Argument(metavar="USER..", help="All by default.")] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List users and the SCRAM mechanisms for which they have a password."""
    found, failed = sorted_out(with_admin(at, lambda admin: admin.scram_users(users or ())))
    rows = [
        {"user": user, "mechanism": mechanism.mechanism_name, "iterations": iterations}
        for user, mechanisms in found.items()
        for mechanism, iterations in mechanisms.items()
    ]
    if output is Format.json:
        print_json([*rows, *({"user": user, **as_json(error)} for user, error in failed.items())])
    elif rows:
        print_table(["user", "mechanism", "iterations"], [list(row.values()) for row in rows])
    fail(failed)


@app.command("set")
def set_(
    user: Name,
    mechanisms: Annotated[
        list[str] | None,
        Option("--mechanism", metavar="M", choices=tuple(MECHANISMS), help=f"{DEFAULT_MECHANISM} by default."),
    ] = None,
    iterations: Annotated[
        int,
        Option(
            "--iterations",
            metavar="N",
            min=ITERATIONS_MIN,
            help="SCRAM's iterations: more of them make it slower to guess the password.",
        ),
    ] = ITERATIONS_MIN,
    password: Annotated[
        str | None,
        Option(
            "--password",
            metavar="P",
            help="The password; by default it is asked for, or read from the standard input's first line.",
        ),
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Create a user, or change its password."""
    if iterations > ITERATIONS_MAX:
        raise UsageError(f"--iterations {iterations}: brokers allow at most {ITERATIONS_MAX}.")
    secret = _password(user) if password is None else password
    if not secret:
        raise CommandError("The password is empty: give one.")
    chosen = [MECHANISMS[name] for name in mechanisms or [DEFAULT_MECHANISM]]

    async def story(admin: Admin) -> None:
        for mechanism in chosen:
            await admin.set_scram_password(user, secret, mechanism, iterations=iterations)

    with_admin(at, story)
    _tell(output, user, [mechanism.mechanism_name for mechanism in chosen], "a password")


@app.command("delete")
def delete(
    user: Name,
    mechanisms: Annotated[
        list[str] | None,
        Option(
            "--mechanism",
            metavar="M",
            choices=tuple(MECHANISMS),
            help="By default all mechanisms for which the user has a password.",
        ),
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Delete a user's passwords. Open connections stay open until they must authenticate again."""

    async def story(admin: Admin) -> list[str]:
        chosen = [MECHANISMS[name] for name in mechanisms or ()]
        if not chosen:
            known = (await admin.scram_users([user]))[user]
            if isinstance(known, KafkaError):
                raise known
            chosen = list(known)
        await admin.delete_scram_passwords(user, chosen)
        return [mechanism.mechanism_name for mechanism in chosen]

    _tell(output, user, with_admin(at, story), "no password any more")


def _tell(output: Format, user: str, mechanisms: Sequence[str], what: str) -> None:
    say(output, {"user": user, "mechanisms": mechanisms}, f"{user} has {what} for {', '.join(mechanisms)}")


def _password(user: str) -> str:
    if sys.stdin.isatty():
        return getpass.getpass(f"Password of {user}: ")
    return sys.stdin.readline().rstrip("\r\n")
