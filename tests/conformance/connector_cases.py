"""Reads at the edges, by ``format("barnabas")`` and by the official connector: what each answers.

An answer is the offsets read of each partition (``plain-0: 5-9``), or ``error: `` and a part of the message. Where ours
is another one by choice, the case says why.
"""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any, Final, NamedTuple

from confluent_kafka import Producer, TopicPartition
from confluent_kafka.admin import AdminClient, NewTopic

BEGIN_MS: Final = 1_700_000_000_000
"""Of ``plain``: the timestamp of offset 0 of each partition, and a second more for each further one."""
NOTHING: Final = "nothing"
_PLAIN: Final = "plain-0: 0-9; plain-1: 0-9"


class Case(NamedTuple):
    name: str
    options: dict[str, str]
    official: str
    ours: str = ""
    """Empty: the same; of an error, what ours says where it has other words."""
    why: str = ""
    """Of an answer that differs."""


def fill(bootstrap: str) -> Producer:
    """The topics; returns a producer whose transaction is open, at ``open`` offsets 2 and 3."""
    admin = AdminClient({"bootstrap.servers": bootstrap})
    appended = {"message.timestamp.type": "LogAppendTime"}
    topics = [NewTopic("plain", 3, 1), *(NewTopic(name, 1, 1) for name in ("nulls", "aged", "tx", "open"))]
    topics.append(NewTopic("appended", 1, 1, config=appended))
    for made in admin.create_topics(topics).values():
        made.result(30)
    producer = Producer({"bootstrap.servers": bootstrap})
    for number in range(20):
        producer.produce("plain", b"%d" % number, None, number % 2, timestamp=BEGIN_MS + number // 2 * 1000)
    headers = [None, [], [("a", None)], [("a", b"1"), ("a", b"2"), ("", b"")], [("ä", b"\xff\x00")]]
    for each in headers:
        producer.produce("nulls", b"v", b"k", headers=each)
    for key, value in ((None, None), (None, b"v"), (b"k", None), (b"", b""), (b"\xff", b"\xff")):
        producer.produce("nulls", value, key)
    for number in range(10):
        producer.produce("aged", b"%d" % number)
    producer.produce("appended", b"v", timestamp=BEGIN_MS)
    producer.produce("open", b"0")
    producer.produce("open", b"1")
    assert producer.flush(30) == 0
    admin.delete_records([TopicPartition("aged", 0, 4)])[TopicPartition("aged", 0)].result(30)
    _transactions(bootstrap)
    unfinished = Producer({"bootstrap.servers": bootstrap, "transactional.id": "open"})
    unfinished.init_transactions(30)
    unfinished.begin_transaction()
    unfinished.produce("open", b"2")
    unfinished.produce("open", b"3")
    assert unfinished.flush(30) == 0
    return unfinished


def _transactions(bootstrap: str) -> None:
    """``tx``: 0 to 2, a marker, 4 to 6 aborted, a marker, 8 and 9, a marker; it ends at 11."""
    producer = Producer({"bootstrap.servers": bootstrap, "transactional.id": "tx"})
    producer.init_transactions(30)
    for count, kept in ((3, True), (3, False), (2, True)):
        producer.begin_transaction()
        for number in range(count):
            producer.produce("tx", b"%d" % number)
        assert producer.flush(30) == 0
        (producer.commit_transaction if kept else producer.abort_transaction)(30)


def answer(spark: Any, bootstrap: str, source: str, options: dict[str, str]) -> str:
    """What a batch read by `source` gives."""
    # The connector asks a broker for records that it does not have for two minutes otherwise.
    given = {"kafka.bootstrap.servers": bootstrap, "kafkaConsumer.pollTimeoutMs": "2000", **options}
    try:
        frame = spark.read.format(source).options(**given).load()
        rows = frame.select("topic", "partition", "offset").collect()
    except Exception as error:
        return f"error: {said(error)}"
    found: dict[str, list[int]] = {}
    for topic, partition, offset in rows:
        found.setdefault(f"{topic}-{partition}", []).append(offset)
    return "; ".join(f"{name}: {ranges(sorted(offsets))}" for name, offsets in sorted(found.items())) or NOTHING


def said(error: Exception) -> str:
    """Without the stack traces of the JVM."""
    lines = [line.strip() for line in str(error).splitlines()]
    return " | ".join(line for line in lines if line and not line.startswith(("at ", "...")))


def ranges(offsets: list[int]) -> str:
    """``0-3,5``."""
    starts = [each for before, each in pairwise([-2, *offsets]) if each != before + 1]
    ends = [each for each, after in pairwise([*offsets, offsets[-1] + 2]) if after != each + 1]
    return ",".join(f"{a}-{b}" if a != b else str(a) for a, b in zip(starts, ends, strict=True))


def _of_plain(*values: int) -> str:
    return json.dumps({"plain": dict(enumerate(values))})


_TWO: Final = {"assign": '{"plain":[0,1]}'}
CASES: Final = (
    Case("blanks in a list of topics", {"subscribe": " plain , aged"}, f"aged-0: 4-9; {_PLAIN}"),
    Case("no topic in the list", {"subscribe": " ,"}, "error: No topics to subscribe", "error: subscribe is empty"),
    Case("an empty pattern", {"subscribePattern": ""}, "error: Pattern to subscribe is empty", "error: is empty"),
    Case("a topic that is not there", {"subscribe": "nope"}, "error: UnknownTopicOrPartition", "error: does not exist"),
    Case("a pattern of a name's middle", {"subscribePattern": "lai"}, _PLAIN),
    Case("a pattern with anchors", {"subscribePattern": "^pl.*n$"}, _PLAIN),
    Case("a pattern of nothing that is there", {"subscribePattern": "nope"}, NOTHING),
    Case("an invalid pattern", {"subscribePattern": "("}, "error: Unclosed group", "error: not a regular expression"),
    Case("one partition", {"assign": '{"plain":[1]}'}, "plain-1: 0-9"),
    Case("assign that is no JSON", {"assign": "plain"}, "error: assign", "error: Option assign"),
    Case("two ways to say what is read", {"subscribe": "plain", **_TWO}, "error: nly one", "error: Exactly one"),
    Case("offsets by partition", {"subscribe": "plain", "startingOffsets": _of_plain(5, -2, 0)},
         "plain-0: 5-9; plain-1: 0-9"),
    Case("ends by partition", {"subscribe": "plain", "endingOffsets": _of_plain(5, -1, 0)},
         "plain-0: 0-4; plain-1: 0-9"),
    Case("-1 as a batch's start", {"subscribe": "plain", "startingOffsets": _of_plain(5, -1, 0)},
         "error: latest", "error: latest"),
    Case("-2 as an end", {"subscribe": "plain", "endingOffsets": _of_plain(5, -2, 0)}, "error: earliest"),
    Case("latest as a batch's start", {"subscribe": "plain", "startingOffsets": "latest"}, "error: latest"),
    Case("earliest as an end", {"subscribe": "plain", "endingOffsets": "earliest"}, "error: earliest"),
    Case("offsets of some partitions", {"subscribe": "plain", "startingOffsets": '{"plain":{"0":5}}'},
         "error: don't match what are assigned", "error: name each of them"),
    Case("offsets of a partition that is not there", {**_TWO, "startingOffsets": _of_plain(5, 5, 5)},
         "error: don't match what are assigned", "error: does not cover"),
    Case("offset -3", {"subscribe": "plain", "startingOffsets": _of_plain(-3, 0, 0)}, "error: -3"),
    Case("a start behind the end", {"subscribe": "plain", "startingOffsets": _of_plain(50, 0, 0)}, "error: 50"),
    Case("a start behind the end, and failOnDataLoss=false", {"subscribe": "plain", "failOnDataLoss": "false",
         "startingOffsets": _of_plain(50, 0, 0)}, "error: 50", "plain-1: 0-9", "it goes on with what is there"),
    Case("an end behind the end", {"subscribe": "plain", "endingOffsets": _of_plain(50, 10, 0)}, "error: 50"),
    Case("an end behind the end, and failOnDataLoss=false", {"subscribe": "plain", "failOnDataLoss": "false",
         "endingOffsets": _of_plain(50, 10, 0)}, _PLAIN),
    Case("a start behind the given end", {**_TWO, "startingOffsets": '{"plain":{"0":7,"1":0}}',
         "endingOffsets": '{"plain":{"0":3,"1":2}}'}, "error: 7", "error: correct the options"),
    Case("start and end are one", {**_TWO, "startingOffsets": '{"plain":{"0":7,"1":0}}',
         "endingOffsets": '{"plain":{"0":7,"1":2}}'}, "plain-1: 0-1"),
    Case("earliest of what has aged", {"subscribe": "aged"}, "aged-0: 4-9"),
    Case("a start that has aged out", {"subscribe": "aged", "startingOffsets": '{"aged":{"0":0}}'}, "error: aged"),
    Case("a start that has aged out, and failOnDataLoss=false", {"subscribe": "aged", "failOnDataLoss": "false",
         "startingOffsets": '{"aged":{"0":0}}'}, "aged-0: 4-9"),
    Case("from a timestamp on", {**_TWO, "startingTimestamp": str(BEGIN_MS + 5000)}, "plain-0: 5-9; plain-1: 5-9"),
    Case("between two records", {**_TWO, "startingTimestamp": str(BEGIN_MS + 5001)}, "plain-0: 6-9; plain-1: 6-9"),
    Case("from a timestamp after all", {**_TWO, "startingTimestamp": str(BEGIN_MS * 2)},
         "error: No offset matched", "error: no record at or after"),
    Case("from a timestamp after all, and the strategy latest", {**_TWO, "startingTimestamp": str(BEGIN_MS * 2),
         "startingOffsetsByTimestampStrategy": "latest"}, NOTHING),
    Case("a timestamp of an empty partition", {"subscribe": "plain", "startingTimestamp": str(BEGIN_MS)},
         "error: No offset matched", "error: no record at or after"),
    Case("up to a timestamp", {**_TWO, "endingTimestamp": str(BEGIN_MS + 5000)}, "plain-0: 0-4; plain-1: 0-4"),
    Case("up to a timestamp after all", {**_TWO, "endingTimestamp": str(BEGIN_MS * 2)}, _PLAIN),
    Case("a timestamp as start and end", {**_TWO, "startingTimestamp": str(BEGIN_MS + 5000),
         "endingTimestamp": str(BEGIN_MS + 5000)}, NOTHING),
    Case("timestamps by partition", {**_TWO, "startingOffsetsByTimestamp": json.dumps(
         {"plain": {"0": BEGIN_MS + 1000, "1": BEGIN_MS + 8000}})}, "plain-0: 1-9; plain-1: 8-9"),
    Case("ends by timestamp of a partition", {**_TWO, "endingOffsetsByTimestamp": json.dumps(
         {"plain": {"0": BEGIN_MS + 1000, "1": BEGIN_MS * 2}})}, "plain-0: 0; plain-1: 0-9"),
    Case("timestamps of some partitions", {**_TWO, "startingOffsetsByTimestamp": json.dumps(
         {"plain": {"0": BEGIN_MS}})}, "error: don't match what are assigned", "error: name each of them"),
    Case("one timestamp goes before all else", {**_TWO, "startingTimestamp": str(BEGIN_MS + 5000),
         "startingOffsets": "earliest", "startingOffsetsByTimestamp": json.dumps({"plain": {"0": 0, "1": 0}})},
         "plain-0: 5-9; plain-1: 5-9"),
    Case("timestamps go before offsets", {**_TWO, "startingOffsets": "earliest",
         "startingOffsetsByTimestamp": json.dumps({"plain": {"0": BEGIN_MS + 5000, "1": BEGIN_MS + 9000}})},
         "plain-0: 5-9; plain-1: 9"),
    Case("a timestamp below zero", {**_TWO, "startingTimestamp": "-1"}, NOTHING, "error: 0 or more",
         "to a broker -1 is the end, so that all would be left out in silence"),
    Case("aborted records", {"subscribe": "tx"}, "tx-0: 0-2,4-6,8-9"),
    Case("without aborted records", {"subscribe": "tx", "kafka.isolation.level": "read_committed"}, "tx-0: 0-2,8-9"),
    Case("from an aborted record", {"subscribe": "tx", "kafka.isolation.level": "read_committed",
         "startingOffsets": '{"tx":{"0":5}}'}, "tx-0: 8-9"),
    Case("nothing but a marker", {"subscribe": "tx", "startingOffsets": '{"tx":{"0":10}}'}, NOTHING),
    Case("an open transaction", {"subscribe": "open"}, "open-0: 0-3"),
    Case("up to an open transaction", {"subscribe": "open", "kafka.isolation.level": "read_committed"}, "open-0: 0-1"),
    Case("minPartitions below the topic's", {"subscribe": "plain", "minPartitions": "1"}, _PLAIN),
    Case("minPartitions above the records", {**_TWO, "minPartitions": "50"}, _PLAIN),
    Case("minPartitions=0", {**_TWO, "minPartitions": "0"}, "error: minPartitions"),
    Case("maxRecordsPerPartition", {**_TWO, "maxRecordsPerPartition": "3"}, _PLAIN),
    Case("a limit of streams", {**_TWO, "maxOffsetsPerTrigger": "3"}, _PLAIN),
    Case("failOnDataLoss=maybe", {**_TWO, "failOnDataLoss": "maybe"}, "error: maybe"),
    Case("a misspelt option", {**_TWO, "startingOfsets": "latest"}, _PLAIN, "error: Did you mean startingOffsets",
         "what it says would be read otherwise than it says"),
    Case("auto.offset.reset", {**_TWO, "kafka.auto.offset.reset": "latest"}, "error: auto.offset.reset"),
    Case("enable.auto.commit", {**_TWO, "kafka.enable.auto.commit": "true"}, "error: enable.auto.commit"),
    Case("a deserializer", {**_TWO, "kafka.value.deserializer": "x"}, "error: value.deserializer"),
    Case("a group", {**_TWO, "kafka.group.id": "mine"}, _PLAIN),
)  # fmt: skip
