"""What docs/spark says is shown by programs: each page names one, and the first page's table has all of them."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[3]
PAGES = sorted((ROOT / "docs" / "spark").glob("*.md"))
PROGRAM = re.compile(r"\]\(((?:\.\./)+(?:docs/)?(?:examples|tests)/[\w/]+\.py)(?:#\w+)?\)")


def programs(page: Path) -> list[Path]:
    return [(page.parent / place).resolve() for place in PROGRAM.findall(page.read_text())]


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_a_page_names_a_program(page: Path) -> None:
    if page.stem == "deploy":  # a target of make is its program
        assert "`make spark-submit`" in page.read_text()
        return
    assert programs(page)
    assert [program for program in programs(page) if not program.is_file()] == []


def test_the_table_has_every_page_and_every_program() -> None:
    first = ROOT / "docs" / "spark" / "README.md"
    rows = [line for line in first.read_text().splitlines() if line.startswith("| [")]
    assert {page.name for page in PAGES} - {"README.md"} <= set(re.findall(r"\]\(([\w-]+\.md)", "\n".join(rows)))
    assert all(re.search(r"\.py\)", row.rpartition(" | ")[2]) for row in rows)
    told = set(programs(first))
    assert set((ROOT / "docs" / "examples").glob("test_spark_*.py")) <= told
