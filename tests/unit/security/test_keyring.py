"""A keyring is its owner's alone, is made once, and what it tells of its users is read as it was written."""

from __future__ import annotations

import time
from pathlib import Path

import pytest

from barnabas.model.config import parse_properties
from barnabas.model.errors import ConfigError
from barnabas.runtime.secret_directory import SecretDirectory
from barnabas.security.acl_words import operations_of, resource_of, resource_word
from barnabas.security.keyring import Keyring
from barnabas.security.sasl.login import SaslLogin

NOW_MS = time.time_ns() // 1_000_000
ODD = ' p=,q;"\\s\n'


def test_it_is_its_owners_alone_and_made_once(tmp_path: Path) -> None:
    ring = Keyring(SecretDirectory(str(tmp_path / "ring")))
    ring.make("a cluster", {"alice": ODD, "bob": "pw"}, NOW_MS)
    before = {file.name: file.read_bytes() for file in (tmp_path / "ring").iterdir()}
    assert (tmp_path / "ring").stat().st_mode & 0o777 == 0o700
    assert {file.stat().st_mode & 0o777 for file in (tmp_path / "ring").iterdir()} == {0o600}
    ring.make("a cluster", {"alice": "another"}, NOW_MS)
    assert {file.name: file.read_bytes() for file in (tmp_path / "ring").iterdir()} == before


def test_passwords_are_read_as_they_were_written(tmp_path: Path) -> None:
    ring = Keyring(SecretDirectory(str(tmp_path / "ring")))
    ring.make("a cluster", {"alice": ODD}, NOW_MS)
    assert ring.login("alice") == SaslLogin("SCRAM-SHA-512", "alice", ODD)
    rdkafka = parse_properties(Path(ring.librdkafka_profile("alice")).read_text())
    assert rdkafka["sasl.password"] == ODD
    ring.set_password("alice", "new")
    assert ring.login("alice").password == "new"
    ring.directory.write("carol.properties", b"sasl.mechanism=PLAIN\n")
    with pytest.raises(ConfigError):
        ring.login("carol")


@pytest.mark.parametrize("words", ["cluster", "topic:orders", "topic:orders-*", "topic:*", "transactional-id:x:y"])
def test_a_resource_is_told_in_the_words_that_name_it(words: str) -> None:
    assert resource_word(resource_of(words)) == words


def test_what_names_no_resource_and_no_operation_is_said() -> None:
    for words in ("orders", "topic:", "cluster:x", "topics:x", ""):
        with pytest.raises(ValueError, match="topic:NAME"):
            resource_of(words)
    for operation in ("write", "any", "fly"):
        with pytest.raises(ValueError, match="read, describe, delete and all"):
            operations_of(resource_of("group:g"), [operation])
