from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from barnabas.model.ids import TopicPartition, Uuid


@given(st.binary(min_size=16, max_size=16))
def test_a_uuid_comes_back_from_its_text(raw: bytes) -> None:
    assert Uuid.parse(str(Uuid(raw))) == raw
    assert len(str(Uuid(raw))) == 22


@pytest.mark.parametrize("text", ["", "abc", "!" * 22, "A" * 30])
def test_what_is_no_uuid_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="Uuid"):
        Uuid.parse(text)


def test_a_partition_prints_as_its_directory_and_is_read_from_it() -> None:
    assert str(TopicPartition("a-b.c", 12)) == "a-b.c-12"
    assert TopicPartition.from_dir_name("a-b.c-12") == ("a-b.c", 12)


@pytest.mark.parametrize(
    "name", ["topic", "topic-", "-3", "topic-x", "topic-٣", "topic-2147483648", "a topic-0", "caf\udce9-0"]
)
def test_other_directories_are_no_partitions(name: str) -> None:
    with pytest.raises(ValueError, match="directory"):
        TopicPartition.from_dir_name(name)
