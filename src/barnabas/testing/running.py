"""The part of a cluster that its handles, users and verdict use: its host, our own client, and waiting."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Coroutine, Iterable, Sequence
from typing import Any, Final, SupportsInt, TypeVar

from barnabas.client.cluster import ClusterClient
from barnabas.model.errors import KafkaError
from barnabas.model.ids import TopicPartition
from barnabas.testing.history import ClusterHistory
from barnabas.testing.host import ZOOKEEPER, Host, broker_name
from barnabas.testing.life import ClusterError
from barnabas.testing.loop import background
from barnabas.testing.network import CLIENT

T = TypeVar("T")
S = TypeVar("S")

TIMEOUT: Final = 30.0
_POLL_S: Final = 0.005
_NOT_RUNNING: Final = "The cluster is not running: use it within `with`, or call start()."


class RunningCluster:
    """The part of a cluster that handles, users and the verdict use."""

    def __init__(self, count: int, seed: int) -> None:
        self.seed = seed
        self.history = ClusterHistory()
        self._count = count
        self._host: Host | None = None
        self._client: ClusterClient | None = None

    @property
    def host(self) -> Host:
        if self._host is None:
            raise ClusterError(_NOT_RUNNING)
        return self._host

    @property
    def client(self) -> ClusterClient:
        """Our own client, which is exempt from faults; it belongs to the background loop."""
        if self._client is None:
            raise ClusterError(_NOT_RUNNING)
        return self._client

    def run(self, story: Coroutine[Any, Any, T]) -> T:
        if self._is_a_forks:
            story.close()
            raise ClusterError(
                "This process is a fork, and the cluster runs in its parent: pass the bootstrap servers to the child."
            )
        return background().run(story)

    @property
    def _is_a_forks(self) -> bool:
        """Whether this process is a fork of the one in which the cluster runs."""
        return self._host is not None and self._host.background.is_a_forks

    async def until(
        self, fits: Callable[[S], bool], look: Callable[[], Coroutine[Any, Any, S]], what: str, timeout: float
    ) -> S:
        """Waits for a finding that fits, and returns it. Raises ``TimeoutError`` with `what` and the last finding."""
        deadline = time.monotonic() + timeout
        last: object = None
        while True:
            try:
                found = await look()
                if fits(found):
                    return found
                last = found
            except (KafkaError, OSError) as error:
                last = error
            if time.monotonic() >= deadline:
                raise TimeoutError(f"Not within {timeout:g} s: {what}. It is {last!r}.")
            await asyncio.sleep(_POLL_S)

    @property
    def broker_ids(self) -> range:
        return range(self._count)

    def known(self, broker_id: int) -> int:
        """Checks a broker's id. Raises ``ValueError`` if the cluster has no such broker."""
        if not 0 <= broker_id < self._count:
            raise ValueError(f"there is no broker {broker_id}: ids go from 0 to {self._count - 1}")
        return broker_id

    def running(self) -> list[int]:
        """The brokers that run, by their ids."""
        return [broker_id for broker_id in self.broker_ids if self.host.state(broker_id) == "running"]

    async def partitions_of(self, topic: str) -> list[TopicPartition]:
        metadata = await self.client.look_up([topic])
        code = metadata.error_of(topic)
        if code:
            raise KafkaError(code, f"topic {topic}: {code.name}")
        return metadata.partitions(topic)

    async def offsets(self, partitions: Sequence[TopicPartition], which: int) -> dict[TopicPartition, int]:
        listed = await self.client.list_offsets(dict.fromkeys(partitions, which))
        return {partition: found.offset for partition, found in listed.items()}

    def ends(self, ends: SupportsInt | str | Iterable[SupportsInt | str], broker_id: int | None = None) -> list[str]:
        """The names of the links' ends that a test gives as `End`."""
        if isinstance(ends, str | SupportsInt):
            ends = [ends]
        names: dict[str, None] = {}
        for end in ends:
            if end == "brokers":
                names.update((broker_name(number), None) for number in range(self._count) if number != broker_id)
            elif isinstance(end, str):
                if end not in (ZOOKEEPER, CLIENT):
                    raise ValueError(
                        f"{end!r} is not an end of a link: brokers, 'brokers', 'zookeeper' and 'client' are"
                    )
                names[end] = None
            elif int(end) != broker_id:
                names[broker_name(self.known(int(end)))] = None
        return list(names)

    def cut(self, source: str, target: str) -> None:
        self.on_loop(lambda: self.host.links.cut(source, target))
        self.history.note("network", f"nothing from {source} reaches {target}")

    def on_loop(self, change: Callable[[], None]) -> None:
        async def story() -> None:
            change()

        self.run(story())

    def heal_links(self, name: str) -> None:
        self.history.note("network", f"the links of {name} are healed")
        links = self.host.links
        self.on_loop(lambda: links.heal([pair for pair in links.cuts() if name in pair]))
