"""Kafka's tools by their names. Every command imports this module, so it imports nothing slow."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import Final

TOOLS: Final[dict[str, str]] = {
    "kafka-acls": "acls",
    "kafka-broker-api-versions": "broker_api_versions",
    "kafka-configs": "configs",
    "kafka-console-consumer": "console_consumer",
    "kafka-console-producer": "console_producer",
    "kafka-consumer-groups": "consumer_groups",
    "kafka-consumer-perf-test": "consumer_perf_test",
    "kafka-delegation-tokens": "delegation_tokens",
    "kafka-delete-records": "delete_records",
    "kafka-dump-log": "dump_log",
    "kafka-features": "features",
    "kafka-get-offsets": "get_offsets",
    "kafka-leader-election": "leader_election",
    "kafka-log-dirs": "log_dirs",
    "kafka-producer-perf-test": "producer_perf_test",
    "kafka-reassign-partitions": "reassign_partitions",
    "kafka-topics": "topics",
    "kafka-transactions": "transactions",
    "kafka-verifiable-consumer": "verifiable_consumer",
    "kafka-verifiable-producer": "verifiable_producer",
}
"""A tool's name, and the module of this package that has its ``main``."""


ITSELF: Final = "kafka-tools"
"""The command that makes the tools' names into commands on PATH."""


def without_suffix(name: str) -> str:
    return name.removesuffix(".sh")


def is_kafka_tool(name: str) -> bool:
    return name == ITSELF or without_suffix(name) in TOOLS


def run_kafka_tool(name: str, arguments: Sequence[str]) -> int:
    """Runs the tool. Returns its exit code."""
    import importlib

    from barnabas.cli.kafka_tools.errors import JavaError, ToolExit, told_as_uncaught
    from barnabas.cli.output import discard

    place = "link" if name == ITSELF else TOOLS[without_suffix(name)]
    module = importlib.import_module(f"barnabas.cli.kafka_tools.{place}")
    code = 0
    try:
        code = module.main(list(arguments)) or 0
    except ToolExit as error:
        code = error.code
    except JavaError as error:
        code = told_as_uncaught(error)
    except KeyboardInterrupt:
        code = 130
    except BrokenPipeError:
        discard(sys.stdout)  # the reader has closed the pipe
        return 0
    sys.stdout.flush()
    return code
