"""A coordinator is elected over a log that holds what it cannot read: each such thing costs itself alone."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Awaitable, Callable
from itertools import pairwise
from typing import NoReturn

import pytest
from clocks import ManualClock
from stored_logs import StoredLog, batch_of, log_of
from turns import until

from barnabas.coordinator import partition_loading
from barnabas.coordinator.coordinator_log import Stretch
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.coordinator.group_members import Join
from barnabas.coordinator.group_rebalance import GENERATION_MAX
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
from barnabas.coordinator.transaction_records import transaction_key, transaction_record
from barnabas.coordinator.transactions import ONGOING, PREPARE_COMMIT, TransactionMetadata
from barnabas.log.log_dir import LogDirFailure
from barnabas.model.config import broker_config
from barnabas.model.errors import ErrorCode
from barnabas.model.ids import TopicPartition
from barnabas.runtime import Runtime, Tasks
from barnabas.runtime.real import real_runtime
from barnabas.runtime.turns import SLICE
from barnabas.wire.records import HEADER_BYTES, packed_batch

T0 = TopicPartition("t", 0)
MEMBER = StoredMember("m", None, "c", "/h", 10_000, 10_000, b"", b"")
STABLE_GROUP = StoredGroup("h", "consumer", 3, "range", "m", 1, (MEMBER,))
ISSUE_KEY = b"\x00\x01\x00\x02fp\x00\x04oooo" + bytes(4)


def committed(group_id: str, offset: int) -> KeyValue:
    return offset_record(group_id, T0, OffsetAndMetadata(offset))


async def unasked(*_: object) -> NoReturn:
    raise AssertionError("nobody asks for this here")


def elected(log: StoredLog, story: Callable[[GroupCoordinator], Awaitable[None]]) -> None:
    """Elects a coordinator over `log` for one partition that has all groups, and tells `story` when it has loaded."""

    async def run() -> None:
        failures: list[BaseException] = []
        tasks = Tasks(lambda name, error: failures.append(error))
        config = broker_config({"group.initial.rebalance.delay.ms": "0", "offsets.topic.num.partitions": "1"})
        groups = GroupCoordinator(real_runtime(), config, log, tasks=tasks)
        groups.startup()
        groups.elected(0, 1)
        await until(lambda: not groups._partitions[0].loading)
        await story(groups)
        groups.shutdown()
        await tasks.end()
        assert failures == []

    asyncio.run(run())


def loaded(log: StoredLog) -> tuple[dict[str, int], dict[str, int]]:
    """Each group's committed offset of t-0 after loading, and what was passed over."""
    found: dict[str, int] = {}
    counts: dict[str, int] = {}

    async def story(groups: GroupCoordinator) -> None:
        for listing in groups.list_groups()[1]:
            fetched = groups.fetch_offsets(listing.group_id, [T0], require_stable=False)
            found[listing.group_id] = fetched[T0].offset
        counts.update(groups.unreadable.counts)

    elected(log, story)
    return found, counts


UNREADABLE = [
    pytest.param(KeyValue(ISSUE_KEY, b"\xff" * 6), id="an offset with the version -1"),
    pytest.param(KeyValue(committed("g", 1).key, b"\x00\x09" + bytes(40)), id="an offset of a newer broker"),
    pytest.param(KeyValue(committed("g", 1).key, b"\x00\x03\x00"), id="half an offset"),
    pytest.param(KeyValue(committed("g", 1).key, b""), id="an empty offset"),
    pytest.param(KeyValue(group_record("g", None).key, b"\x00\x03\xff\xff"), id="a broken group"),
    pytest.param(KeyValue(group_record("g", None).key, b"\x00\x07" + bytes(80)), id="a group of a newer broker"),
    pytest.param(KeyValue(b"", b"x"), id="an empty key"),
    pytest.param(KeyValue(b"\x00\x02\x7f\xff", b"x"), id="a broken key"),
    pytest.param(KeyValue(b"\x00", None), id="half a version"),
    pytest.param(
        group_record("g", StoredGroup("g", "consumer", 3, None, None, 1, (MEMBER,))), id="members without a protocol"
    ),
    pytest.param(group_record("g", StoredGroup("g", "consumer", -7, None, None, 1, ())), id="a generation before all"),
]


@pytest.mark.parametrize("record", UNREADABLE)
def test_an_unreadable_record_costs_itself_alone(record: KeyValue, caplog: pytest.LogCaptureFixture) -> None:
    before, behind = committed("before", 1), committed("behind", 2)
    found, counts = loaded(log_of(before, record, behind))
    assert found == {"before": 1, "behind": 2}
    assert counts == {"__consumer_offsets record": 1}
    told = [line for line in caplog.messages if "passed over, it cannot be read" in line]
    assert len(told) == 1
    assert "__consumer_offsets-0 offset 1: " in told[0]


def test_what_a_key_had_before_its_unreadable_record_counts() -> None:
    found, _ = loaded(log_of(committed("g", 5), KeyValue(committed("g", 6).key, b"\xff" * 6)))
    assert found == {"g": 5}


def test_a_group_keeps_its_members_when_a_later_record_of_it_cannot_be_read() -> None:
    async def story(groups: GroupCoordinator) -> None:
        assert groups.heartbeat("h", "m", None, 3) is ErrorCode.NONE

    stored = group_record("h", STABLE_GROUP)
    elected(log_of(stored, KeyValue(stored.key, b"\x00\x03\xff\xff")), story)


@pytest.mark.parametrize("at", [HEADER_BYTES + 3, 30], ids=["in a record", "in the header"])
def test_a_batch_whose_crc_is_wrong_costs_itself_alone(at: int) -> None:
    rotten = bytearray(batch_of(1, committed("g", 7)))
    rotten[at] ^= 0x10
    found, counts = loaded(log_of(committed("before", 1), bytes(rotten), committed("behind", 2)))
    assert found == {"before": 1, "behind": 2}
    assert counts == {"__consumer_offsets batch": 1}


def test_a_batch_of_garbage_behind_a_right_crc_costs_itself_alone() -> None:
    body = bytearray(HEADER_BYTES) + bytearray(b"\x7f" * 40)
    garbage = bytes(packed_batch(body, 3, base_offset=1, last_offset_delta=0, base_timestamp=0, max_timestamp=0))
    found, counts = loaded(log_of(committed("before", 1), garbage, committed("behind", 2)))
    assert found == {"before": 1, "behind": 2}
    assert counts == {"__consumer_offsets batch": 1}


@pytest.mark.parametrize(
    "damage",
    [b"\x00" * 80, b"\xff" * 80],
    ids=["zeros", "ones"],
)
def test_where_no_batch_can_be_found_the_next_segment_goes_on(damage: bytes) -> None:
    first = batch_of(0, committed("before", 1)) + damage
    found, counts = loaded(StoredLog(first, batch_of(9, committed("behind", 2))))
    assert found == {"before": 1, "behind": 2}
    assert counts == {"__consumer_offsets segment": 1}


def test_offsets_that_run_backwards_do_not_keep_the_loading_from_its_end() -> None:
    found, counts = loaded(StoredLog(batch_of(5, committed("a", 1)) + batch_of(2, committed("b", 2))))
    assert found == {"a": 1}
    assert counts == {"__consumer_offsets segment": 1}


@pytest.mark.parametrize("size", [1, 1000], ids=["in batches of their own", "in one batch"])
def test_a_long_log_is_taken_up_in_slices_and_left_when_another_leads(size: int) -> None:
    """Between two slices a broker answers others, and ZooKeeper."""
    records = [committed(f"g{number}", number) for number in range(1000)]
    batches = [batch_of(number, *records[number : number + size]) for number in range(0, 1000, size)]

    async def run() -> None:
        tasks = Tasks(lambda name, error: pytest.fail(f"{name}: {error}"))
        groups = GroupCoordinator(real_runtime(), broker_config({}), log_of(*batches), tasks=tasks)
        groups.startup()
        groups.elected(0, 1)
        groups.elected(1, 1)
        steps = [0]
        while groups._partitions[0].loading:
            await asyncio.sleep(0)
            steps.append(sum(len(groups._partitions[number].groups) for number in (0, 1)))
        assert max(after - before for before, after in pairwise(steps)) <= 2 * SLICE, "both begin with a slice"
        # One that is lost in the midst is read no further.
        groups.elected(2, 1)
        left = groups._partitions[2]
        await until(lambda: len(left.groups) > 0)
        groups.resigned(2, 2)
        await until(lambda: not groups._partitions[1].loading)
        await tasks.end()
        assert 0 < len(left.groups) <= 2 * SLICE
        assert left.loading
        groups.shutdown()

    asyncio.run(run())


def test_a_log_that_begins_in_its_midst_is_read_from_there() -> None:
    found, counts = loaded(StoredLog(batch_of(5, committed("a", 1)), batch_of(9, committed("b", 2))))
    assert found == {"a": 1, "b": 2}
    assert counts == {}


def test_a_read_that_finds_no_descriptor_is_tried_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """The partition was left unloaded until its leader changed: its groups had no coordinator."""
    monkeypatch.setattr(partition_loading, "PASSING_S", 0.01)
    log = StoredLog(batch_of(0, committed("a", 1)), batch_of(1, committed("b", 2)))
    read, refusals = log.read, [2, 1]

    def refusing(topic_partition: TopicPartition, offset: int, max_bytes: int) -> Stretch:
        if refusals[offset > 0]:
            refusals[offset > 0] -= 1
            raise LogDirFailure("/logs", "reading the log: [Errno 24] Too many open files", passing=True)
        return read(topic_partition, offset, 100)

    monkeypatch.setattr(log, "read", refusing)
    found, counts = loaded(log)
    assert (found, counts, refusals) == ({"a": 1, "b": 2}, {}, [0, 0])


def test_many_unreadable_records_are_counted_and_few_of_them_told(caplog: pytest.LogCaptureFixture) -> None:
    _, counts = loaded(log_of(*[KeyValue(ISSUE_KEY, b"\xff" * 6)] * 500))
    assert counts == {"__consumer_offsets record": 500}
    told = [record for record in caplog.records if record.levelno >= logging.WARNING]
    assert len(told) == 11
    assert "500 records or batches could not be read" in told[-1].message


def test_a_group_of_the_last_generation_there_is_goes_on_with_the_first() -> None:
    async def story(groups: GroupCoordinator) -> None:
        joined = await groups.join("h", Join("", "n", "consumer", (("range", b""),), 10_000, 10_000))
        assert (joined.error, joined.generation_id) == (ErrorCode.NONE, 1)

    empty = StoredGroup("h", "consumer", GENERATION_MAX, None, None, 1, ())
    elected(log_of(group_record("h", empty)), story)


# --- transactions --------------------------------------------------------------------------------------------------


def transactions_loaded(*records: KeyValue) -> tuple[dict[str, str], dict[str, int]]:
    """Each transactional id's state after loading, and what was passed over."""
    found: dict[str, str] = {}
    counts: dict[str, int] = {}

    async def run() -> None:
        failures: list[BaseException] = []
        tasks = Tasks(lambda name, error: failures.append(error))
        real = real_runtime()
        coordinator = TransactionCoordinator(
            Runtime(ManualClock(1_000_000), real.disk, real.network, real.entropy),
            broker_config({"transaction.state.log.num.partitions": "1"}),
            log_of(*records),
            TransactionMarkers(lambda _: None, unasked, unasked, tasks),
            unasked,
            tasks=tasks,
        )
        coordinator.startup()
        coordinator.elected(0, 1)
        await until(lambda: not coordinator._partitions[0].loading)
        for listing in coordinator.list_transactions()[1]:
            found[listing.transactional_id] = listing.state
        counts.update(coordinator.unreadable.counts)
        coordinator.shutdown()
        await tasks.end()
        assert failures == []

    asyncio.run(run())
    return found, counts


def open_transaction(transactional_id: str) -> KeyValue:
    return transaction_record(transactional_id, TransactionMetadata(7, 0, 60_000, ONGOING, frozenset({T0}), 1, 1))


def in_state(number: int) -> bytes:
    value = open_transaction("id").value
    assert value is not None
    return value[:16] + number.to_bytes(1, "big", signed=True) + value[17:]


@pytest.mark.parametrize(
    "value",
    [
        pytest.param(b"", id="nothing"),
        pytest.param(b"\xff" * 6, id="the version -1"),
        pytest.param(b"\x00\x09" + bytes(60), id="a newer broker's version"),
        pytest.param(b"\x00\x00" + bytes(9), id="half of one"),
        pytest.param(in_state(6), id="a state that is never stored"),
        pytest.param(in_state(99), id="a state that is none"),
    ],
)
def test_an_unreadable_transaction_costs_itself_alone(value: bytes) -> None:
    found, counts = transactions_loaded(
        open_transaction("before"), KeyValue(transaction_key("id"), value), open_transaction("behind")
    )
    assert found == {"before": "Ongoing", "behind": "Ongoing"}
    assert counts == {"__transaction_state record": 1}


def test_what_a_transactional_id_was_before_its_unreadable_record_counts() -> None:
    prepared = transaction_record("id", TransactionMetadata(7, 0, 60_000, PREPARE_COMMIT, frozenset(), 1, 1))
    assert prepared.value is not None
    found, counts = transactions_loaded(
        open_transaction("id"), KeyValue(prepared.key, b"\x00\x02" + prepared.value[2:])
    )
    assert found == {"id": "Ongoing"}
    assert counts == {"__transaction_state record": 1}
