"""Records shown in the view: found in slices between which others go on, whatever a batch unpacks to."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Generator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from replicas_alone import replicas_alone

from barnabas.log.log_dirs import LogDirs
from barnabas.model.cluster import ClusterImage, PartitionInfo, TopicInfo
from barnabas.model.config import broker_config
from barnabas.model.ids import NO_BROKER, ZERO_UUID, TopicPartition
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.runtime import Tasks
from barnabas.runtime.real import real_runtime
from barnabas.web import pages
from barnabas.web.pages import groups, messages, topics
from barnabas.wire.messages.consumer_protocol_assignment import ConsumerProtocolAssignment
from barnabas.wire.messages.leader_and_isr import LeaderAndIsrRequest
from barnabas.wire.records import Record, build_batch

RECORDS = 5_000
IN_A_STEP = 128
BEGIN_MS = 1_700_000_000_000
HEADERS = [(f"h{at}", b"v") for at in range(pages.LIMIT + 1)]


class Turn(Awaitable[None]):
    def __await__(self) -> Generator[None, None, None]:
        yield


class Turns:
    taken = 0

    def next(self, *, passing: bool = False) -> Turn:
        self.taken += 1
        return Turn()


@pytest.fixture
def broker(tmp_path: Path) -> Any:
    """It leads a partition with one batch, which is small for what it holds."""
    config = broker_config({"log.dirs": str(tmp_path)})
    turns = Turns()

    async def led() -> Any:
        log_dirs, metadata = LogDirs(real_runtime(), config), MetadataCache()
        leading = replicas_alone(config, log_dirs, Tasks(lambda name, error: None), metadata)
        state = LeaderAndIsrRequest.LeaderAndIsrPartitionState("t", 0, 1, 1, 0, [1], 0, [1])
        leading.become_leader_or_follower(LeaderAndIsrRequest(controller_epoch=1, ungrouped_partition_states=[state]))
        records = [
            Record(at, BEGIN_MS + at, b"%d" % at, b"", HEADERS if at % 1000 == 0 else ()) for at in range(RECORDS)
        ]
        batch = bytearray(build_batch(records, compression="zstd"))
        leading.appending.append_as_leader(TopicPartition("t", 0), batch, 1)
        return leading

    channel = SimpleNamespace(long_requests=SimpleNamespace(turns=turns))
    return SimpleNamespace(replicas=asyncio.run(led()), request_channel=channel, turns=turns)


def page(broker: Any, **query: object) -> tuple[dict[str, Any], int]:
    """What is told of the first partition, which need not be named, and in how many steps."""
    story = messages(broker, {"topic": "t", **{name: str(value) for name, value in query.items()}})
    steps = 1
    while True:
        try:
            story.send(None)
        except StopIteration as end:
            return end.value, steps
        steps += 1


@pytest.mark.parametrize(
    "query", [{"key": RECORDS - 1}, {"offset": RECORDS - 1}, {"at": BEGIN_MS + RECORDS - 1}, {"limit": 1}]
)
def test_a_record_is_found_in_as_many_steps_as_there_are_hundreds_before_it(broker: Any, query: Any) -> None:
    told, steps = page(broker, **query)
    assert [each["offset"] for each in told["messages"]] == [RECORDS - 1]
    assert told["next_offset"] == RECORDS
    assert steps > RECORDS // IN_A_STEP


def test_a_search_ends_by_what_it_has_looked_at_and_goes_on_from_there(
    broker: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(pages, "SEARCHED_BYTES_MAX", 2_000 * pages.RECORD_BYTES)
    found, offset, searches = [], 0, 0
    while offset < RECORDS:
        told, _ = page(broker, key=4_000, offset=offset)
        assert offset < told["next_offset"] <= offset + 2_000
        found += [each["offset"] for each in told["messages"]]
        offset, searches = told["next_offset"], searches + 1
    assert found == [4_000]
    assert searches >= 3


def test_no_key_and_no_value_are_shown_as_none_and_empty_ones_as_empty(broker: Any) -> None:
    records = [Record(0, BEGIN_MS, None, b"v"), Record(1, BEGIN_MS, b"k", None), Record(2, BEGIN_MS, b"", b"")]

    async def append() -> None:
        broker.replicas.appending.append_as_leader(TopicPartition("t", 0), bytearray(build_batch(records)), 1)

    asyncio.run(append())
    told, _ = page(broker, offset=RECORDS)
    shown = [(each["offset"] - RECORDS, each["key"], each["value"], each["size"]) for each in told["messages"]]
    assert shown == [(0, None, "dg==", 1), (1, "aw==", None, 0), (2, "", "", 0)]


def test_a_records_first_headers_are_shown(broker: Any) -> None:
    told, _ = page(broker, key=3_000)
    (found,) = told["messages"]
    assert [name for name, _ in found["headers"]] == [name for name, _ in HEADERS[: pages.LIMIT]]
    assert page(broker, key=3_001)[0]["messages"][0]["headers"] == []


def test_a_topics_health_is_counted_over_its_partitions(broker: Any) -> None:
    seen = [(1, (1, 2)), (2, (2,)), (NO_BROKER, (1,))]
    parts = {number: PartitionInfo(leader, 1, isr, (1, 2)) for number, (leader, isr) in enumerate(seen)}
    broker.metadata = SimpleNamespace(image=ClusterImage(topics={"t": TopicInfo("t", ZERO_UUID, parts)}))
    (told,) = asyncio.run(topics(broker, {}))["topics"]
    health = {name: told[name] for name in ("partitions", "replication_factor", "under_replicated", "without_leader")}
    assert health == {"partitions": 3, "replication_factor": 2, "under_replicated": 2, "without_leader": 1}
    assert told["here"] == 1
    assert told["records"] == RECORDS
    assert told["size"] > 0
    partitions = asyncio.run(topics(broker, {"topic": "t"}))["partitions"]
    assert [(each["partition"], each["leader"], each["isr"], each["here"]) for each in partitions] == [
        (0, 1, [1, 2], True),
        (1, 2, [2], False),
        (2, NO_BROKER, [1], False),
    ]


def test_assignments_that_nobody_would_read_are_not_read_and_others_are_read_in_turns() -> None:
    def member(topics: int) -> Any:
        partitions = [ConsumerProtocolAssignment.TopicPartition(f"topic-{at}", [0]) for at in range(topics)]
        data = b"\0\0" + ConsumerProtocolAssignment(assigned_partitions=partitions).encode(0)
        return SimpleNamespace(member_id="m", group_instance_id=None, client_id="c", client_host="h", assignment=data)

    state = SimpleNamespace(value="Stable")
    group = SimpleNamespace(
        group_id="g", protocol_type="consumer", state=state, generation_id=1, offsets=SimpleNamespace(committed={}),
        members={str(at): each for at, each in enumerate([member(1), member(1_000), member(10_000)])},
    )  # fmt: skip
    turns = Turns()
    broker: Any = SimpleNamespace(
        groups=SimpleNamespace(owned=[SimpleNamespace(groups={"g": group})]),
        request_channel=SimpleNamespace(long_requests=SimpleNamespace(turns=turns)),
        runtime=real_runtime(),
    )
    lag: Any = SimpleNamespace(want=lambda: None, known=())
    told = asyncio.run(groups(broker, {"group": "g"}, lag))
    assert [len(each["assignment"]) for each in told["member_list"]] == [1, pages.LIMIT, 0]
    first = told["member_list"][0]
    assert (first["client_id"], first["host"]) == ("c", "h")
    assert turns.taken == 1
