"""What a broker says to each batch, and what it keeps of it."""

from __future__ import annotations

import hashlib
import json
import re
from pathlib import Path
from typing import Any, Final, cast

from cluster import running

from barnabas.bench.apache import ApacheCluster
from barnabas.client.blocking import BlockingConnection
from barnabas.model.errors import ErrorCode
from barnabas.wire.messages.create_topics import CreateTopicsRequest
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.records import batches, records_of
from verdicts.batches import NOW, TOPICS, Case, cases

Verdict = dict[str, Any]

RECORDED: Final = Path(__file__).parent / "recorded.json"
_CONFIG: Final = {"log.retention.ms": "-1", "auto.create.topics.enable": "false"}
_CLOSED: Final[Verdict] = {"closed": True}
_EXCEPTION: Final = "UNKNOWN_SERVER_ERROR"
_OURS_INSTEAD: Final = ("INVALID_RECORD", "CORRUPT_MESSAGE")
_WITHOUT_BATCH: Final = re.compile("magic [01]: a length too long to plain")
"""A message set of which no message is there whole: Kafka acknowledges that nothing was appended, ours refuses it."""


def ours(directory: Path) -> dict[str, Verdict]:
    with running(directory, 1, *(f"{key}={value}" for key, value in _CONFIG.items())) as cluster:
        return ask_all(cluster.state["brokers"][0]["port"])


def apaches(directory: Path) -> dict[str, Verdict]:
    with ApacheCluster(directory, 1, config=_CONFIG) as cluster:
        return ask_all(cluster.ports[0])


def differences(mine: dict[str, Verdict], theirs: dict[str, Verdict]) -> list[str]:
    """Where ours is not Kafka's verdict, in words.

    Kafka's exceptions of its own making, UNKNOWN_SERVER_ERROR, are refusals here.
    """
    found = [f"{name} is not there on both sides" for name in mine.keys() ^ theirs.keys()]
    for name in mine.keys() & theirs.keys():
        here, there = json.loads(json.dumps(mine[name])), theirs[name]
        if there.get("error") == _EXCEPTION:
            same = here.get("error") in _OURS_INSTEAD
        elif _WITHOUT_BATCH.fullmatch(name):
            same = here.get("error") == "INVALID_RECORD"
        else:
            same = here == there
        if not same:
            found.append(f"{name}: {here} is not {there}")
    return sorted(found)


def ask_all(port: int) -> dict[str, Verdict]:
    """By the cases' names; each is answered whatever became of the one before."""
    found: dict[str, Verdict] = {}
    connection = BlockingConnection("127.0.0.1", port, "verdicts")
    try:
        for topic, config in TOPICS.items():
            _create(connection, topic, config)
        for case in cases():
            if connection.closed:
                connection = BlockingConnection("127.0.0.1", port, "verdicts")
            try:
                found[case.name] = _ask(connection, case)
            except OSError:
                found[case.name] = _CLOSED
    finally:
        connection.close()
    return found


def _create(connection: BlockingConnection, name: str, config: dict[str, str]) -> None:
    settings = [CreateTopicsRequest.CreatableTopicConfig(key, value) for key, value in config.items()]
    topic = CreateTopicsRequest.CreatableTopic(name=name, num_partitions=1, replication_factor=1, configs=settings)
    answer = connection.send(CreateTopicsRequest(topics=[topic], timeout_ms=30_000), 5)
    assert answer.topics[0].error_code == 0, answer


def _ask(connection: BlockingConnection, case: Case) -> Verdict:
    data = ProduceRequest.PartitionProduceData(index=0, records=case.records)
    request = ProduceRequest(
        acks=1, timeout_ms=10_000, topic_data=[ProduceRequest.TopicProduceData(name=case.topic, partition_data=[data])]
    )
    for _ in range(100):
        (answer,) = connection.send(request, case.version).responses[0].partition_responses
        if answer.error_code not in (ErrorCode.NOT_LEADER_OR_FOLLOWER, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION):
            break
    verdict: Verdict = {"error": ErrorCode(answer.error_code).name}
    if answer.error_code:
        verdict["message"] = _masked(answer.error_message)
        verdict["records"] = [
            [each.batch_index, _masked(each.batch_index_error_message)] for each in answer.record_errors
        ]
        verdict["log_start_offset"] = answer.log_start_offset
        return verdict
    if answer.base_offset >= 0:
        verdict["stamped"] = answer.log_append_time_ms >= 0
        verdict["kept"] = _kept(connection, case.topic, answer.base_offset)
    return verdict


def _kept(connection: BlockingConnection, topic: str, offset: int) -> list[Any]:
    """The batch at `offset`: what its header says and which records it holds."""
    partition = FetchRequest.FetchPartition(partition=0, fetch_offset=offset, partition_max_bytes=1)
    request = FetchRequest(
        max_wait_ms=1_000,
        min_bytes=1,
        max_bytes=1,
        topics=[FetchRequest.FetchTopic(topic=topic, partitions=[partition])],
    )
    kept = cast(Any, connection.send(request, 11)).responses[0].partitions[0].records
    header, start, end = next(batches(kept))
    try:
        records: Any = [
            (record.offset - offset, _time(record.timestamp), record.key, record.value, list(record.headers))
            for record in records_of(kept, start, end)
        ]
    except ValueError:
        records = "cannot be read"
    return [
        header.base_offset - offset, header.magic, header.attributes, header.last_offset_delta, header.record_count,
        _time(header.base_timestamp), _time(header.max_timestamp), hashlib.md5(repr(records).encode()).hexdigest()[:8],
    ]  # fmt: skip


def _time(timestamp: int) -> Any:
    """A clock's time is another one each time; those of the batches lie before."""
    return "now" if NOW + 10**10 < timestamp < NOW + 9 * 10**11 else timestamp


def _masked(text: str | None) -> str | None:
    """Without the bounds on timestamps, which move with the clock."""
    return None if text is None else re.sub(r"within \[-?\d+, -?\d+\]", "within [..]", text)
