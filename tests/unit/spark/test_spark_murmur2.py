"""The partitioner over a column gives what the client's gives key by key."""

from __future__ import annotations

import random

import pyarrow

from barnabas.client.partitioner import murmur2
from barnabas.spark.murmur2 import positive_murmur2


def test_a_column_of_keys_is_hashed_as_one_key_is() -> None:
    draw = random.Random(5)
    keys: list[bytes | None] = [b"", b"a", None, *(draw.randbytes(draw.randrange(40)) for _ in range(500))]
    column = pyarrow.array(keys, pyarrow.binary())
    expected = [0 if key is None else murmur2(key) & 0x7FFFFFFF for key in keys]
    assert positive_murmur2(column).to_pylist() == expected
    assert positive_murmur2(column[100:300]).to_pylist() == expected[100:300]
    assert positive_murmur2(column[:0]).to_pylist() == []
    assert positive_murmur2(pyarrow.array([None], pyarrow.binary())).to_pylist() == [0]
