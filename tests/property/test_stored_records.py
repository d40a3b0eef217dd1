"""Whatever stands in ``__consumer_offsets`` and ``__transaction_state``, a coordinator loads the rest, and serves it.

`RECORDS` names every message class that stands in an internal topic; one that is not in it fails
`test_every_record_of_an_internal_topic_is_in_the_table`.
"""

from __future__ import annotations

import asyncio
import contextlib
from typing import Any, NoReturn

import pytest
from clocks import ManualClock
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mutations import mutated
from stored_logs import StoredLog, batch_of, log_of
from turns import until

from barnabas.coordinator import offsets_records, transaction_records
from barnabas.coordinator.group_answers import Leaver
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_members import Join, Sync
from barnabas.coordinator.offsets_records import (
    KeyValue,
    OffsetAndMetadata,
    StoredGroup,
    StoredMember,
    group_record,
    offset_record,
)
from barnabas.coordinator.transaction_coordinator import TransactionCoordinator
from barnabas.coordinator.transaction_markers import TransactionMarkers
from barnabas.coordinator.transaction_records import transaction_record
from barnabas.coordinator.transactions import ONGOING, PREPARE_COMMIT, TransactionMetadata
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Runtime, Tasks
from barnabas.runtime.real import real_runtime
from barnabas.wire.message import Message

T0 = TopicPartition("t", 0)
WALL_MS = 1_000_000
few = settings(max_examples=25, deadline=None, suppress_health_check=[HealthCheck.too_slow])


def member(name: str, instance: str | None = None) -> StoredMember:
    return StoredMember(name, instance, "client", "/host", 60_000, 10_000, b"\0\0\0\0\0\0\0\0\0\0", b"assigned")


def stable(group_id: str) -> KeyValue:
    members = (member("a"), member("b", "instance"))
    return group_record(group_id, StoredGroup(group_id, "consumer", 3, "range", "a", WALL_MS, members))


def committed(group_id: str, offset: int) -> KeyValue:
    return offset_record(group_id, T0, OffsetAndMetadata(offset, 1, "note", WALL_MS))


def transaction(transactional_id: str, prepared: bool = False) -> KeyValue:
    state = PREPARE_COMMIT if prepared else ONGOING
    return transaction_record(
        transactional_id, TransactionMetadata(7, 0, 60_000, state, frozenset({T0}), WALL_MS, WALL_MS)
    )


RECORDS: dict[str, tuple[KeyValue, frozenset[str]]] = {
    "an offset": (committed("damaged", 5), frozenset({"OffsetCommitKey", "OffsetCommitValue"})),
    "a group": (stable("damaged"), frozenset({"GroupMetadataKey", "GroupMetadataValue"})),
    "a transaction": (transaction("damaged"), frozenset({"TransactionLogKey", "TransactionLogValue"})),
}


def test_every_record_of_an_internal_topic_is_in_the_table() -> None:
    read = {
        name
        for module in (offsets_records, transaction_records)
        for name, each in vars(module).items()
        if isinstance(each, type) and issubclass(each, Message)
    }
    assert read == frozenset().union(*(names for _, names in RECORDS.values()))


@st.composite
def damaged(draw: st.DrawFn, kind: str) -> KeyValue:
    """A record of this kind whose key, or value, or both, are no more what they were."""
    record, _ = RECORDS[kind]
    which = draw(st.sampled_from(("key", "value", "value", "both")))
    key = draw(mutated(record.key)) if which != "value" else record.key
    assert record.value is not None
    return KeyValue(key, draw(mutated(record.value)) if which != "key" else record.value)


async def turns() -> None:
    """Lets everything have its turn that waits for nothing but a turn."""
    for _ in range(20):
        await asyncio.sleep(0)


async def used(groups: GroupCoordinator, group_id: str) -> None:
    """Everything that clients do with a group. Refusals cost whoever asked."""
    described = groups.describe_group(group_id)
    member_ids = [each.member_id for each in described.members]
    protocols = (("range", b"\0\0\0\0\0\0"),)
    waiting: list[asyncio.Task[Any]] = []
    for member_id in ("", *member_ids[:2]):
        join = Join(member_id, f"new-{member_id}", "consumer", protocols, 10_000, 10_000)
        waiting.append(asyncio.ensure_future(groups.join(group_id, join)))
    await turns()
    for member_id in member_ids[:2]:
        waiting.append(asyncio.ensure_future(groups.sync(group_id, Sync(member_id, 3, {member_id: b"x"}))))
        with contextlib.suppress(KafkaError):
            groups.heartbeat(group_id, member_id, None, 3)
    waiting.append(asyncio.ensure_future(groups.commit_offsets(group_id, "", None, -1, {T0: OffsetAndMetadata(9)})))
    await turns()
    groups.fetch_offsets(group_id, [T0], require_stable=False)
    groups.fetch_offsets(group_id, None, require_stable=True)
    groups.leave(group_id, [Leaver(each, None) for each in member_ids])
    await groups.expire_offsets()
    await groups.delete_groups([group_id])
    await turns()
    for task in waiting:
        task.cancel()
    for failed in await asyncio.gather(*waiting, return_exceptions=True):
        assert not isinstance(failed, Exception) or isinstance(failed, KafkaError), repr(failed)


def coordinated(log: StoredLog, story: Any) -> None:
    async def run() -> None:
        failures: list[BaseException] = []
        tasks = Tasks(lambda name, error: failures.append(error))
        unhandled: list[dict[str, Any]] = []
        asyncio.get_running_loop().set_exception_handler(lambda _, context: unhandled.append(context))
        config = broker_config({"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"})
        groups = GroupCoordinator(real_runtime(), config, log, tasks=tasks)
        groups.startup()
        groups.elected(0, 1)
        await until(lambda: not groups._partitions[0].loading)
        await story(groups)
        groups.shutdown()
        await tasks.end()
        assert failures == []
        assert unhandled == []

    asyncio.run(run())


@pytest.mark.parametrize("kind", ["an offset", "a group"])
@few
@given(data=st.data())
def test_a_damaged_record_leaves_other_groups_what_they_have(kind: str, data: st.DataObject) -> None:
    log = log_of(
        stable("kept"), committed("kept", 7), data.draw(damaged(kind)), committed("later", 8), data.draw(damaged(kind))
    )

    async def story(groups: GroupCoordinator) -> None:
        assert groups.heartbeat("kept", "a", None, 3) is ErrorCode.NONE
        assert groups.fetch_offsets("kept", [T0], require_stable=True)[T0].offset == 7
        assert groups.fetch_offsets("later", [T0], require_stable=True)[T0].offset == 8
        for listing in groups.list_groups()[1]:
            if listing.group_id and listing.group_id not in ("kept", "later"):
                await used(groups, listing.group_id)
        assert groups.heartbeat("kept", "a", None, 3) is ErrorCode.NONE

    coordinated(log, story)


@few
@given(data=st.data())
def test_damaged_bytes_of_the_log_do_not_keep_a_coordinator_from_its_groups(data: st.DataObject) -> None:
    (first,) = log_of(stable("lost"), committed("lost", 7), committed("lost", 8)).segments
    behind = batch_of(3, committed("kept", 11))

    async def story(groups: GroupCoordinator) -> None:
        assert groups.fetch_offsets("kept", [T0], require_stable=True)[T0].offset == 11

    coordinated(StoredLog(data.draw(mutated(first)), behind, bases=(0, 3)), story)


async def unasked(*_: object) -> NoReturn:
    raise AssertionError("nobody asks for this here")


@few
@given(data=st.data())
def test_a_damaged_record_leaves_other_transactions_what_they_are(data: st.DataObject) -> None:
    records = [transaction("kept"), data.draw(damaged("a transaction")), transaction("later", prepared=True)]
    failures: list[BaseException] = []

    async def gone(_: TopicPartition) -> bool:
        return False

    async def run() -> None:
        tasks = Tasks(lambda name, error: failures.append(error))
        real = real_runtime()
        coordinator = TransactionCoordinator(
            Runtime(ManualClock(WALL_MS), real.disk, real.network, real.entropy),
            broker_config({"transaction.state.log.num.partitions": "1"}),
            log_of(*records),
            TransactionMarkers(lambda _: None, gone, unasked, tasks),
            unasked,
            tasks=tasks,
        )
        coordinator.startup()
        coordinator.elected(0, 1)
        await until(lambda: not coordinator._partitions[0].loading)
        assert coordinator.describe("kept").state is ONGOING
        await until(lambda: coordinator.describe("later").state.title == "CompleteCommit")
        coordinator.abort_timed_out()
        coordinator.remove_expired()
        for listing in coordinator.list_transactions()[1]:
            if listing.transactional_id:
                coordinator.describe(listing.transactional_id)
        await turns()
        coordinator.shutdown()
        await tasks.end()

    asyncio.run(run())
    assert failures == []
