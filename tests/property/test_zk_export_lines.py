"""An exported znode is read back as it was, whatever is in it."""

from __future__ import annotations

import json

from hypothesis import given
from hypothesis import strategies as st

from barnabas.zk.inspection.transfer import (
    ExportedZNode,
    acl_text,
    first_line,
    last_line,
    parse_acl,
    parse_export,
    permission_letters,
)
from barnabas.zk.protocol.data import ACL, OPEN_ACL_UNSAFE

LETTERS = "aZ0äß漢🂡 .-_%<>\"\\'\u2028:"
names = st.text(LETTERS, min_size=1, max_size=6).filter(lambda name: name not in (".", ".."))
paths = st.lists(names, max_size=4).map(lambda parts: "/" + "/".join(parts))
acls = st.builds(
    ACL,
    st.integers(1, 31),
    st.sampled_from(("world", "digest", "sasl", "ip", "x509")),
    st.text(LETTERS, min_size=1, max_size=6),
)
znodes = st.builds(
    ExportedZNode,
    path=paths,
    data=st.none() | st.binary(max_size=64) | st.text(LETTERS + "\n\0").map(str.encode),
    acls=st.just(OPEN_ACL_UNSAFE) | st.lists(acls, min_size=1, max_size=3).map(tuple),
    version=st.integers(-(2**31), 2**31 - 1),
    aversion=st.integers(0, 9),
    creations=st.integers(0, 2**31 - 1),
    ephemeral=st.booleans(),
    container=st.booleans(),
    ttl_ms=st.none() | st.integers(1, 2**40 - 1),
)


@given(st.lists(znodes, max_size=3))
def test_what_is_exported_is_what_is_read(exported: list[ExportedZNode]) -> None:
    ephemerals = sum(1 for znode in exported if znode.ephemeral)
    lines = [first_line("host:2181"), *(znode.line() for znode in exported)]
    lines.append(last_line(len(exported) - ephemerals, ephemerals))
    assert all("\n" not in line for line in lines)
    assert list(parse_export(line.encode() for line in lines)) == exported


@given(acls)
def test_an_acl_is_read_as_it_was_written(acl: ACL) -> None:
    assert parse_acl(acl_text(acl)) == acl
    assert permission_letters(acl.permissions) in acl_text(acl)


@given(znodes)
def test_text_stays_text(znode: ExportedZNode) -> None:
    fields = json.loads(znode.line())
    try:
        text = None if znode.data is None else znode.data.decode()
    except UnicodeDecodeError:
        assert "base64" in fields
    else:
        assert fields["data"] == text
