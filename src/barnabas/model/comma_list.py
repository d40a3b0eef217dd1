"""A list as properties and options have it: its items with commas between them."""

from __future__ import annotations


def comma_list(text: str) -> list[str]:
    """The items, without the blanks around them; empty items are left out."""
    return [item for item in map(str.strip, text.split(",")) if item]
