"""``kafka-features``: the levels of the cluster's features (``org.apache.kafka.tools.FeatureCommand``, KIP-584)."""

from __future__ import annotations

import argparse
from typing import Final

from barnabas.cli.kafka_tools.arguments import Parser
from barnabas.cli.kafka_tools.errors import JavaError, end_with, java_error
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.client.descriptions import FeatureUpgrade
from barnabas.model.errors import KafkaError

_METADATA: Final = "metadata.version"
_LEVELS: Final = (
    "3.0-IV1", "3.1-IV0", "3.2-IV0", "3.3-IV0", "3.3-IV1", "3.3-IV2", "3.3-IV3", "3.4-IV0", "3.5-IV0", "3.5-IV1",
    "3.5-IV2", "3.6-IV0", "3.6-IV1", "3.6-IV2", "3.7-IV0", "3.7-IV1", "3.7-IV2", "3.7-IV3", "3.7-IV4", "3.8-IV0",
    "3.9-IV0", "4.0-IV0", "4.0-IV1", "4.0-IV2", "4.0-IV3",
)  # fmt: skip
"""The names of metadata.version's levels in Kafka 3.9, from level 1 on."""
_FIRST_BOOTSTRAP: Final = _LEVELS.index("3.3-IV0")
_LAST_PRODUCTION: Final = _LEVELS.index("3.9-IV0")


def _parser() -> Parser:
    parser = Parser(prog="kafka-features", description="This tool shows and changes feature levels.", help_code=0)
    servers = parser.add_mutually_exclusive_group(required=True)
    servers.add_argument("--bootstrap-server", help="the brokers to ask first")
    servers.add_argument("--bootstrap-controller", help="the KRaft controllers to ask first")
    parser.add_argument("--command-config", help="a file of client properties")
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("describe", help="show the levels")
    for name, text in (("upgrade", "raise levels"), ("downgrade", "lower levels"), ("disable", "lower levels to 0")):
        command = commands.add_parser(name, help=text)
        if name != "disable":
            command.add_argument("--metadata", help="the level of metadata.version, such as 3.3-IV3")
        command.add_argument("--feature", action="append", help="feature=level, or for disable the feature")
        if name != "upgrade":
            command.add_argument("--unsafe", action="store_true", help="downgrade even if metadata are lost")
        command.add_argument("--dry-run", action="store_true", help="only check whether the change is possible")
    return parser


def main(words: list[str]) -> int:
    given = _parser().parse(words)
    try:
        if given.bootstrap_controller is not None:
            end_with("Barnabas has no KRaft controllers: use --bootstrap-server.")
        properties = client_properties(given.command_config, given.bootstrap_server)
        if given.command == "describe":
            with_admin(properties, _describe, call="describeFeatures")
        else:
            upgrades = _upgrades(given)
            with_admin(properties, lambda admin: _update(admin, given, upgrades), call="updateFeatures")
    except JavaError as error:
        end_with(error.message)
    return 0


def _level(feature: str, level: int) -> str:
    if feature != _METADATA:
        return str(level)
    return _LEVELS[level - 1] if 1 <= level <= len(_LEVELS) else f"UNKNOWN {level}"


async def _describe(admin: ToolAdmin) -> None:
    versions = next(iter((await admin.api_versions()).values()))
    if isinstance(versions, KafkaError):
        raise java_error(versions)
    epoch = versions.finalized_features_epoch
    for feature, supported in sorted(versions.supported_features.items()):
        finalized = versions.finalized_features.get(feature)
        level = 0 if finalized is None else finalized.highest
        print(
            f"Feature: {feature}\tSupportedMinVersion: {_level(feature, supported.lowest)}\tSupportedMaxVersion: "
            f"{_level(feature, supported.highest)}\tFinalizedVersionLevel: {_level(feature, level)}\tEpoch: "
            f"{epoch if epoch >= 0 else '-'}"
        )


def _upgrades(given: argparse.Namespace) -> dict[str, FeatureUpgrade]:
    down = given.command != "upgrade"
    unsafe = down and given.unsafe
    upgrades: dict[str, FeatureUpgrade] = {}
    if given.command != "disable" and given.metadata is not None:
        if given.metadata not in _LEVELS:
            supported = ", ".join(_LEVELS[_FIRST_BOOTSTRAP : _LAST_PRODUCTION + 1])
            end_with(f"Unsupported metadata.version {given.metadata}. Supported metadata.version are {supported}")
        upgrades[_METADATA] = FeatureUpgrade(_LEVELS.index(given.metadata) + 1, down, unsafe)
    for text in given.feature or ():
        name, level = (text, 0) if given.command == "disable" else _name_and_level(text)
        if name in upgrades:
            end_with(f"Feature {name} was specified more than once.")
        upgrades[name] = FeatureUpgrade(level, down, unsafe)
    if not upgrades:
        end_with(f"You must specify at least one feature to {given.command}")
    return upgrades


def _name_and_level(text: str) -> tuple[str, int]:
    name, equals, level = text.partition("=")
    if not equals:
        end_with(f"Can't parse feature=level string {text}: equals sign not found.")
    level = level.strip()
    if not level.lstrip("+-").isdigit() or not -32768 <= int(level) <= 32767:
        end_with(f"Can't parse feature=level string {text}: unable to parse {level} as a short.")
    return name.strip(), int(level)


async def _update(admin: ToolAdmin, given: argparse.Namespace, upgrades: dict[str, FeatureUpgrade]) -> None:
    outcomes: dict[str, KafkaError | None]
    try:
        outcomes = await admin.update_features(upgrades, validate_only=given.dry_run)
    except KafkaError as error:
        outcomes = dict.fromkeys(upgrades, error)
    failed = 0
    for feature, outcome in sorted(outcomes.items()):
        to = "" if given.command == "disable" else f" to {upgrades[feature].level}"
        if outcome is not None:
            failed += 1
            begin = "Can not" if given.dry_run else "Could not"
            print(f"{begin} {given.command} {feature}{to}. {java_error(outcome).message}")
        else:
            print(f"{feature} {'can be' if given.dry_run else 'was'} {given.command}d{to}.")
    if failed:
        end_with(f"{failed} out of {len(upgrades)} operation(s) failed.")
