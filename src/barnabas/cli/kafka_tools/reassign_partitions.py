"""``kafka-reassign-partitions``: moves partitions to other brokers, and replicas to other log directories.

Source: ``org.apache.kafka.tools.reassign.ReassignPartitionsCommand``.
"""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

from barnabas.cli.kafka_tools.errors import (
    EXECUTION,
    JavaError,
    check_answer,
    in_future,
    java_error,
    java_error_of,
    of_futures,
    print_stack_trace,
    wrapped,
)
from barnabas.cli.kafka_tools.java import in_hash_order
from barnabas.cli.kafka_tools.json_files import ADMIN_COMMAND_FAILED, read_text
from barnabas.cli.kafka_tools.options import OptionParser, ToolOption, ToolWords
from barnabas.cli.kafka_tools.reassignment import (
    Assignment,
    ReassignmentPlan,
    ShownReplica,
    executable_plan,
    follower_throttles,
    leader_throttles,
    moves,
    parsed_plan,
    parsed_topics,
    proposed,
    reassignment_json,
)
from barnabas.cli.kafka_tools.requests import ToolAdmin
from barnabas.cli.kafka_tools.session import client_properties, with_admin
from barnabas.client.admin import ResourceType
from barnabas.client.descriptions import LogDirDescription
from barnabas.model.config import AlterOperation
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition

_TERSE: Final = "org.apache.kafka.tools.TerseException"
_LEADER_RATE: Final = "leader.replication.throttled.rate"
_FOLLOWER_RATE: Final = "follower.replication.throttled.rate"
_DIRS_RATE: Final = "replica.alter.log.dirs.io.max.bytes.per.second"
_LEADER_REPLICAS: Final = "leader.replication.throttled.replicas"
_FOLLOWER_REPLICAS: Final = "follower.replication.throttled.replicas"


class _Words(ToolWords):
    def __init__(self, words: list[str]) -> None:
        parser = self.parser = OptionParser()
        self.verify = parser.flag("verify", "Show whether the moves are done; remove the throttles once they are.")
        self.generate = parser.flag("generate", "Propose an assignment; nothing moves.")
        self.execute = parser.flag("execute", "Begin to move.")
        self.cancel = parser.flag("cancel", "Cancel moves.")
        self.list = parser.flag("list", "Show all moves in progress.")
        self.server = parser.takes(
            "bootstrap-server", "REQUIRED: the brokers to ask first.", "Server(s) to use for bootstrapping"
        )
        self.config_file = parser.takes("command-config", "A file of client properties.", "Admin client property file")
        self.file = parser.takes(
            "reassignment-json-file",
            'The assignment: {"version": 1, "partitions": [{"topic": "foo", "partition": 1, "replicas": [1, 2, 3], '
            '"log_dirs": ["any", "any", "/a/path"]}]}; log_dirs may be left out.',
            "manual assignment json file path",
        )
        self.topics_file = parser.takes(
            "topics-to-move-json-file",
            'The topics to move: {"version": 1, "topics": [{"topic": "foo"}]}',
            "topics to reassign json file path",
        )
        self.broker_list = parser.takes("broker-list", "The brokers to move the topics to, 0,1,2.", "brokerlist")
        self.no_racks = parser.flag("disable-rack-aware", "Ignore the brokers' racks.")
        self.throttle = parser.takes(
            "throttle", "The limit on copying between brokers, in bytes a second.", "throttle", kind="Long", default=-1
        )
        self.dirs_throttle = parser.takes(
            "replica-alter-log-dirs-throttle",
            "The limit on copying between a broker's log directories, in bytes a second.",
            "replicaAlterLogDirsThrottle",
            kind="Long",
            default=-1,
        )
        self.timeout = parser.takes(
            "timeout", "How long to wait for moves between log directories to begin, in ms.", "timeout", kind="Long",
            default=10000,
        )  # fmt: skip
        self.additional = parser.flag(
            "additional",
            "Start the moves although others are in progress, or change the throttle of moves in progress.",
        )
        self.preserve = parser.flag("preserve-throttles", "Leave the throttles in place.")
        self.options = parser.read(words, "This tool helps to move topic partitions between replicas.")
        self._check()

    def _check(self) -> None:
        everywhere = (self.server, self.config_file)
        required: dict[ToolOption, tuple[ToolOption, ...]] = {
            self.generate: (self.topics_file, self.broker_list),
            self.execute: (self.file,),
            self.verify: (self.file,),
            self.cancel: (self.file,),
            self.list: (),
        }
        permitted: dict[ToolOption, tuple[ToolOption, ...]] = {
            self.generate: (*everywhere, self.broker_list, self.no_racks),
            self.execute: (*everywhere, self.additional, self.throttle, self.dirs_throttle, self.timeout),
            self.verify: (*everywhere, self.preserve),
            self.cancel: (*everywhere, self.preserve, self.timeout),
            self.list: everywhere,
        }
        actions = [action for action in required if self.has(action)]
        if len(actions) != 1:
            names = ", ".join(f"--{action.names[0]}" for action in required)
            self.parser.usage_and_exit(f"Command must include exactly one action: {names}")
        action = actions[0]
        if not self.has(self.server):
            self.parser.usage_and_exit("Please specify --bootstrap-server")
        self.parser.require(self.options, *required[action])
        for option in self.options.found:
            if option not in (action, *required[action], *permitted[action]):
                self.parser.usage_and_exit(f'Option "{option}" can\'t be used with action "{action}"')


def main(arguments: list[str]) -> int:
    words = _Words(arguments)
    try:
        properties = client_properties(
            words.value(words.config_file), words.value(words.server), "reassign-partitions-tool"
        )
        _act(words, properties)
    except JavaError as error:
        if error.name == _TERSE:
            print(error.message)
            return 1
        print(f"Error: {error.message}")
        print_stack_trace(error, sys.stdout)
        print()
        return 1
    return 0


def _act(words: _Words, properties: Mapping[str, str]) -> None:
    if words.has(words.generate):
        text = read_text(words.value(words.topics_file))
        brokers, topics = parsed_topics(text, words.value(words.broker_list))
        with_admin(
            properties,
            lambda admin: _generate(admin, brokers, topics, racks=not words.has(words.no_racks)),
            call="describeTopics",
        )
    elif words.has(words.list):
        with_admin(properties, _list, call="listPartitionReassignments")
    else:
        plan = parsed_plan(read_text(words.value(words.file)))
        story = _verify if words.has(words.verify) else _execute if words.has(words.execute) else _cancel
        with_admin(properties, lambda admin: of_futures(story)(admin, words, plan), call="listPartitionReassignments")


def _terse(message: str) -> JavaError:
    return JavaError(_TERSE, message)


def _plural(items: Sequence[object] | Mapping[Any, Any]) -> str:
    return "" if len(items) == 1 else "s"


def _ids(ids: Iterable[int]) -> str:
    return ",".join(map(str, ids))


def _refusals(outcomes: Mapping[TopicPartition, KafkaError | None]) -> list[str]:
    """A line for each partition whose change was refused."""
    return [
        f"{partition}: {java_error(error).message}"
        for partition, error in sorted(outcomes.items())
        if error is not None
    ]


# list, generate


async def _list(admin: ToolAdmin) -> None:
    current = await admin.list_reassignments()
    if not current:
        print("No partition reassignments found.")
        return
    print("Current partition reassignments:")
    for partition in sorted(current):
        replicas, adding, removing = current[partition]
        line = f"{partition}: replicas: {_ids(replicas)}."
        line += f" adding: {_ids(adding)}." if adding else ""
        line += f" removing: {_ids(removing)}." if removing else ""
        print(line)


async def _assignments(admin: ToolAdmin, topics: Iterable[str]) -> Assignment:
    """The replicas of all partitions of these topics."""
    names = list(dict.fromkeys(topics))
    metadata = await admin.cluster.refresh(names)
    found: Assignment = {}
    for name in in_hash_order(names):
        topic = metadata.topics.get(name)
        if topic is None or topic.error is ErrorCode.UNKNOWN_TOPIC_OR_PARTITION:
            raise wrapped(EXECUTION, java_error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, f"Topic {name} not found."))
        check_answer(topic.error)
        for number, partition in topic.partitions.items():
            found[TopicPartition(name, number)] = list(partition.replicas)
    return found


async def _generate(admin: ToolAdmin, brokers: Sequence[int], topics: Sequence[str], *, racks: bool) -> None:
    current = await _assignments(admin, topics)
    nodes = (await admin.cluster.refresh([])).brokers
    chosen = {broker: nodes[broker].rack if racks else None for broker in nodes if broker in brokers}
    assignment = proposed(current, chosen, admin.cluster.runtime.entropy)
    print(f"Current partition replica assignment\n{reassignment_json(current)}\n")
    print(f"Proposed partition reassignment configuration\n{reassignment_json(assignment)}")


# verify


async def _verify(admin: ToolAdmin, words: _Words, plan: ReassignmentPlan) -> None:
    current = await admin.list_reassignments()
    targets = dict(plan.partitions)
    metadata = await admin.cluster.refresh(list(dict.fromkeys(target.topic for target in targets)))
    print("Status of partition reassignment:")
    for target in sorted(targets):
        if target in current:
            print(f"Reassignment of partition {target} is still in progress.")
            continue
        topic = metadata.topics.get(target.topic)
        partition = topic.partitions.get(target.partition) if topic is not None else None
        replicas = list(partition.replicas) if partition is not None else []
        if replicas == targets[target]:
            print(f"Reassignment of partition {target} is completed.")
        else:
            print(
                f"There is no active reassignment of partition {target}, but replica set is {_ids(replicas)} rather "
                f"than {_ids(targets[target])}."
            )
    states = await _directories(admin, plan.directories)
    print("\n".join(_move_text(state, plan.directories[state], *states[state]) for state in sorted(states)))
    moving = any(future is not None for _, future in states.values())
    if not current and not moving and not words.has(words.preserve):
        await _clear_throttles(admin, targets)


async def _directories(
    admin: ToolAdmin, directories: Mapping[ShownReplica, str]
) -> dict[ShownReplica, tuple[str | None, str | None]]:
    """Each replica's current log directory, and the one that it is moving to; None if there is none."""
    found: dict[ShownReplica, tuple[str | None, str | None]] = dict.fromkeys(directories, (None, None))
    described = (
        await admin.describe_log_dirs(sorted({directory.broker for directory in directories})) if directories else {}
    )
    for broker, outcome in described.items():
        if isinstance(outcome, KafkaError):
            raise outcome
        for replica in directories:
            if replica.broker == broker:
                found[replica] = _where(replica, outcome)
    return found


def _where(replica: ShownReplica, directories: Iterable[LogDirDescription]) -> tuple[str | None, str | None]:
    current = future = None
    for directory in directories:
        there = directory.replicas.get(TopicPartition(replica.topic, replica.partition))
        if there is not None and there.is_future:
            future = directory.path
        elif there is not None:
            current = directory.path
    return current, future


def _move_text(replica: ShownReplica, target: str, current: str | None, future: str | None) -> str:
    partition = f"{replica.topic}-{replica.partition}"
    if current is None:
        return (
            f"Partition {partition} is not found in any live log dir on broker {replica.broker}. There is likely an "
            "offline log directory on the broker."
        )
    if future is None:
        if current == target:
            return f"Reassignment of replica {replica} completed successfully."
        return (
            f"Partition {partition} on broker {replica.broker} is not being moved from log dir {current} to {target}."
        )
    if future == target:
        return f"Reassignment of replica {replica} is still in progress."
    return f"Partition {partition} on broker {replica.broker} is being moved to log dir {future} instead of {target}."


async def _clear_throttles(admin: ToolAdmin, targets: Assignment) -> None:
    nodes = (await admin.cluster.refresh([])).brokers
    brokers = in_hash_order([*nodes, *(broker for replicas in targets.values() for broker in replicas)])
    print(f"Clearing broker-level throttles on broker{_plural(brokers)} {_ids(brokers)}")
    for broker in brokers:
        names = (_LEADER_RATE, _FOLLOWER_RATE, _DIRS_RATE)
        await admin.alter_configs(
            ResourceType.BROKER, str(broker), [(AlterOperation.DELETE, name, None) for name in names]
        )
    topics = in_hash_order([target.topic for target in targets])
    print(f"Clearing topic-level throttles on topic{_plural(topics)} {','.join(topics)}")
    for topic in topics:
        await admin.alter_configs(
            ResourceType.TOPIC,
            topic,
            [(AlterOperation.DELETE, name, None) for name in (_LEADER_REPLICAS, _FOLLOWER_REPLICAS)],
        )


# execute


async def _execute(admin: ToolAdmin, words: _Words, plan: ReassignmentPlan) -> None:
    targets = executable_plan(plan)
    under_way = await admin.list_reassignments()
    if under_way and not words.has(words.additional):
        raise _terse(
            "Cannot execute because there is an existing partition assignment.  Use --additional to override this and "
            "create a new partition assignment in addition to the existing one. The --additional flag can also be used "
            "to change the throttle by resubmitting the current reassignment."
        )
    nodes = (await admin.cluster.refresh([])).brokers
    for broker in in_hash_order([broker for replicas in targets.values() for broker in replicas]):
        if broker not in nodes:
            raise JavaError(ADMIN_COMMAND_FAILED, f"Unknown broker id {broker}")
    every = await _assignments(admin, (target.topic for target in targets))
    missing = in_hash_order([target for target in targets if target not in every])
    if missing:
        text = f"Unable to find partition: {', '.join(map(str, missing))}"
        raise wrapped(EXECUTION, java_error_of(ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, text))
    current = {target: every[target] for target in targets}
    print(
        f"Current partition replica assignment\n\n{reassignment_json(current)}\n\nSave this to use as the "
        "--reassignment-json-file option during rollback"
    )
    rate, dirs_rate = words.value(words.throttle), words.value(words.dirs_throttle)
    if rate >= 0 or dirs_rate >= 0:
        print(
            "Warning: You must run --verify periodically, until the reassignment completes, to ensure the throttle is "
            "removed."
        )
    if rate >= 0:
        await _throttle(admin, moves(under_way, targets, current), rate)
    if dirs_rate >= 0:
        for broker in sorted({directory.broker for directory in plan.directories}):
            await admin.alter_configs(
                ResourceType.BROKER, str(broker), [(AlterOperation.SET, _DIRS_RATE, str(dirs_rate))]
            )
        print(f"The replica-alter-dir throttle limit was set to {dirs_rate} B/s")
    await _begin(admin, targets)
    if plan.directories:
        await _move_directories(admin, plan.directories, words.value(words.timeout))


async def _throttle(admin: ToolAdmin, all_moves: Mapping[TopicPartition, Any], rate: int) -> None:
    leaders, followers = leader_throttles(all_moves), follower_throttles(all_moves)
    for topic in in_hash_order(leaders):
        await admin.alter_configs(
            ResourceType.TOPIC,
            topic,
            [
                (AlterOperation.SET, _LEADER_REPLICAS, leaders[topic]),
                (AlterOperation.SET, _FOLLOWER_REPLICAS, followers[topic]),
            ],
        )
    for broker in sorted({broker for move in all_moves.values() for broker in (*move.sources, *move.destinations)}):
        names = (_LEADER_RATE, _FOLLOWER_RATE)
        await admin.alter_configs(
            ResourceType.BROKER, str(broker), [(AlterOperation.SET, name, str(rate)) for name in names]
        )
    print(f"The inter-broker throttle limit was set to {rate} B/s")


async def _begin(admin: ToolAdmin, targets: Assignment) -> None:
    outcomes = await admin.alter_reassignments(targets)
    if refusals := _refusals(outcomes):
        raise _terse("\n".join(["Error reassigning partition(s):", *refusals]))
    names = ",".join(map(str, sorted(targets)))
    print(f"Successfully started partition reassignment{_plural(targets)} for {names}")


async def _move_directories(admin: ToolAdmin, directories: Mapping[ShownReplica, str], timeout_ms: int) -> None:
    """Repeats the request until every move has begun: a broker refuses it until it has the replica."""
    clock = admin.cluster.runtime.clock
    deadline = clock.monotonic_ms() + timeout_ms
    pending = dict(directories)
    while True:
        begun = await _begun(admin, pending)
        for replica in sorted(begun):
            print(
                f"Successfully started moving log directory to {pending[replica]} for replica {replica.topic}-"
                f"{replica.partition} with broker {replica.broker} "
            )
            del pending[replica]
        if not pending:
            return
        if clock.monotonic_ms() >= deadline:
            names = ",".join(map(str, sorted(pending)))
            raise _terse(f"Timed out before log directory move{_plural(pending)} could be started for: {names}")
        await asyncio.sleep(0.1)


async def _begun(admin: ToolAdmin, pending: Mapping[ShownReplica, str]) -> list[ShownReplica]:
    begun: list[ShownReplica] = []
    for broker in sorted({replica.broker for replica in pending}):
        asked = {
            TopicPartition(replica.topic, replica.partition): path
            for replica, path in pending.items()
            if replica.broker == broker
        }
        for partition, error in (await admin.alter_replica_log_dirs(broker, asked)).items():
            replica = ShownReplica(broker, *partition)
            if error is None:
                begun.append(replica)
            elif error.code is not ErrorCode.REPLICA_NOT_AVAILABLE:
                raise JavaError(ADMIN_COMMAND_FAILED, f"Failed to alter dir for {replica}", in_future(error))
    return begun


# cancel


async def _cancel(admin: ToolAdmin, words: _Words, plan: ReassignmentPlan) -> None:
    targets = dict(plan.partitions)
    under_way = await admin.list_reassignments()
    # Kafka's tool has a wrong condition here: it does not cancel a move that only adds replicas, says that no move is
    # active, and then clears the throttles.
    known = {partition for partition, (_, adding, removing) in under_way.items() if removing or not adding}
    active = [target for target in targets if target in known]
    if active:
        outcomes = await admin.alter_reassignments(dict.fromkeys(active))
        if refusals := _refusals(outcomes):
            raise _terse("\n".join([f"Error cancelling partition reassignment{_plural(refusals)} for:", *refusals]))
        names = ",".join(map(str, sorted(active)))
        print(f"Successfully cancelled partition reassignment{_plural(active)} for: {names}")
    else:
        print("None of the specified partition reassignments are active.")
    states = await _directories(admin, plan.directories)
    moving = {
        replica: current for replica, (current, future) in states.items() if current is not None and future is not None
    }
    if moving:
        await _move_directories(admin, moving, words.value(words.timeout))
    else:
        print("None of the specified partition moves are active.", end="")
    if not words.has(words.preserve):
        await _clear_throttles(admin, targets)
