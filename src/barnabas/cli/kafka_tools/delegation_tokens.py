"""``kafka-delegation-tokens``: creates, renews, expires and describes delegation tokens.

Source: ``org.apache.kafka.tools.DelegationTokenCommand``.
"""

from __future__ import annotations

import base64
import time
from collections.abc import Sequence

from barnabas.cli.kafka_tools.errors import JavaError, end_with, illegal_argument, of_futures
from barnabas.cli.kafka_tools.options import OptionParser, ToolOption
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import load_properties, with_admin
from barnabas.client.admin_security import DelegationToken
from barnabas.security.principal import Principal

_ROW = "\n%-15s %-30s %-15s %-15s %-25s %-15s %-15s %-15s"


class _Words:
    def __init__(self, words: list[str]) -> None:
        parser = OptionParser()
        self.server = parser.takes("bootstrap-server", "REQUIRED: the brokers to ask first.")
        self.config_file = parser.takes(
            "command-config",
            "REQUIRED: a file of client properties. The client must log in, or brokers give it no token.",
        )
        self.create = parser.flag("create", "Make a token.")
        self.renew = parser.flag("renew", "Extend a token's life.")
        self.expire = parser.flag("expire", "End a token's life earlier, or at once.")
        self.describe = parser.flag("describe", "Show tokens.")
        self.owner = parser.takes("owner-principal", "The owner of the tokens, as User:name.", optional=True)
        self.renewer = parser.takes("renewer-principal", "A user who may renew the token, as User:name.", optional=True)
        self.max_life = parser.takes(
            "max-life-time-period",
            "The token's longest life in milliseconds; -1: delegation.token.max.lifetime.ms.",
            kind="Long",
            optional=True,
        )
        self.renew_period = parser.takes(
            "renew-time-period",
            "How much longer the token lives, in milliseconds; -1: delegation.token.expiry.time.ms.",
            kind="Long",
            optional=True,
        )
        self.expiry_period = parser.takes(
            "expiry-time-period",
            "When the token expires, in milliseconds from now; -1: at once.",
            kind="Long",
            optional=True,
        )
        self.hmac = parser.takes("hmac", "The token's HMAC in base64.", optional=True)
        options = self.options = parser.read(
            words, "This tool helps to create, renew, expire, or describe delegation tokens."
        )
        actions = (self.create, self.renew, self.expire, self.describe)
        if sum(options.has(action) for action in actions) != 1:
            parser.usage_and_exit("Command must include exactly one action: --create, --renew, --expire or --describe")
        parser.require(options, self.server, self.config_file)
        needs: dict[ToolOption, tuple[ToolOption, ...]] = {
            self.create: (self.max_life,),
            self.renew: (self.hmac, self.renew_period),
            self.expire: (self.hmac, self.expiry_period),
        }
        refuses: dict[ToolOption, tuple[ToolOption, ...]] = {
            self.create: (self.hmac, self.renew_period, self.expiry_period),
            self.renew: (self.renewer, self.max_life, self.expiry_period, self.owner),
            self.expire: (self.renew, self.max_life, self.renew_period, self.owner),
            self.describe: (self.renew_period, self.max_life, self.hmac, self.expiry_period),
        }
        for action in actions:
            if options.has(action):
                parser.require(options, *needs.get(action, ()))
        for action in actions:
            parser.forbid(options, action, refuses[action])

    def principals(self, option: ToolOption) -> list[Principal]:
        if not self.options.has(option):
            return []
        try:
            return [Principal.parse(str(name).strip()) for name in self.options.values(option)]
        except ValueError as error:
            raise illegal_argument(str(error)) from None


def main(words: list[str]) -> int:
    given = _Words(words)
    try:
        properties = load_properties(given.options.value(given.config_file))
        properties["bootstrap.servers"] = given.options.value(given.server)
        with_admin(properties, lambda admin: _run(admin, given), call="delegationToken")
    except JavaError as error:
        end_with(error.message)
    return 0


@of_futures
async def _run(admin: ToolAdmin, given: _Words) -> None:
    if given.options.has(given.create):
        await _create(admin, given)
    elif given.options.has(given.describe):
        await _describe(admin, given)
    else:
        await _change(admin, given)


async def _create(admin: ToolAdmin, given: _Words) -> None:
    renewers, lifetime_ms = given.principals(given.renewer), given.options.value(given.max_life)
    shown = f"[{', '.join(map(str, renewers))}]"
    print(f"Calling create token operation with renewers :{shown} , max-life-time-period :{lifetime_ms}")
    owners = given.principals(given.owner)
    made = await admin.create_delegation_token(
        owner=owners[0] if owners else None, renewers=renewers, lifetime_ms=lifetime_ms
    )
    print(f"Created delegation token with tokenId : {made.token_id}")
    _print([made])


async def _change(admin: ToolAdmin, given: _Words) -> None:
    kind = "renew" if given.options.has(given.renew) else "expire"
    period_ms = given.options.value(given.renew_period if kind == "renew" else given.expiry_period)
    text = given.options.value(given.hmac)
    word = "renew" if kind == "renew" else "expiry"
    print(f"Calling {kind} token operation with hmac :{text} , {kind}-time-period :{period_ms}")
    try:
        mac = base64.b64decode(text, validate=True)
    except ValueError:
        raise illegal_argument(f"Illegal base64 character in {text}") from None
    change = admin.renew_delegation_token if word == "renew" else admin.expire_delegation_token
    ends = await change(mac, period_ms)
    print(f"Completed {kind} operation. New expiry date : {_date(ends)}", end="")


async def _describe(admin: ToolAdmin, given: _Words) -> None:
    owners = given.principals(given.owner)
    if owners:
        print(f"Calling describe token operation for owners: [{', '.join(map(str, owners))}]")
    else:
        print("Calling describe token operation for current user.")
    # Without owners Kafka's tool sends an empty list, for which brokers return no tokens.
    tokens = await admin.delegation_tokens(owners)
    print(f"Total number of tokens : {len(tokens)}", end="")
    _print(tokens)


def _print(tokens: Sequence[DelegationToken]) -> None:
    heads = ("TOKENID", "HMAC", "OWNER", "REQUESTER", "RENEWERS", "ISSUEDATE", "EXPIRYDATE", "MAXDATE")
    print(_ROW % heads)
    for token in tokens:
        print(
            _ROW
            % (
                token.token_id,
                base64.b64encode(token.hmac).decode(),
                token.owner,
                token.requester,
                f"[{', '.join(map(str, token.renewers))}]",
                *map(_date, (token.issue_ms, token.expiry_ms, token.max_ms)),
            )
        )


def _date(ms: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M", time.localtime(ms // 1000))
