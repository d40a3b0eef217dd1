"""``kafka-consumer-groups``: its options, checked as Kafka's ``ConsumerGroupCommandOptions`` checks them."""

from __future__ import annotations

import sys
from collections.abc import Iterable

from barnabas.cli.kafka_tools.options import OptionParser, Options, ToolOption, ToolWords, as_set


def _joined(options: Iterable[ToolOption]) -> str:
    return ", ".join(map(str, options))


class ConsumerGroupWords(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.server = parser.takes("bootstrap-server", "REQUIRED: the brokers to ask first.", "server to connect to")
        self.group = parser.takes("group", "A group; may be repeated.", "consumer group")
        self.topic = parser.takes("topic", "A topic, or some of its partitions: topic:0,1,2; may be repeated.", "topic")
        self.all_topics = parser.flag("all-topics", "Every topic for which the group has committed offsets.")
        self.list = parser.flag("list", "Name all groups.")
        self.describe = parser.flag("describe", "Show groups: their committed offsets and their lag.")
        self.all_groups = parser.flag("all-groups", "Every group.")
        self.delete = parser.flag("delete", "Delete groups and their committed offsets.")
        self.timeout = parser.takes(
            "timeout", "How long to wait for brokers and for a group to settle.", "timeout (ms)", kind="Long",
            default=5000,
        )  # fmt: skip
        self.config_file = parser.takes(
            "command-config", "A file of client properties.", "command config property file"
        )
        self.reset_offsets = parser.flag(
            "reset-offsets",
            "Change the committed offsets of a group without members: --execute commits the new offsets, --dry-run "
            "shows them.",
        )
        self.delete_offsets = parser.flag("delete-offsets", "Delete a group's committed offsets of topics.")
        self.dry_run = parser.flag("dry-run", "Only show the new offsets.")
        self.execute = parser.flag("execute", "Commit the new offsets.")
        self.export = parser.flag("export", "Print the new offsets as CSV.")
        self.to_offset = parser.takes("to-offset", "To this offset.", "offset", kind="Long")
        self.from_file = parser.takes("from-file", "To the offsets in a CSV file.", "path to CSV file")
        self.to_datetime = parser.takes(
            "to-datetime", "To the offsets of this time, YYYY-MM-DDTHH:mm:SS.sss", "datetime"
        )
        self.by_duration = parser.takes("by-duration", "To the offsets of this duration ago, PnDTnHnMnS", "duration")
        self.to_earliest = parser.flag("to-earliest", "To the first offsets.")
        self.to_latest = parser.flag("to-latest", "To the ends.")
        self.to_current = parser.flag("to-current", "To the committed offsets.")
        self.shift_by = parser.takes(
            "shift-by", "Forward by this number of offsets, or back if negative.", "number-of-offsets", kind="Long"
        )
        only = (self.describe,)
        self.members = parser.flag("members", "Show the members.", available_if=only)
        self.verbose = parser.flag("verbose", "Also show the members' partitions.", available_if=only)
        self.offsets = parser.flag("offsets", "Show the offsets, which is the default.", available_if=only)
        self.state = parser.takes(
            "state", "Show the state; with --list, of all groups or those in these states.", optional=True,
            available_if=(self.describe, self.list),
        )  # fmt: skip
        self.type = parser.takes(
            "type", "With --list: show the types of all groups, or those of these types.", optional=True,
            available_if=(self.list,),
        )  # fmt: skip
        self._group()
        self.options = parser.read(
            words,
            "This tool helps to list all consumer groups, describe a consumer group, delete consumer group info, or "
            "reset consumer group offsets.",
        )
        self._check(self.options)
        self._check_action(self.options)

    def _group(self) -> None:
        """Options that Kafka's tool keeps in a set, and names in its errors in that set's order."""
        self.selections = as_set((self.group, self.all_groups))
        self.levels = as_set((self.list, self.describe, self.delete, self.reset_offsets))
        self.scenarios = as_set(
            (
                self.to_offset,
                self.shift_by,
                self.to_datetime,
                self.by_duration,
                self.to_earliest,
                self.to_latest,
                self.to_current,
                self.from_file,
            )
        )

    @property
    def timeout_ms(self) -> int:
        return int(self.value(self.timeout))

    @property
    def groups(self) -> list[str]:
        return self.options.values(self.group)

    def _check(self, options: Options) -> None:
        parser = self.parser
        parser.require(options, self.server)
        if options.has(self.describe):
            self._check_describe(options)
        if options.has(self.delete):
            if not options.has_any(self.selections):
                parser.usage_and_exit(f"Option {self.delete} takes one of these options: {_joined(self.selections)}")
            if options.has(self.topic):
                parser.usage_and_exit(
                    "The consumer does not support topic-specific offset deletion from a consumer group."
                )
        if options.has(self.delete_offsets) and not (options.has(self.group) and options.has(self.topic)):
            parser.usage_and_exit(
                f"Option {self.delete_offsets} takes the following options: {_joined(self.selections)}"
            )
        if options.has(self.reset_offsets):
            self._check_reset(options)
        parser.forbid(options, self.group, [selection for selection in self.selections if selection is not self.group])
        others = [level for level in self.levels if level not in (self.delete, self.reset_offsets)]
        parser.forbid(options, self.group, [other for other in others if other is not self.describe])
        parser.forbid(options, self.topic, others)

    def _check_describe(self, options: Options) -> None:
        if not options.has_any(self.selections):
            self.parser.usage_and_exit(f"Option {self.describe} takes one of these options: {_joined(self.levels)}")
        views = (self.members, self.offsets, self.state)
        if sum(map(options.has, views)) > 1:
            self.parser.usage_and_exit(f"Option {self.describe} takes at most one of these options: {_joined(views)}")
        if options.has(self.state) and options.value(self.state) is not None:
            self.parser.usage_and_exit(f"Option {self.describe} does not take a value for {self.state}")

    def _check_reset(self, options: Options) -> None:
        if options.has(self.dry_run) and options.has(self.execute):
            self.parser.usage_and_exit(
                f"Option {self.reset_offsets} only accepts one of {self.execute} and {self.dry_run}"
            )
        if not options.has(self.dry_run) and not options.has(self.execute):
            print(
                "WARN: No action will be performed as the --execute option is missing.In a future major release, the "
                "default behavior of this command will be to prompt the user before executing the reset rather than "
                "doing a dry run. You should add the --dry-run option explicitly if you are scripting this command "
                "and want to keep the current default behavior without prompting.",
                file=sys.stderr,
            )
        if not options.has_any(self.selections):
            self.parser.usage_and_exit(
                f"Option {self.reset_offsets} takes one of these options: {_joined(self.selections)}"
            )
        ordered = (
            self.to_offset,
            self.to_datetime,
            self.by_duration,
            self.to_earliest,
            self.to_latest,
            self.to_current,
            self.shift_by,
            self.from_file,
        )
        for scenario in ordered:
            self.parser.forbid(options, scenario, [other for other in self.scenarios if other is not scenario])

    def _check_action(self, options: Options) -> None:
        actions = (self.list, self.describe, self.delete, self.reset_offsets, self.delete_offsets)
        if sum(map(options.has, actions)) != 1:
            self.parser.usage_and_exit(
                "Command must include exactly one action: --list, --describe, --delete, --reset-offsets, "
                "--delete-offsets"
            )
