"""Record batches: Kafka's own bytes, every codec, and nothing read that is not there."""

from __future__ import annotations

import os
import struct

import cramjam
import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.wire.compression import Codec, TooLargeError, compress, decompress, decompressed_pieces
from barnabas.wire.errors import WireError
from barnabas.wire.records import (
    ControlType,
    Record,
    batches,
    build_batch,
    check_crc,
    control_batch,
    parse_header,
    records_of,
    stamp,
)

# As a 3.9.1 broker stored them: a transaction's data batch, and the marker that aborts it.
ABORTED_DATA = bytes.fromhex(
    "0000000000000161 00000042 00000000 02 7e2dee54 0010 00000000 000001a1fbf85d5f 000001a1fbf85d5f 00000000000003e8"
    "0000 00000000 00000001 20 00 00 00 01 14 74782d61626f72746564 00"
)
ABORT_MARKER = bytes.fromhex(
    "0000000000000162 00000042 00000000 02 eaca6f87 0030 00000000 000001a1fbf864dc 000001a1fbf864dc 00000000000003e8"
    "0000 ffffffff 00000001 20 00 00 00 08 00000000 0c 000000000000 00"
)


def test_kafkas_own_batch_is_read() -> None:
    header = parse_header(ABORTED_DATA)
    check_crc(ABORTED_DATA, 0, len(ABORTED_DATA))
    assert (header.base_offset, header.producer_id, header.is_transactional, header.is_control) == (
        353,
        1000,
        True,
        False,
    )
    assert records_of(ABORTED_DATA, 0, len(ABORTED_DATA)) == [Record(353, header.base_timestamp, None, b"tx-aborted")]


def test_our_batches_are_kafkas_byte_for_byte() -> None:
    timestamp = parse_header(ABORTED_DATA).base_timestamp
    ours = build_batch(
        [Record(353, timestamp, None, b"tx-aborted")],
        leader_epoch=0, producer_id=1000, producer_epoch=0, base_sequence=0, is_transactional=True,
    )  # fmt: skip
    assert ours == ABORTED_DATA
    marker = control_batch(
        ControlType.ABORT, producer_id=1000, producer_epoch=0, coordinator_epoch=0,
        timestamp=parse_header(ABORT_MARKER).base_timestamp, base_offset=354, leader_epoch=0,
    )  # fmt: skip
    assert marker == ABORT_MARKER


def test_stamping_moves_a_batch_and_its_crc_still_holds() -> None:
    batch = bytearray(ABORTED_DATA)
    stamp(batch, 0, 99_999_999_999, 7)
    check_crc(batch, 0, len(batch))
    header = parse_header(batch)
    assert (header.base_offset, header.partition_leader_epoch) == (99_999_999_999, 7)


headers = st.lists(st.tuples(st.text(max_size=10), st.none() | st.binary(max_size=20)), max_size=3)
records = st.lists(
    st.tuples(
        st.integers(0, 1 << 42), st.none() | st.binary(max_size=50), st.none() | st.binary(max_size=300), headers
    ),
    min_size=1,
    max_size=30,
)


@given(records, st.sampled_from(Codec), st.integers(0, 1 << 60))
def test_records_come_back_as_they_were_through_every_codec(
    content: list[tuple[int, bytes | None, bytes | None, list[tuple[str, bytes | None]]]], codec: Codec, base: int
) -> None:
    given_records = [Record(base + number, *fields) for number, fields in enumerate(content)]
    batch = build_batch(given_records, compression=codec)
    ((header, start, end),) = batches(batch)
    check_crc(batch, start, end)
    assert header.last_offset == base + len(content) - 1
    found = records_of(batch, start, end)
    assert [each._replace(headers=list(each.headers)) for each in found] == given_records


@given(st.binary(max_size=200), st.integers(0, 80), st.integers(0, 255))
def test_mutated_batches_are_refused_and_never_crash(tail: bytes, at: int, byte: int) -> None:
    batch = bytearray(build_batch([Record(5, 6, b"key", b"value" * 10, [("h", b"x")])]) + tail)
    batch[at] = byte
    try:
        for _, start, end in batches(batch):
            records_of(batch, start, end)
    except WireError:
        return


@pytest.mark.parametrize("cut", [1, 11, 16, 60, 61, 65])
def test_a_batch_cut_off_at_the_end_is_left_out(cut: int) -> None:
    whole = build_batch([Record(0, 0, None, b"first")])
    assert [header.base_offset for header, _, _ in batches(whole + whole[:cut])] == [0]


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_is_refused_before_it_is_unpacked(codec: Codec) -> None:
    bomb = compress(codec, bytes(1 << 22))
    assert len(decompress(codec, memoryview(bomb), 1 << 22)) == 1 << 22
    with pytest.raises(WireError, match="more than"):
        decompress(codec, memoryview(bomb), 1 << 20)


@pytest.mark.parametrize("codec", Codec)
@pytest.mark.parametrize("plain", [b"", b"x", bytes(1 << 20), os.urandom(150_000), os.urandom(70_000) + bytes(70_000)])
def test_pieces_are_the_whole_and_none_is_large(codec: Codec, plain: bytes) -> None:
    packed = memoryview(compress(codec, plain))
    pieces = list(decompressed_pieces(codec, packed, 4096))
    assert b"".join(pieces) == plain == bytes(decompress(codec, packed))
    largest = {Codec.SNAPPY: 32 * 1024, Codec.LZ4: 64 * 1024}.get(codec, 4096)
    assert max(map(len, pieces), default=0) <= largest


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.LZ4, Codec.ZSTD])
@pytest.mark.parametrize("cut", [1, 5, 3000])
def test_what_ends_in_its_middle_is_refused_whole_and_in_pieces(codec: Codec, cut: int) -> None:
    packed = memoryview(compress(codec, os.urandom(10_000)))[:-cut]
    with pytest.raises(WireError):
        decompress(codec, packed)
    with pytest.raises(WireError):
        list(decompressed_pieces(codec, packed))


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_a_bomb_is_refused_at_the_piece_that_goes_beyond(codec: Codec) -> None:
    held: list[bytes | memoryview] = []
    with pytest.raises(TooLargeError):
        held.extend(decompressed_pieces(codec, memoryview(compress(codec, bytes(1 << 22))), limit=1 << 20))
    assert (1 << 20) - 65536 <= sum(map(len, held)) <= 1 << 20


@pytest.mark.parametrize("codec", [Codec.GZIP, Codec.ZSTD])
def test_members_and_frames_one_behind_the_other_are_one_batch(codec: Codec) -> None:
    packed = memoryview(compress(codec, b"a" * 100_000) + compress(codec, b"b"))
    assert bytes(decompress(codec, packed)) == b"".join(decompressed_pieces(codec, packed)) == b"a" * 100_000 + b"b"


def test_an_lz4_frame_whose_blocks_build_on_each_other_is_read_in_one_piece() -> None:
    packed = memoryview(bytes(cramjam.lz4.compress(b"abc" * 100_000)))
    assert b"".join(decompressed_pieces(Codec.LZ4, packed)) == b"abc" * 100_000


@pytest.mark.parametrize("codec", [codec for codec in Codec if codec is not Codec.NONE])
def test_bytes_that_no_codec_made_are_refused(codec: Codec) -> None:
    with pytest.raises(WireError):
        decompress(codec, memoryview(b"\xff\xfe\xfd" * 30))
    with pytest.raises(WireError):
        list(decompressed_pieces(codec, memoryview(b"\xff\xfe\xfd" * 30)))


def test_plain_snappy_is_read_as_well_as_xerials() -> None:
    assert bytes(decompress(Codec.SNAPPY, memoryview(bytes(cramjam.snappy.compress_raw(b"abc" * 50))))) == b"abc" * 50


def test_a_count_of_records_that_cannot_be_asks_for_no_memory() -> None:
    batch = bytearray(build_batch([Record(0, 0, None, b"x")]))
    struct.pack_into(">i", batch, 57, 2**31 - 1)
    with pytest.raises(WireError, match="records"):
        records_of(batch, 0, len(batch))


def test_messages_of_magic_1_and_0_are_read() -> None:
    import zlib

    def message(offset: int, magic: int, attributes: int, key: bytes | None, value: bytes) -> bytes:
        body = struct.pack(">bb", magic, attributes) + (struct.pack(">q", 1234) if magic else b"")
        body += struct.pack(">i", -1) if key is None else struct.pack(">i", len(key)) + key
        body += struct.pack(">i", len(value)) + value
        return struct.pack(">qiI", offset, len(body) + 4, zlib.crc32(body)) + body

    plain = message(7, 0, 0, b"k", b"v") + message(8, 1, 0, None, b"w")
    found = [record for _, start, end in batches(plain) for record in records_of(plain, start, end)]
    assert found == [Record(7, -1, b"k", b"v"), Record(8, 1234, None, b"w")]
    inner = message(0, 1, 0, None, b"a") + message(1, 1, 0, None, b"b")
    wrapper = message(41, 1, int(Codec.GZIP), None, compress(Codec.GZIP, inner))
    check_crc(wrapper, 0, len(wrapper))
    assert [(r.offset, r.value) for r in records_of(wrapper, 0, len(wrapper))] == [(40, b"a"), (41, b"b")]
