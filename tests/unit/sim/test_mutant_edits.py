"""A mutant's edit finds its syntax by name, changes that and nothing else, and says what is wrong when it is gone."""

from __future__ import annotations

import ast
from pathlib import Path
from textwrap import dedent

import pytest
from mutants.copies import edited, fingerprint
from mutants.edits import DoesNotApply, Edit, after, before, remove, replace
from mutants.mutant import mutant

LOG = """
    class Log:
        # The comment stays.
        def append(self, size):
            if size > 5 or self.full:   # too much
                self.roll()
            elif size < 0:
                raise ValueError(size)
            for each in self.watchers:
                each.told(f"{self.end} is the end")
            self.end += 1
            return self.end
"""


def package(directory: Path, **modules: str) -> Path:
    for name, text in modules.items():
        (directory / f"{name}.py").write_text(dedent(text))
    return directory


def made(edit: Edit, directory: Path) -> dict[str, str]:
    return edited(mutant("B00", "", "", "", "", edit), directory)


@pytest.mark.parametrize(
    ("edit", "line", "instead"),
    [
        (replace("log:Log.append", "size>5", "size > 6"), "size > 5", "(size > 6)"),
        (remove("log:Log.append", "self.full"), "size > 5 or self.full", "(size > 5)"),
        (remove("log:Log.append", "self.roll()"), "self.roll()", "pass"),
        (remove("log:Log.append", "self.end += 1"), "self.end += 1", ""),
        (before("log:Log.append", "return self.end", "self.sync()"), "return", "self.sync()\n        return"),
        (after("log:Log.append", "self.end += 1", "self.sync()"), "+= 1", "+= 1\n        self.sync()"),
    ],
)
def test_only_what_is_named_changes(tmp_path: Path, edit: Edit, line: str, instead: str) -> None:
    text = dedent(LOG)
    assert text.count(line) == 1
    assert made(edit, package(tmp_path, log=LOG)) == {"log.py": text.replace(line, instead)}


@pytest.mark.parametrize(
    ("edit", "expected"),
    [
        (
            replace(
                "log:Log.append",
                """
                if size > 5 or self.full: ...
                else: ...
                """,
                """
                if size < 0: ...
                else: ...
                """,
            ),
            ("size > 5 or self.full", "size < 0"),
        ),
        (
            replace("log:Log.append", "for each in self.watchers: ...", "for each in list(self.watchers)[:0]: ..."),
            ("self.watchers", "list(self.watchers)[:0]"),
        ),
        (
            replace(
                "log:Log.append",
                """
                if size < 0:
                    ...
                """,
                """
                if size < 0 and self.strict:
                    ...
                elif self.full:
                    pass
                """,
            ),
            (
                "elif size < 0:\n            raise ValueError(size)\n",
                "elif size < 0 and self.strict:\n            raise ValueError(size)\n"
                "        elif self.full:\n            pass\n",
            ),
        ),
        (
            before("log:Log.append", "if size < 0: ...", "self.sync()"),
            (
                "elif size < 0:\n            raise ValueError(size)\n",
                "else:\n            self.sync()\n            if size < 0:\n                raise ValueError(size)\n",
            ),
        ),
    ],
)
def test_a_block_of_dots_is_the_block_that_stands_there(tmp_path: Path, edit: Edit, expected: tuple[str, str]) -> None:
    text = made(edit, package(tmp_path, log=LOG))["log.py"]
    assert ast.dump(ast.parse(text)) == ast.dump(ast.parse(dedent(LOG).replace(*expected)))


def test_what_is_there_twice_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(
        DoesNotApply, match=r"B00: log:Log.append has this 2 times \(lines 11, 12\), not once: self.end"
    ):
        made(replace("log:Log.append", "self.end", "0"), package(tmp_path, log=LOG.replace("+= 1", "= self.end + 1")))


def test_a_definition_that_moved_is_found_by_its_name(tmp_path: Path) -> None:
    there, moved = (replace(f"{module}:Log.append", "size > 5", "False") for module in ("log", "storage.log"))
    assert list(made(moved, package(tmp_path, log=LOG))) == ["log.py"]
    assert fingerprint(mutant("B00", "", "", "", "", there)) == fingerprint(mutant("B00", "", "", "", "", moved))


def test_a_name_that_two_modules_have_is_not_guessed(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply, match="log is no module any more, and 2 others have one: new_log, old_log"):
        made(replace("log:Log.append", "size > 5", "False"), package(tmp_path, old_log=LOG, new_log=LOG))


def test_a_name_that_is_gone_is_told_with_the_nearest(tmp_path: Path) -> None:
    renamed = package(tmp_path, log=LOG.replace("append", "append_as_leader"))
    with pytest.raises(DoesNotApply) as told:
        made(replace("log:Log.append", "size > 5", "False"), renamed)
    assert str(told.value) == (
        "B00: log:Log.append: log has no such definition any more, nor has another module. Looked for: size > 5\n"
        "(log:Log.append_as_leader; what it changes is in log:Log.append_as_leader)"
    )


def test_syntax_that_is_gone_is_told_with_where_it_is_now(tmp_path: Path) -> None:
    checking = """
        def is_too_much(size):
            return size > 5
    """
    with pytest.raises(DoesNotApply) as told:
        made(
            replace("log:Log.append", "size > 5", "False"),
            package(tmp_path, log=LOG.replace("size > 5", "is_too_much(size)"), checking=checking),
        )
    assert str(told.value) == "B00: log:Log.append does not have this: size > 5\n(it is in checking:is_too_much)"


def test_syntax_that_is_nowhere_is_told_with_the_nearest_line(tmp_path: Path) -> None:
    with pytest.raises(DoesNotApply, match=r"no module has it; nearest here: self.end \+= 1"):
        made(remove("log:Log.append", "self.end += 2"), package(tmp_path, log=LOG))
