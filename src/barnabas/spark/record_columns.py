"""The interface of the compiled decoders of batches: the one in C (``wire/_columns.h``) and numba's (`kernels`)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, NamedTuple

FAULTS: Final = {
    -1: "a record ends too early",
    -2: "a record's fields end elsewhere than the record",
    -3: "bytes are left behind a batch's last record",
    -4: "a record says it has an impossible number of headers",
    -5: "there are more records than the batches say, or bytes than a column takes",
}
"""The faults, by the number that `RecordWalk` returns in place of a count of rows or headers."""
SECTION_FIELDS: Final = 7
"""Start and end of a batch's records in the source, their count, base offset, base timestamp (ms), the timestamp of all
of them or `NO_APPEND_TIME`, the timestamp type."""
NO_APPEND_TIME: Final = -(1 << 63)
TOTALS_FIELDS: Final = 6
"""Counts of `RecordWalk.decode`: bytes of keys, null keys, bytes of values, null values, headers, records with none."""


class RecordWalk(NamedTuple):
    decode: Callable[..., int]
    """Decodes into the buffers of Arrow columns; returns the number of records, or one of `FAULTS`."""
    decode_headers: Callable[..., int]
    """Decodes the headers of records that `decode` has counted; returns their number, or one of `FAULTS`."""
