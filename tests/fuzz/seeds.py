"""What libFuzzer begins with: the records of every uncompressed batch of ``tests/verdicts``, with some settings."""

from __future__ import annotations

import struct
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))

from verdicts.batches import NOW, cases

from barnabas.wire.records import ATTRIBUTES_AT, COMPRESSION_MASK, HEADER, HEADER_BYTES, MAGIC_AT
from barnabas.wire.scan import APPEND_TIMED, CREATE_TIME, NEEDS_KEYS, STRICT

LENGTH_MAX = 600


def main(directory: Path) -> None:
    number = 0
    for case in cases():
        records = case.records
        if (
            len(records) < HEADER_BYTES
            or records[MAGIC_AT] != 2
            or records[ATTRIBUTES_AT + 1] & COMPRESSION_MASK
            or len(records) > LENGTH_MAX
        ):
            continue
        header = HEADER.unpack_from(records)
        for flags in (0, CREATE_TIME, STRICT | CREATE_TIME, STRICT | NEEDS_KEYS | CREATE_TIME | APPEND_TIMED):
            # As `begun` in fuzz_scan.c reads them: times, bounds on timestamps, count, how errors and pieces are cut.
            settings = struct.pack(
                "<qq4si8s", header[7], NOW, b"\x01\x20\x01\x20", header[12], b"\0%c\3\1\3\7\2\5" % flags
            )
            (directory / f"batch-{number}").write_bytes(settings + records[HEADER_BYTES:])
            number += 1


if __name__ == "__main__":
    main(Path(sys.argv[1]))
