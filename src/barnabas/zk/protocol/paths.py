"""Paths of znodes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

_BAD_IN_PATH: Final = re.compile(
    "[\x00-\x1f\x7f-\x9f\ud800-\uf8ff\ufff0-\uffff]|//|/\\.\\.?(?:/|$)",
)


def is_valid_path(path: str) -> bool:
    """ZooKeeper's ``PathUtils.validatePath``."""
    if path == "/":
        return True
    return path.startswith("/") and not path.endswith("/") and _BAD_IN_PATH.search(path) is None


def parent_of(path: str) -> str:
    return path[: path.rindex("/")] or "/"


def ancestors(path: str) -> Iterator[str]:
    """The parents of `path`, nearest first."""
    while path != "/" and path.startswith("/"):
        path = parent_of(path)
        yield path


def is_below(path: str, ancestor: str) -> bool:
    return ancestor != "" and path.startswith(ancestor if ancestor == "/" else f"{ancestor}/")


def joined(parent: str, name: str) -> str:
    return f"{parent}/{name}" if parent != "/" else f"/{name}"
