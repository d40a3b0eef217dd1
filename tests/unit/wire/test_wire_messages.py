"""The generated classes and their codecs."""

from __future__ import annotations

import gc
import linecache
import re
import subprocess
import sys
import traceback
import weakref
from pathlib import Path

import pytest
from wire_messages import ALL_MESSAGES, ALL_VERSIONS, ByChance, message_by, message_class, versions_of

import barnabas.wire.messages
from barnabas.model.ids import Uuid
from barnabas.wire.api import SUPPORTED, ApiKey
from barnabas.wire.codec import KEPT_IN_TURNS, compile_decoder_in_turns
from barnabas.wire.errors import UnsupportedVersionError, WireError
from barnabas.wire.frames import request_class, response_class
from barnabas.wire.generate import api_name, generate
from barnabas.wire.messages import APIS
from barnabas.wire.messages.api_versions import ApiVersionsRequest, ApiVersionsResponse
from barnabas.wire.messages.fetch import FetchRequest, FetchResponse
from barnabas.wire.messages.metadata import MetadataRequest
from barnabas.wire.messages.produce import ProduceRequest
from barnabas.wire.schema import message_names, message_schema, snake_case


def test_the_committed_modules_are_what_the_generator_writes() -> None:
    directory = Path(barnabas.wire.messages.__file__).parent
    committed = {path.name: path.read_text("utf-8") for path in directory.glob("*.py")}
    assert committed == generate()


def test_every_request_of_the_schema_has_its_api_key_and_its_classes() -> None:
    requests = [schema for schema in map(message_schema, message_names()) if schema.kind == "request"]
    assert {schema.api_key: snake_case(api_name(schema)).upper() for schema in requests} == {
        key.value: key.name for key in ApiKey
    }
    assert sorted(APIS) == sorted(ApiKey)
    for schema in requests:
        assert request_class(schema.api_key).name == schema.name
        assert response_class(schema.api_key).name == f"{api_name(schema)}Response"


def test_every_advertised_version_can_be_read_and_written() -> None:
    for key, (low, high) in SUPPORTED.items():
        for cls in (request_class(key), response_class(key)):
            assert cls.min_version <= low <= high <= cls.max_version, cls.name


@pytest.mark.parametrize("name", ALL_MESSAGES)
def test_a_message_of_defaults_and_messages_by_chance_come_back_in_every_version(name: str) -> None:
    cls = message_class(name)
    for version in versions_of(name):
        for message in (cls(), *(message_by(ByChance((name, version, seed)), name, version) for seed in range(3))):
            encoded = message.encode(version)
            found, end = cls.decode(b"before" + encoded, version, 6)
            assert found == message
            assert end == 6 + len(encoded)
            assert found.encode(version) == encoded


def test_no_message_can_be_read_from_less_than_all_its_bytes() -> None:
    for name, version in ALL_VERSIONS:
        encoded = message_by(ByChance((name, version)), name, version).encode(version)
        cls = message_class(name)
        for size in {0, 1, len(encoded) // 2, len(encoded) - 1} - {len(encoded)}:
            if 0 <= size < len(encoded):
                with pytest.raises(WireError):
                    cls.decode(encoded[:size], version)


def test_records_are_neither_copied_when_read_nor_when_written() -> None:
    topic = ProduceRequest.TopicProduceData
    partition = ProduceRequest.PartitionProduceData
    halves: list[bytes | bytearray | memoryview] = [b"first half, ", bytearray(b"second half")]
    request = ProduceRequest(acks=-1, topic_data=[topic("t", [partition(0, halves), partition(1, None)])])
    parts: list[bytes | bytearray | memoryview] = []
    parts.append(request.encode_into(9, bytearray(), parts))
    assert [part for part in parts if any(part is half for half in halves)] == halves
    frame = bytearray(b"".join(parts))
    found, _ = ProduceRequest.decode(frame, 9)
    records = found.topic_data[0].partition_data[0].records
    assert isinstance(records, memoryview)
    assert records == b"first half, second half"
    frame[frame.index(b"first")] = ord("F")
    assert records[:5] == b"First"
    assert found.topic_data[0].partition_data[1].records is None


def test_a_field_the_version_lacks_must_hold_its_default_unless_it_is_ignorable() -> None:
    with pytest.raises(UnsupportedVersionError, match="FetchRequest v11 cannot carry replica_state"):
        FetchRequest(replica_state=FetchRequest.ReplicaState(1, 2)).encode(11)
    plain = FetchRequest().encode(4)
    assert FetchRequest(rack_id="here").encode(4) == plain
    with pytest.raises(UnsupportedVersionError, match="has versions 0 to 17, not 18"):
        FetchRequest().encode(18)
    with pytest.raises(UnsupportedVersionError):
        FetchRequest.decode(b"", -1)


def test_null_is_refused_where_the_schema_does_not_allow_it() -> None:
    with pytest.raises(WireError):
        MetadataRequest(topics=None).encode(0)
    assert MetadataRequest.decode(MetadataRequest(topics=None).encode(1), 1)[0].topics is None
    with pytest.raises(WireError, match="topics is null and must not be"):
        MetadataRequest.decode(b"\xff\xff\xff\xff", 0)


def test_a_list_of_a_new_message_is_its_own() -> None:
    MetadataRequest().topics.append(MetadataRequest.MetadataRequestTopic())  # type: ignore[union-attr]
    assert MetadataRequest().topics == []


@pytest.mark.parametrize("value", [2**31, "text", None, 1.5])
def test_a_value_of_the_wrong_type_is_refused_in_words(value: object) -> None:
    with pytest.raises(WireError, match="FetchRequest v4 cannot be written"):
        FetchRequest(max_wait_ms=value).encode(4)  # type: ignore[arg-type]


def test_strings_are_bounded_as_kafkas_are() -> None:
    longest = "x" * 0x7FFF
    request = ApiVersionsRequest(client_software_name=longest)
    assert ApiVersionsRequest.decode(request.encode(3), 3)[0] == request
    with pytest.raises(WireError, match="more than a string may have"):
        ApiVersionsRequest(client_software_name=longest + "x").encode(3)
    frame = b"\x81\x80\x02" + b"x" * 0x8000 + b"\x01\x00"
    with pytest.raises(WireError, match="more than a string may have"):
        ApiVersionsRequest.decode(frame, 3)


def test_malformed_utf8_is_replaced_as_java_does() -> None:
    frame = ApiVersionsRequest("name", "1").encode(3).replace(b"name", b"n\xffme")
    assert ApiVersionsRequest.decode(frame, 3)[0].client_software_name == "n\ufffdme"


def test_known_tagged_fields_are_read_in_any_order_and_unknown_ones_kept() -> None:
    response = ApiVersionsResponse(finalized_features_epoch=7, zk_migration_ready=True)
    response.unknown_tagged_fields = [(9, b"later")]
    encoded = response.encode(3)
    assert encoded.endswith(b"\x03" + b"\x01\x08" + (7).to_bytes(8, "big") + b"\x03\x01\x01" + b"\x09\x05later")
    assert ApiVersionsResponse.decode(encoded, 3)[0] == response
    head = ApiVersionsResponse().encode(3)[:-1]
    turned = head + b"\x03" + b"\x09\x05later" + b"\x03\x01\x01" + b"\x01\x08" + (7).to_bytes(8, "big")
    assert ApiVersionsResponse.decode(turned, 3)[0] == response
    with pytest.raises(WireError, match="finalized_features_epoch says it has 7 bytes and has 8"):
        ApiVersionsResponse.decode(head + b"\x01\x01\x07" + bytes(8), 3)
    response.unknown_tagged_fields = [(1, b"ours is known")]
    with pytest.raises(WireError, match="twice"):
        response.encode(3)


@pytest.mark.parametrize(
    ("cls", "version", "frame"),
    [
        (FetchResponse, 4, bytes(4) + b"\x7f\xff\xff\xff"),
        (FetchResponse, 12, bytes(10) + b"\xff\xff\xff\xff\x0f"),
        (ProduceRequest, 3, b"\xff\xff\x00\x01\x00\x00\x00\x01\x7f\xff\xff\xff" + bytes(100)),
        (MetadataRequest, 4, b"\x00\x10\x00\x00" + bytes(1000)),
    ],
)
def test_an_array_larger_than_its_frame_is_refused_before_memory_is_taken(
    cls: type[FetchResponse], version: int, frame: bytes
) -> None:
    with pytest.raises(WireError):
        cls.decode(frame, version)


def test_a_varint_that_never_ends_is_refused() -> None:
    with pytest.raises(WireError):
        ApiVersionsRequest.decode(b"\xff" * 20, 3)


def test_messages_print_and_compare_by_their_fields() -> None:
    topic = FetchRequest.FetchTopic("t", Uuid(), [FetchRequest.FetchPartition(3)])
    assert topic == FetchRequest.FetchTopic("t", Uuid(), [FetchRequest.FetchPartition(3)])
    assert topic != FetchRequest.FetchTopic("t", Uuid(), [])
    assert topic != "t"
    assert repr(FetchRequest.ReplicaState(1, 2)) == "FetchRequest.ReplicaState(replica_id=1, replica_epoch=2)"


def test_importing_messages_loads_neither_schemas_nor_compiler() -> None:
    code = (
        "import sys\n"
        "from barnabas.wire.api import SUPPORTED\n"
        "from barnabas.wire.frames import request_class\n"
        "assert all(request_class(key) for key in SUPPORTED)\n"
        "assert not {'barnabas.wire.schema', 'barnabas.wire.codec', 'json'} & set(sys.modules), sorted(sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_views_of_a_part_and_of_a_whole_frame_are_read_alike() -> None:
    request = FetchRequest(rack_id="here", max_wait_ms=9)
    frame = request.encode(17)
    for buffer in (frame, bytearray(frame), memoryview(frame), memoryview(bytearray(b"12" + frame + b"345"))[2:-3]):
        assert FetchRequest.decode(buffer, 17) == (request, len(frame))
    with pytest.raises(WireError):
        FetchRequest.decode(memoryview(frame)[:-1], 17)


def test_a_traceback_shows_the_line_of_a_compiled_message() -> None:
    """Which is written for the traceback: the text of all of them is a megabyte."""
    with pytest.raises(WireError) as raised:
        MetadataRequest(topics=[object()]).encode(9)  # type: ignore[list-item]
    shown = "".join(traceback.format_exception(raised.value))
    assert "encode MetadataRequest v9, compiled" in shown
    assert re.search(r" v\d+ = x\d+\.name\n", shown), shown


def test_nothing_is_left_of_a_compiled_message_that_is_not_kept() -> None:
    before = len(linecache.cache)
    decoders = [weakref.ref(compile_decoder_in_turns(MetadataRequest, version)) for version in range(13)]
    for key in [key for key in SUPPORTED if key is not ApiKey.METADATA][:KEPT_IN_TURNS]:
        cls = request_class(key)
        compile_decoder_in_turns(cls, cls.max_version)
    gc.collect()
    assert [decoder() for decoder in decoders] == [None] * 13
    assert len(linecache.cache) == before


@pytest.mark.parametrize("tagged", [(), (0,), (1,), (2,), (0, 2), (0, 1, 2)])
def test_structs_of_numbers_alone_are_read_as_they_were_written_whichever_of_them_have_tagged_fields(
    tagged: tuple[int, ...],
) -> None:
    asked = [FetchRequest.FetchPartition(index, 1, 10 + index, 3, 4, 5) for index in range(3)]
    for index in tagged:
        asked[index].unknown_tagged_fields = [(7, b"seven")]
        asked[index].replica_directory_id = Uuid(bytes(15) + bytes((index + 1,)))
    request = FetchRequest(topics=[FetchRequest.FetchTopic(topic_id=Uuid(bytes(16)), partitions=asked)])
    encoded = request.encode(17)
    assert FetchRequest.decode(encoded, 17) == (request, len(encoded))
    for end in range(len(encoded)):
        with pytest.raises(WireError):
            FetchRequest.decode(encoded[:end], 17)
