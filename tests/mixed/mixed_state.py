"""How a cluster of both kinds is at a moment: what is to be known of a run that failed, and whose files are gone."""

from __future__ import annotations

import asyncio
import json
import re
from collections import deque
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from kazoo.exceptions import KazooException, NoNodeError
from kazoo.handlers.threading import KazooTimeoutError
from mixed_brokers import BothKinds

from barnabas.client import KafkaError, TopicPartition, connect

ANSWERS_WITHIN_S = 10.0
LINES = 12
"""How many of a broker's last complaints are told."""
LONGEST = 400
_COMPLAINT = re.compile(r"\[[^]]+\] (WARNING|WARN|ERROR|CRITICAL|FATAL) ")
_UNASKED = (KazooException, KazooTimeoutError)


def state(brokers: BothKinds) -> str:
    """Who reigns, which partitions lack something by ZooKeeper's word, and of each broker whether it lives, what it
    says otherwise, and what it complained of last. Who cannot be asked is told of so."""
    return "\n".join(_told(brokers))


def _told(brokers: BothKinds) -> Iterator[str]:
    for path in ("/controller", "/controller_epoch"):
        yield f"{path}: {_znode(brokers, path)}"
    partitions = _partitions(brokers)
    if isinstance(partitions, str):
        yield f"/brokers/topics: {partitions}"
        partitions = {}
    yield f"{len(partitions)} partitions have a state"
    for at, known in partitions.items():
        if known["leader"] < 0 or len(known["isr"]) < known["replicas"]:
            yield f"  {at}: {json.dumps(known)}"
    # Read before they are asked, which they write down.
    complaints = {broker: _complaints(brokers.log(broker)) for broker in brokers.ids}
    for broker in brokers.ids:
        yield f"broker {broker} of {brokers.kind(broker)}: {_process(brokers, broker)}"
        yield f"  /brokers/ids/{broker}: {_znode(brokers, f'/brokers/ids/{broker}')}"
        for said in asyncio.run(_said(brokers.ports[broker], partitions)):
            yield f"  says {said}"
        yield from (f"  {line[:LONGEST]}" for line in complaints[broker])


def _process(brokers: BothKinds, broker: int) -> str:
    process = brokers.process(broker)
    if (ended := process.poll()) is not None:
        return f"ended with {ended}"
    kernel = Path(f"/proc/{process.pid}/status").read_text()
    return " ".join(line.split("\t", 1)[1] for line in kernel.splitlines() if line.startswith("State:"))


def _read(brokers: BothKinds, path: str) -> bytes:
    """Waits for an answer, and not for a connection that may never come."""
    return bytes(brokers.zookeeper.get_async(path).get(timeout=ANSWERS_WITHIN_S)[0])


def _znode(brokers: BothKinds, path: str) -> str:
    try:
        return _read(brokers, path).decode()
    except NoNodeError:
        return "is not there"
    except _UNASKED as error:
        return repr(error)


def _partitions(brokers: BothKinds) -> dict[TopicPartition, dict[str, Any]] | str:
    """What ZooKeeper has of each partition, and of how many replicas; or why that is not known."""
    found: dict[TopicPartition, dict[str, Any]] = {}
    try:
        topics = brokers.zookeeper.get_children_async("/brokers/topics").get(timeout=ANSWERS_WITHIN_S)
        for topic in topics:
            assigned = json.loads(_read(brokers, f"/brokers/topics/{topic}"))["partitions"]
            for number, replicas in assigned.items():
                known = json.loads(_read(brokers, f"/brokers/topics/{topic}/partitions/{number}/state"))
                found[TopicPartition(topic, int(number))] = known | {"replicas": len(replicas)}
    except _UNASKED as error:
        return repr(error)
    return found


async def _said(port: int, partitions: dict[TopicPartition, dict[str, Any]]) -> list[str]:
    """Controller and brokers that the one at `port` names, and every leader that is another than ZooKeeper's."""
    try:
        async with connect(f"127.0.0.1:{port}", config={"default.api.timeout.ms": "5000"}) as cluster:
            view = await cluster.refresh(None)
    except (KafkaError, OSError) as error:
        return [f"nothing: {error}"]
    said = [f"that broker {view.controller_id} is the controller, and {sorted(view.brokers)} live"]
    for at, known in partitions.items():
        if (leader := view.leader(at)) != known["leader"]:
            said.append(f"that {leader} leads {at}, with epoch {view.leader_epoch(at)}: it is {json.dumps(known)}")
    return said


def _complaints(log: Path) -> list[str]:
    """The last of them, and the very last line."""
    complaints: deque[str] = deque(maxlen=LINES)
    last = "has written nothing"
    with log.open(errors="replace") as lines:
        for line in lines:
            last = line.rstrip()
            if _COMPLAINT.match(line):
                complaints.append(last)
    return [*complaints, f"its last line: {last}"]
