"""``barnabas log``: reads a broker's files without the broker."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Annotated, Any

from barnabas.cli.command import Argument, CommandGroup, Option
from barnabas.cli.log_dirs import dirs
from barnabas.cli.options import OutputFormat
from barnabas.cli.output import CommandError, Exit, Format, complain, print_json

app = CommandGroup("Brokers' files and log directories.")


@app.command("dump")
def dump(
    files: Annotated[list[str], Argument(metavar="FILE.log..", help="Segment files, or a partition's directory.")],
    records: Annotated[
        bool, Option("--records", "--print-data-log", help="Print every record, not only batches.")
    ] = False,
    output: OutputFormat = Format.text,
) -> None:
    """Print the record batches of segments; exit 1 when one is damaged."""
    failed = False
    for segment in _segments(files):
        if output is Format.text:
            print(f"Dumping {segment}")
        failed |= not _dump(segment, records, output)
    if failed:
        raise Exit(1)


def _segments(files: list[str]) -> list[Path]:
    segments: list[Path] = []
    for name in files:
        path = Path(name)
        if path.is_dir():
            segments.extend(sorted(path.glob("*.log")))
        elif path.exists():
            segments.append(path)
        else:
            raise CommandError(f"There is no file {name}: name a segment such as 00000000000000000000.log.")
    return segments


def _dump(segment: Path, with_records: bool, output: Format) -> bool:
    """Prints a segment. Returns False when a batch is damaged or the file ends within one."""
    from barnabas.model.errors import KafkaError
    from barnabas.wire.records import batches, check_crc, records_of

    data = segment.read_bytes()
    position = 0
    sound = True
    try:
        for header, start, end in batches(data):
            position = end
            try:
                check_crc(data, start, end)
                valid = True
            except (ValueError, KafkaError):
                valid = sound = False
            shown: dict[str, Any] = {
                "baseOffset": header.base_offset,
                "lastOffset": header.last_offset,
                "count": header.record_count,
                "baseSequence": header.base_sequence,
                "producerId": header.producer_id,
                "producerEpoch": header.producer_epoch,
                "partitionLeaderEpoch": header.partition_leader_epoch,
                "isTransactional": header.is_transactional,
                "isControl": header.is_control,
                "position": start,
                "createTime": header.max_timestamp,
                "size": end - start,
                "magic": header.magic,
                "crc": header.crc,
                "isvalid": valid,
            }
            if output is Format.json:
                line = {"file": str(segment), **shown}
                if with_records and valid:
                    line["records"] = [_shown(record) for record in records_of(data, start, end)]
                print_json(line)
                continue
            print(
                *(f"{key}: {str(value).lower() if isinstance(value, bool) else value}" for key, value in shown.items())
            )
            if with_records and valid:
                for record in records_of(data, start, end):
                    fields = _shown(record)
                    words = {name: fields[name] for name in ("offset", "timestamp", "key")}
                    print("|", *(f"{name}: {value}" for name, value in {**words, "payload": fields["value"]}.items()))
    except (ValueError, KafkaError) as error:
        sys.stdout.flush()
        complain(f"{segment} is damaged at position {position}: {error}.")
        return False
    if position != len(data):
        sys.stdout.flush()
        complain(f"{segment} has {len(data) - position} bytes at its end that are not a complete batch.")
        return False
    return sound


def _shown(record: Any) -> dict[str, Any]:
    def text(part: Any) -> str | None:
        return None if part is None else bytes(part).decode("utf-8", "backslashreplace")

    return {
        "offset": record.offset,
        "timestamp": record.timestamp,
        "key": text(record.key),
        "value": text(record.value),
        "headers": [[name, text(value)] for name, value in record.headers],
    }


app.command("dirs")(dirs)
