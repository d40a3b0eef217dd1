"""``barnabas token``: delegation tokens, by which a user's programs log in without its password."""

from __future__ import annotations

import base64
import datetime
from collections.abc import Sequence
from typing import Annotated, Any

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.connect import with_admin
from barnabas.cli.group_reset import duration_ms
from barnabas.cli.options import HERE, OutputFormat, Reach
from barnabas.cli.output import Format, UsageError, print_json, print_table, say
from barnabas.client.admin_security import DelegationToken
from barnabas.security.principal import Principal

app = CommandGroup("Delegation tokens: create, renew and expire them.")

Hmac = Annotated[str, Argument(metavar="HMAC", help="The token's HMAC in base64, as `token create` printed it.")]


@app.command("create")
def create(
    owner: Annotated[
        str | None, Option("--owner", metavar="USER", help="The token's owner: by default the user of this command.")
    ] = None,
    renewers: Annotated[
        list[str] | None,
        Option("--renewer", metavar="USER", help="A user besides the owner who may renew it; may be repeated."),
    ] = None,
    lifetime: Annotated[
        str | None,
        Option(
            "--lifetime", metavar="P7D", help="The token's longest life, as P7D or 12h; by default the brokers' limit."
        ),
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Make a token. Its id is the user name and its HMAC the password of a SCRAM login with tokenauth=true."""
    lifetime_ms = -1 if lifetime is None else duration_ms(lifetime, "--lifetime")
    whose = None if owner is None else _principal(owner)
    may_renew = [_principal(renewer) for renewer in renewers or ()]
    made = with_admin(
        at,
        lambda admin: admin.create_delegation_token(owner=whose, renewers=may_renew, lifetime_ms=lifetime_ms),
    )
    if output is Format.json:
        print_json(_row(made))
        return
    print(f"token {made.token_id} of {made.owner}, until {_time(made.expiry_ms)}, renewable until {_time(made.max_ms)}")
    print(f"HMAC {base64.b64encode(made.hmac).decode()}")


@app.command("list")
def list_(
    owners: Annotated[
        list[str] | None, Argument(metavar="USER..", help="The owners; by default all tokens that the user may see.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """List tokens; only --format json shows their HMACs."""
    whose = [_principal(name) for name in owners or ()]
    found = with_admin(at, lambda admin: admin.delegation_tokens(whose or None))
    if output is Format.json:
        print_json([_row(token) for token in found])
    else:
        print_table(
            ["token", "owner", "requester", "renewers", "expires", "ends"],
            [
                [
                    token.token_id,
                    token.owner,
                    token.requester,
                    _names(token.renewers) or None,
                    _time(token.expiry_ms),
                    _time(token.max_ms),
                ]
                for token in found
            ],
        )


@app.command("renew")
def renew(
    hmac: Hmac,
    period: Annotated[
        str | None,
        Option("--for", metavar="P1D", help="How long the token lives from now on; by default the brokers' period."),
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Extend a token's life, up to its maximal lifetime."""
    period_ms, mac = -1 if period is None else duration_ms(period, "--for"), _mac(hmac)
    ends = with_admin(at, lambda admin: admin.renew_delegation_token(mac, period_ms))
    _tell_end(output, ends)


@app.command("expire")
def expire(
    hmac: Hmac,
    period: Annotated[
        str | None, Option("--in", metavar="1h", help="How long the token still lives; by default it expires at once.")
    ] = None,
    at: Reach = HERE,
    output: OutputFormat = Format.text,
) -> None:
    """Expire a token earlier, or at once."""
    period_ms, mac = -1 if period is None else duration_ms(period, "--in"), _mac(hmac)
    ends = with_admin(at, lambda admin: admin.expire_delegation_token(mac, period_ms))
    _tell_end(output, ends, gone=period is None)


def _tell_end(output: Format, ends_ms: int, *, gone: bool = False) -> None:
    say(output, {"expires_ms": ends_ms}, "the token is gone" if gone else f"valid until {_time(ends_ms)}")


def _principal(text: str) -> Principal:
    """``User:name``, or a name alone."""
    return Principal.parse(text) if text.startswith("User:") else Principal("User", text)


def _mac(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise UsageError(f"HMAC {text}: it is not base64.") from None


def _time(ms: int) -> str:
    return datetime.datetime.fromtimestamp(ms / 1000).astimezone().isoformat(timespec="seconds")


def _names(principals: Sequence[Principal]) -> str:
    return ", ".join(map(str, principals))


def _row(token: DelegationToken) -> dict[str, Any]:
    return {
        "token_id": token.token_id,
        "hmac": base64.b64encode(token.hmac).decode(),
        "owner": str(token.owner),
        "requester": str(token.requester),
        "renewers": [str(renewer) for renewer in token.renewers],
        "issued_ms": token.issue_ms,
        "expires_ms": token.expiry_ms,
        "ends_ms": token.max_ms,
    }
