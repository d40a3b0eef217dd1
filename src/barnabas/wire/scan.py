"""Checks the records of a batch of magic 2 without making an object of one.

A leader checks every record that it receives: lengths, offsets, keys, timestamps (Kafka's ``LogValidator`` over
``DefaultRecord``). A kernel in C does so where it was built (``_kernel.c``, see `RUNNING`), otherwise the Python code
here, a hundred times slower; both give the same result for any bytes. An uncompressed batch is one call of `check`. The
records of a compressed batch are scanned while they are decompressed, piece by piece: a `Scan` keeps its state and none
of the bytes.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from typing import Final, NamedTuple, Protocol

from barnabas.model.sentinels import NO_TIMESTAMP
from barnabas.wire.errors import WireError
from barnabas.wire.kernel import kernel as _kernel
from barnabas.wire.records import HEADER, HEADER_BYTES
from barnabas.wire.structs import Bytes
from barnabas.wire.varint import read_signed, read_signed_int, wrapped

STRICT: Final = 1
"""A record's length must be that of its fields. Kafka checks this in compressed records only when it rewrites them."""
NEEDS_KEYS: Final = 2
"""The topic is compacted."""
CREATE_TIME: Final = 4
"""The topic keeps its producers' timestamps, within bounds."""
APPEND_TIMED: Final = 8
"""The batch's attributes say that its timestamps are LogAppendTime."""

FAULTS: Final = (
    "",
    "a record's length is no number of 32 bits",
    "a record ends elsewhere than its fields, or the records end too early",
    "bytes are left behind the last record",
)
"""The faults, by the index that `Scan.feed` returns."""

NO_KEY: Final = 1
OUT_OF_RANGE: Final = 2
STAMPED: Final = 3
"""A record's `RecordError.kind`: the topic requires a key; another timestamp; no LogAppendTime."""

FINE: Final = 0
OTHER_MAX_TIMESTAMP: Final = 1
NOT_FINE: Final = 2
"""The results of `check`."""

ERRORS_MAX: Final = 1000
"""How many faulty records are listed; `Scanned.error_count` counts all of them."""

_STRUCTURE: Final = 2
_RECORD_LENGTH: Final = 1
_LEFT_OVER: Final = 3


class RecordError(NamedTuple):
    """A record that the topic does not accept. `number` in the batch, from 0; sizes in bytes, negative for none."""

    number: int
    kind: int
    offset_delta: int
    key_size: int
    value_size: int
    timestamp: int


class Scanned(NamedTuple):
    """The result of a scan. `disordered`: the records' offset deltas are not 0, 1, 2 and so on."""

    fault: int
    max_timestamp: int
    disordered: bool
    error_count: int
    timestamp_errors: bool
    errors: list[RecordError]


class Settings(NamedTuple):
    """A scan's settings from batch and topic; times in ms, `append_time` that of an `APPEND_TIMED` batch."""

    base_timestamp: int
    append_time: int
    now: int
    before_max: int
    after_max: int
    record_count: int
    flags: int


class Scan(Protocol):
    """The scan of one batch, begun by `begin`."""

    def feed(self, piece: Bytes, is_last: bool = False) -> int:
        """Takes the next bytes. Returns the fault, an index of `FAULTS`, after which it takes no more."""

    def found(self) -> Scanned: ...


# ------------------------------------------------------------------------------------------------ in C

_STATE: Final = struct.Struct("=qqqqqiiq76xi")
"""Settings, max_timestamp, the fields that begin as zero, and the room for errors."""
_FOUND: Final = struct.Struct("=56xiiii")
_MAX_TIMESTAMP: Final = struct.Struct("=48xq")
_ERROR: Final = struct.Struct("=iiiii4xq")


class NativeScan:
    """A scan by the kernel, in a buffer whose layout the kernel and this class know."""

    __slots__ = ("_state",)

    def __init__(self, settings: Settings) -> None:
        self._state = bytearray(_STATE.size + ERRORS_MAX * _ERROR.size)
        _STATE.pack_into(self._state, 0, *settings, NO_TIMESTAMP, ERRORS_MAX)

    def feed(self, piece: Bytes, is_last: bool = False) -> int:
        fault: int = _kernel.feed(self._state, piece, is_last)
        return fault

    def found(self) -> Scanned:
        state = self._state
        fault, disordered, error_count, timestamp_errors = _FOUND.unpack_from(state)
        (max_timestamp,) = _MAX_TIMESTAMP.unpack_from(state)
        end = _STATE.size + min(error_count, ERRORS_MAX) * _ERROR.size
        errors = [RecordError._make(fields) for fields in _ERROR.iter_unpack(memoryview(state)[_STATE.size : end])]
        return Scanned(fault, max_timestamp, bool(disordered), error_count, bool(timestamp_errors), errors)


# ------------------------------------------------------------------------------------------------ in Python

_LENGTH, _ATTRIBUTES, _TIMESTAMP, _OFFSET, _KEY, _VALUE, _HEADERS, _NAME, _HEADER_VALUE, _END = range(10)


class PythonScan:
    """The same steps as ``_scan.h``, field by field."""

    __slots__ = (
        "_bits",
        "_errors",
        "_field",
        "_headers",
        "_key_size",
        "_left",
        "_offset_delta",
        "_records",
        "_settings",
        "_shift",
        "_skip",
        "_timestamp",
        "_value_size",
        "disordered",
        "error_count",
        "fault",
        "max_timestamp",
        "timestamp_errors",
    )

    def __init__(self, settings: Settings) -> None:
        self._settings = settings
        self._records = self._field = self._skip = self._left = self._bits = self._shift = self._headers = 0
        self._timestamp = self._offset_delta = self._key_size = self._value_size = 0
        self._errors: list[RecordError] = []
        self.max_timestamp = NO_TIMESTAMP
        self.fault = self.error_count = 0
        self.disordered = self.timestamp_errors = False

    def feed(self, piece: Bytes, is_last: bool = False) -> int:
        self._take_bytes(bytes(piece))
        whole = self._records == self._settings.record_count and self._field == _LENGTH and not self._shift
        if is_last and not self.fault and not whole:
            self.fault = _STRUCTURE
        return self.fault

    def found(self) -> Scanned:
        return Scanned(
            self.fault, self.max_timestamp, self.disordered, self.error_count, self.timestamp_errors, self._errors
        )

    def _take_bytes(self, data: bytes) -> None:
        position, end = 0, len(data)
        while not self.fault:
            if self._skip:
                step = min(end - position, self._skip)
                position += step
                self._skip -= step
                self._left -= step
                if self._skip:
                    return
            if self._field == _END:
                if self._settings.flags & STRICT and self._left:
                    self.fault = _STRUCTURE
                    return
                self._judge()
                self._field = _LENGTH
            if self._field == _LENGTH and not self._shift:
                position = self._plain_records(data, position)
            if position == end:
                return
            if self._field == _LENGTH and self._records >= self._settings.record_count:
                self.fault = _LEFT_OVER
                return
            byte = data[position]
            position += 1
            if self._field != _LENGTH:
                self._left -= 1
            if self._field == _ATTRIBUTES:
                self._field = _TIMESTAMP
                continue
            self._bits |= (byte & 0x7F) << self._shift
            self._shift += 7
            if byte < 0x80:
                self.fault = self._take_field(self._bits)
                self._bits = self._shift = 0
            elif self._shift >= (70 if self._field == _TIMESTAMP else 35):
                self.fault = _RECORD_LENGTH if self._field == _LENGTH else _STRUCTURE

    def _plain_records(self, data: bytes, position: int) -> int:
        """Checks whole records without headers; returns the position of the first other one."""
        settings = self._settings
        is_stamped, is_strict = settings.flags & APPEND_TIMED, settings.flags & STRICT
        while self._records < settings.record_count:
            try:
                length, start = read_signed_int(data, position)
                delta, at = read_signed(data, start + 1)
                self._offset_delta, at = read_signed_int(data, at)
                self._key_size, at = read_signed_int(data, at)
                self._value_size, at = read_signed_int(data, at if self._key_size < 0 else at + self._key_size)
                at += 1 if self._value_size < 0 else self._value_size + 1
                if data[at - 1] or (is_strict and at - start != length):
                    return position
            except (IndexError, WireError):
                return position
            self._timestamp = settings.append_time if is_stamped else wrapped(settings.base_timestamp + delta)
            self._judge()
            position = at
        return position

    def _take_field(self, bits: int) -> int:
        """Takes the value of a varint, and sets the next field."""
        field = self._field
        if field == _TIMESTAMP:
            settings = self._settings
            delta = _zigzag(bits & 0xFFFF_FFFF_FFFF_FFFF)
            is_stamped = settings.flags & APPEND_TIMED
            self._timestamp = settings.append_time if is_stamped else wrapped(settings.base_timestamp + delta)
            self._field = _OFFSET
            return FINE
        number = _zigzag(bits & 0xFFFF_FFFF)
        if field == _LENGTH:
            self._left = number
        elif field == _OFFSET:
            self._offset_delta = number
        elif field == _KEY:
            self._key_size = number
            self._skip = max(number, 0)
        elif field == _VALUE:
            self._value_size = number
            self._skip = max(number, 0)
        elif field == _HEADERS:
            if number < 0:
                return _STRUCTURE
            self._headers = number
        elif field == _NAME:
            if number < 0:
                return _STRUCTURE
            self._skip = number
        else:
            self._skip = max(number, 0)
            self._headers -= 1
        if field in (_HEADERS, _HEADER_VALUE):
            self._field = _NAME if self._headers else _END
        else:
            self._field = field + 1
        return FINE

    def _judge(self) -> None:
        """Checks a whole record as ``LogValidator.validateRecord`` does, in its order."""
        settings = self._settings
        timestamp = self._timestamp
        kind = 0
        if settings.flags & NEEDS_KEYS and self._key_size < 0:
            kind = NO_KEY
        elif settings.flags & CREATE_TIME and timestamp != NO_TIMESTAMP:
            age = wrapped(settings.now - timestamp)
            if age > settings.before_max or wrapped(-age) > settings.after_max:
                kind = OUT_OF_RANGE
        elif settings.flags & APPEND_TIMED:
            kind = STAMPED
        if kind:
            if self.error_count < ERRORS_MAX:
                self._errors.append(
                    RecordError(self._records, kind, self._offset_delta, self._key_size, self._value_size, timestamp)
                )
            self.error_count += 1
            self.timestamp_errors |= kind != NO_KEY
        self.disordered |= self._offset_delta != self._records
        self.max_timestamp = max(self.max_timestamp, timestamp)
        self._records += 1


def _zigzag(bits: int) -> int:
    return (bits >> 1) ^ -(bits & 1)


def python_check(batch: Bytes, now: int, before_max: int, after_max: int, flags: int) -> int:
    if len(batch) < HEADER_BYTES:
        return NOT_FINE
    *_, base_timestamp, max_timestamp, _, _, _, record_count = HEADER.unpack_from(batch)
    scan = PythonScan(Settings(base_timestamp, max_timestamp, now, before_max, after_max, record_count, flags | STRICT))
    if scan.feed(memoryview(batch)[HEADER_BYTES:], True) or scan.error_count:
        return NOT_FINE
    return FINE if scan.max_timestamp == max_timestamp else OTHER_MAX_TIMESTAMP


# ------------------------------------------------------------------------------------------------ the one in use

if _kernel is not None and _STATE.size != _kernel.SCAN_BYTES:  # built from another version of its source
    _kernel = None

RUNNING: Final = "Python" if _kernel is None else "the kernel"
"""The scanner of this process, for logs and ``barnabas status``."""

check: Final[Callable[[Bytes, int, int, int, int], int]] = python_check if _kernel is None else _kernel.check
"""``check(batch, now, before_max, after_max, flags)``: checks a whole uncompressed batch. `FINE`; `OTHER_MAX_TIMESTAMP`
if the header's is not that of the records; `NOT_FINE` for a fault, which a `Scan` describes."""


def begin(settings: Settings) -> Scan:
    return PythonScan(settings) if _kernel is None else NativeScan(settings)
