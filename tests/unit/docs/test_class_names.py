"""A name means one thing: no two public classes of the product share one, but those that say why it is right."""

from __future__ import annotations

import ast
from collections import defaultdict
from collections.abc import Iterator

from test_sizes import written

SHARED = {
    "Record": "Kafka's record: as it lies in a batch, and as a user's test is handed it",
    "ResourceType": "two enumerations of Kafka with one name: ConfigResource.Type and acl's ResourceType",
    "Sync": "each protocol's own name of a request: SyncGroup's, and ZooKeeper's sync",
}


def public_classes(text: str) -> Iterator[str]:
    """The classes at the top of a module that others may import."""
    for node in ast.parse(text).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            yield node.name


def test_no_two_public_classes_share_a_name_but_those_that_say_why() -> None:
    homes: dict[str, list[str]] = defaultdict(list)
    for file, text in written():
        for name in public_classes(text):
            homes[name].append(file)
    assert len(homes) > 1_000
    assert {name: files for name, files in homes.items() if len(files) > 1 and name not in SHARED} == {}
    assert [name for name in SHARED if len(homes[name]) < 2] == []
