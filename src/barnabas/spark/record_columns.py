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
"""By what `RecordWalk` returns in place of a number of rows or headers."""
SECTION_FIELDS: Final = 7
"""Start and end of a batch's records in the source, their count, base offset, base timestamp (ms), the timestamp of all
of them or `NO_APPEND_TIME`, the timestamp type."""
NO_APPEND_TIME: Final = -(1 << 63)
TOTALS_FIELDS: Final = 6
"""What `RecordWalk.decode` tells: bytes of keys, null keys, bytes of values, null values, headers, records without."""


class RecordWalk(NamedTuple):
    decode: Callable[..., int]
    """Into the buffers of Arrow columns; the number of records, or one of `FAULTS`."""
    decode_headers: Callable[..., int]
    """The headers of records that `decode` has seen; their number, or one of `FAULTS`."""
