"""A follower's fetch of one partition, and its answer, as constant bytes and numbers that change.

A follower that keeps up sends the same request again and again; only the correlation id, the session's epoch and the
fetch offset differ. In the answers, only the correlation id, the offsets and the records differ. To find the places of
these numbers, one message is encoded twice, with all their bits clear and then all set. So this module knows nothing
about the layout of a version.
"""

from __future__ import annotations

from struct import Struct
from typing import Final

from barnabas.model.ids import Uuid
from barnabas.runtime.doors import Bytes
from barnabas.wire.frames import encode_request, encode_response
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.varint import read_rest, write_unsigned

FIRST_VERSION: Final = 13
"""The first version of Fetch that has topic ids; lengths are varints since 12."""
JOINED_BYTES: Final = 8 * 1024
"""Records up to this size are copied into the frame."""

_OFFSETS_BYTES: Final = 3 * 8
_ALL_BITS: Final = -1
_ANSWER_AT: Final = 4
"""Where an answer begins after the correlation id; its size is not counted."""


def _between(frames: list[bytes], *sizes: int) -> list[bytes]:
    """The parts between the numbers; the numbers are the bytes in which the two frames differ, with the given sizes."""
    clear, filled = frames
    differ = [at for at, (one, other) in enumerate(zip(clear, filled, strict=True)) if one != other]
    parts = []
    start = 0
    for size in sizes:
        at, differ = differ[:size], differ[size:]
        assert at == list(range(at[0], at[0] + size)), f"{size} bytes at {at} are one number"
        parts.append(clear[start : at[0]])
        start = at[0] + size
    assert not differ, f"what stands at {differ} is no number"
    return [*parts, clear[start:]]


def _length(value: int) -> bytes:
    if value < 0x4000:  # as nearly all are
        return bytes((value & 0x7F | 0x80, value >> 7)) if value > 0x7F else bytes((value,))
    encoded = bytearray()
    write_unsigned(encoded, value)
    return bytes(encoded)


class OnePartitionRequest:
    """The frames of a request that is sent again with another fetch offset."""

    __slots__ = ("_pack", "_parts")

    def __init__(self, request: FetchRequest, version: int, client_id: str) -> None:
        """`request` names one partition; the session's epoch and the fetch offset do not matter."""
        asked = request.topics[0].partitions[0]
        before = request.session_epoch, asked.fetch_offset
        frames = []
        for bits in (0, _ALL_BITS):
            request.session_epoch = asked.fetch_offset = bits
            frames.append(b"".join(encode_request(request, version, bits, client_id)))
        request.session_epoch, asked.fetch_offset = before
        start, front, middle, back = _between(frames, 4, 4, 8)
        self._pack = Struct(f">{len(start)}si{len(front)}si{len(middle)}sq{len(back)}s").pack
        self._parts = start, front, middle, back

    def frame(self, session_epoch: int, fetch_offset: int, correlation_id: int) -> list[Bytes]:
        """The whole frame, its size first."""
        start, front, middle, back = self._parts
        return [self._pack(start, correlation_id, front, session_epoch, middle, fetch_offset, back)]


class OnePartitionAnswer:
    """The frames of answers that contain only offsets and records of one partition."""

    __slots__ = ("_back", "_bytes", "_front", "_middle", "_pack", "_records_at", "_unpack")

    def __init__(self, version: int, session_id: int, topic_id: Uuid, partition: int) -> None:
        frames = []
        for bits, record in ((0, b"\x00"), (_ALL_BITS, b"\xff")):
            data = FetchResponse.PartitionData(
                partition, 0, bits, bits, bits, aborted_transactions=None, records=record
            )
            topic = FetchResponse.FetchableTopicResponse("", topic_id, [data])
            frames.append(
                b"".join(encode_response(FetchResponse(session_id=session_id, responses=[topic]), version, bits))
            )
        _, self._front, middle, self._back = _between(frames, 4, _OFFSETS_BYTES, 1)
        self._middle = middle[:-1]  # without the length of the records
        self._pack = Struct(f">ii{len(self._front)}sqqq{len(self._middle)}s").pack
        self._bytes = len(frames[0]) - 4 - 2  # without the size, the one record and its length
        told = Struct(f">{len(self._front)}sqqq{len(self._middle)}s")
        self._unpack = told.unpack_from
        self._records_at = _ANSWER_AT + told.size

    def frame(
        self,
        correlation_id: int,
        high_watermark: int,
        last_stable_offset: int,
        log_start_offset: int,
        records: Bytes,
    ) -> list[Bytes]:
        """The whole frame in parts, its size first."""
        size = len(records)
        length = _length(size + 1)
        front = self._pack(
            self._bytes + len(length) + size,
            correlation_id,
            self._front,
            high_watermark,
            last_stable_offset,
            log_start_offset,
            self._middle,
        )
        if size <= JOINED_BYTES:
            return [b"".join((front, length, records, self._back))]
        return [front + length, records, self._back]

    def read(self, frame: Bytes) -> tuple[int, int, memoryview] | None:
        """High watermark, log start offset and records of an answer without its size; None if the answer tells anything
        else."""
        behind = self._records_at
        if len(frame) <= behind:
            return None
        told: tuple[bytes, int, int, int, bytes] = self._unpack(frame, _ANSWER_AT)
        front, high_watermark, _, log_start_offset, middle = told
        if front != self._front or middle != self._middle:
            return None
        size, start = frame[behind], behind + 1
        if size > 0x7F:
            size, start = read_rest(frame, start, size)
        stop = start + size - 1
        if size == 0 or frame[stop:] != self._back:
            return None
        return high_watermark, log_start_offset, memoryview(frame)[start:stop]
