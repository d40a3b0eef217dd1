"""One partition's batches from the wire: verified, without aborted ones, and with the next fetch under way."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

from barnabas.client.blocking import BlockingCluster, BlockingConnection
from barnabas.client.connection import ConnectionLost
from barnabas.client.offsets import EARLIEST, LATEST
from barnabas.model.errors import ErrorCode, KafkaError, check_code
from barnabas.model.ids import ZERO_UUID
from barnabas.spark.arrow import Fetched, unreadable
from barnabas.spark.options import SourceOptions
from barnabas.spark.plan import DataLoss, OffsetRange, lost
from barnabas.wire.api import ApiKey
from barnabas.wire.errors import WireError
from barnabas.wire.messages.fetch import FetchRequest
from barnabas.wire.records import BatchHeader, batches, check_crc

_VERSION_BY_NAME: Final = 12
"""The newest version with topic names in place of ids (KIP-516); every broker since 2.7 has it."""
_VERSION_BY_ID: Final = 13
_FETCH_WAIT_MS: Final = 500
_RETRY_PAUSE_S: Final = 0.1
_SPARE_BYTES: Final = 64 * 1024
_UNKNOWN: Final = frozenset(
    {ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID, ErrorCode.INCONSISTENT_TOPIC_ID}
)
_LEADER_MOVED: Final = frozenset(
    {
        ErrorCode.NOT_LEADER_OR_FOLLOWER,
        ErrorCode.FENCED_LEADER_EPOCH,
        ErrorCode.UNKNOWN_LEADER_EPOCH,
        ErrorCode.LEADER_NOT_AVAILABLE,
        ErrorCode.REPLICA_NOT_AVAILABLE,
        ErrorCode.KAFKA_STORAGE_ERROR,
        ErrorCode.OFFSET_NOT_AVAILABLE,
    }
)


class _Posted(NamedTuple):
    connection: BlockingConnection
    correlation_id: int


def fetched(cluster: BlockingCluster, wanted: OffsetRange, options: SourceOptions) -> Iterator[Fetched]:
    """The batches that cover `wanted`; the first may begin before it, the last may end behind it.

    The next fetch is sent before an answer is yielded.

    Raises `DataLoss` for lost records (unless ``failOnDataLoss`` is false), `KafkaError` for the broker's errors and
    for a wrong CRC of a batch.
    """
    return _Fetching(cluster, wanted, options).run()


class _Fetching:
    def __init__(self, cluster: BlockingCluster, wanted: OffsetRange, options: SourceOptions) -> None:
        self._cluster = cluster
        self._wanted = wanted
        self._options = options
        self._position = wanted.start
        self._aborted = _Aborted()
        self._record_bytes = 0.0
        """A record's mean size in the last answer; 0.0 before the first."""
        self._last_progress = time.monotonic()

    def run(self) -> Iterator[Fetched]:
        posted: _Posted | None = None
        while self._position < self._wanted.end:
            try:
                posted = posted or self._post(self._cluster.leader(self._wanted.topic_partition))
                answer = self._answer(posted)
            except OSError:
                posted = None
                self._wait("its leader cannot be reached")
                continue
            connection, posted = posted.connection, None
            code = ErrorCode(answer.error_code)
            if code is not ErrorCode.NONE:
                if not self._recovered(code):
                    return
                continue
            data = memoryview(answer.records or b"")
            whole = self._whole(data)
            if not whole:
                self._wait("no records came")
                continue
            self._took(whole)
            if self._position < self._wanted.end:
                posted = self._posted_ahead(connection)
            yield Fetched(data, self._readable(data, whole, answer.aborted_transactions or ()))

    def _whole(self, data: memoryview) -> list[tuple[BatchHeader, int, int]]:
        """The whole batches of an answer. Raises `KafkaError` for other bytes, and for batches before the position."""
        try:
            whole = list(batches(data))
            if whole and whole[-1][0].next_offset <= self._position:
                raise WireError(f"the batches that came end at offset {whole[-1][0].last_offset}")
        except WireError as error:
            raise unreadable(self._wanted, self._position, error) from None
        return whole

    def _took(self, whole: list[tuple[BatchHeader, int, int]]) -> None:
        next_offset = whole[-1][0].next_offset
        self._record_bytes = whole[-1][2] / max(1, next_offset - whole[0][0].base_offset)
        self._position = max(self._position, next_offset)
        self._last_progress = time.monotonic()

    def _posted_ahead(self, connection: BlockingConnection) -> _Posted | None:
        try:
            return self._post(connection)
        except ConnectionLost:
            return None  # the caller asks again on a new connection

    def _post(self, connection: BlockingConnection) -> _Posted:
        wanted = self._wanted
        by_id = wanted.topic_id != ZERO_UUID and connection.versions.get(ApiKey.FETCH, (0, 0))[1] >= _VERSION_BY_ID
        size = self._fetch_bytes()
        request = FetchRequest(
            replica_id=-1,
            max_wait_ms=_FETCH_WAIT_MS,
            min_bytes=1,
            max_bytes=size,
            isolation_level=self._options.isolation_level,
            topics=[
                FetchRequest.FetchTopic(
                    topic="" if by_id else wanted.topic,
                    topic_id=wanted.topic_id if by_id else ZERO_UUID,
                    partitions=[
                        FetchRequest.FetchPartition(
                            partition=wanted.partition, fetch_offset=self._position, partition_max_bytes=size
                        )
                    ],
                )
            ],
        )
        return _Posted(connection, connection.post(request, _VERSION_BY_ID if by_id else _VERSION_BY_NAME))

    def _fetch_bytes(self) -> int:
        """Little more than the rest of the range: bytes after it would be sent in vain."""
        if not self._record_bytes:
            return self._options.fetch_bytes_max
        left = int((self._wanted.end - self._position) * self._record_bytes * 1.125) + _SPARE_BYTES
        return min(self._options.fetch_bytes_max, left)

    def _answer(self, posted: _Posted) -> Any:
        response = posted.connection.receive(posted.correlation_id)
        check_code(response.error_code, what="a fetch was refused")
        return response.responses[0].partitions[0]

    def _readable(
        self, data: memoryview, whole: list[tuple[BatchHeader, int, int]], aborted: Sequence[Any]
    ) -> list[tuple[BatchHeader, int, int]]:
        self._aborted.announce(aborted)
        readable = []
        for header, start, end in whole:
            try:
                check_crc(data, start, end)
            except WireError as error:
                raise unreadable(self._wanted, header.base_offset, error) from None
            if not self._aborted.covers(header) and not header.is_control:
                readable.append((header, start, end))
        return readable

    def _recovered(self, code: ErrorCode) -> bool:
        """Whether to go on after an error; False if the rest is lost and that is allowed. Raises otherwise."""
        partition = self._wanted.topic_partition
        if code in _LEADER_MOVED:
            self._wait(code.name)
            return True
        if code in _UNKNOWN:
            found = self._cluster.refresh([partition.topic]).topic_id(partition.topic)
            if ZERO_UUID not in (self._wanted.topic_id, found) and found != self._wanted.topic_id:
                return self._lost(
                    f"topic {partition.topic} was deleted and made anew (its id was {self._wanted.topic_id}, now it is "
                    f"{found})",
                    self._wanted.end,
                )
            self._wait(code.name)
            return True
        if code is ErrorCode.OFFSET_OUT_OF_RANGE:
            low = self._cluster.list_offsets({partition: EARLIEST})[partition].offset
            if low > self._position:
                return self._lost(f"the topic begins at offset {low} now", min(low, self._wanted.end))
            high = self._cluster.list_offsets({partition: LATEST})[partition].offset
            return self._lost(f"the topic ends at offset {high} now", self._wanted.end)
        if code is ErrorCode.TOPIC_AUTHORIZATION_FAILED:
            raise KafkaError(code, f"{partition} cannot be read: this user has no READ permission on the topic.")
        raise KafkaError(code, f"{partition} at offset {self._position}: {code.name}")

    def _lost(self, why: str, until: int) -> bool:
        if self._options.fail_on_data_loss:
            raise DataLoss(lost(self._wanted._replace(start=self._position, end=until), why))
        self._position = until
        return until < self._wanted.end

    def _wait(self, why: str) -> None:
        """A pause before the next try, and fresh metadata; gives up after ``kafka.default.api.timeout.ms``."""
        waited = time.monotonic() - self._last_progress
        if waited * 1000 > self._options.access.retry_timeout_ms:
            raise KafkaError(
                ErrorCode.REQUEST_TIMED_OUT,
                f"{self._wanted.topic_partition} could not be read from offset {self._position} on for {waited:.0f} s:"
                f" {why}.",
            )
        time.sleep(_RETRY_PAUSE_S)
        self._cluster.refresh([self._wanted.topic])


class _Aborted:
    """Which producers have an aborted transaction at the reader's position (read_committed)."""

    def __init__(self) -> None:
        self._waiting: list[tuple[int, int]] = []
        """First offset and producer id of the transactions that begin further on, in order."""
        self._open: set[int] = set()

    def announce(self, transactions: Sequence[Any]) -> None:
        """The aborted transactions that overlap a fetch; some may have begun before it."""
        self._waiting = sorted((transaction.first_offset, transaction.producer_id) for transaction in transactions)

    def covers(self, header: BatchHeader) -> bool:
        """To be called for each batch in order, markers too: compaction may have left a transaction's marker alone."""
        while self._waiting and self._waiting[0][0] <= header.last_offset:
            _, producer_id = self._waiting.pop(0)
            self._open.add(producer_id)
        if header.is_control:
            self._open.discard(header.producer_id)
        return header.is_transactional and header.producer_id in self._open
