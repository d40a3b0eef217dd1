"""Edits of the product's syntax: they name what they change, not the lines that it stands on.

An `Edit` has an anchor, ``module:qualified.name`` (``log.log:Log.append`` is `Log.append` in ``log/log.py``), and two
snippets of Python: within what the anchor names, `old` becomes `new`. Snippets are compared as syntax, so that spaces,
line breaks and comments do not matter. Where both are expressions, an expression is replaced; otherwise it is one
statement or several that follow each other. A block that is ``...`` stands for any block, in `new` for the one that
stood there in `old`. `old` has to be there exactly once.

A definition that has moved is found by its qualified name where no other module has the same: a move asks for no edit
of an anchor. The text around an edit stays as it is. Expressions within f-strings are not looked at.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from textwrap import dedent, indent
from typing import NamedTuple, TypeAlias

Definition: TypeAlias = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef
_DEFINITIONS = (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef)
_INDENT = "    "


class DoesNotApply(Exception):
    """What an edit changes is gone, or there more than once: the code moved on, and the mutant has to follow."""


@dataclass(frozen=True, slots=True)
class Edit:
    anchor: str
    old: str
    new: str


def replace(anchor: str, old: str, new: str) -> Edit:
    return Edit(anchor, dedent(old).strip(), dedent(new).strip())


def remove(anchor: str, old: str) -> Edit:
    """Without statements, or without one operand of ``and`` and ``or``."""
    return replace(anchor, old, "")


def before(anchor: str, old: str, new: str) -> Edit:
    """`new` statements in front of the `old` ones, which stay."""
    return replace(anchor, old, f"{dedent(new).strip()}\n{dedent(old).strip()}")


def after(anchor: str, old: str, new: str) -> Edit:
    """`new` statements behind the `old` ones, which stay."""
    return replace(anchor, old, f"{dedent(old).strip()}\n{dedent(new).strip()}")


class _Match(NamedTuple):
    """`nodes` follow each other. `around`: the block that statements stand in, or the and/or of an operand."""

    nodes: list[ast.expr] | list[ast.stmt]
    around: list[ast.stmt] | ast.BoolOp | None
    blocks: list[list[ast.stmt]]


def apply_edit(edit: Edit, package: Path, read: Callable[[Path], str]) -> tuple[Path, str]:
    """The file that `edit` changes and its text afterwards. `read` gives a file's text. Raises `DoesNotApply`."""
    path = _locate(edit, package, read)
    text = read(path)
    name = edit.anchor.partition(":")[2]
    matches = [match for scope in _definitions(_parsed(text), name) for match in _matches(edit, scope)]
    if len(matches) == 1:
        return path, _spliced(text, edit, matches[0])
    place = f"{_module_name(path, package)}:{name}"
    if matches:
        lines = ", ".join(str(match.nodes[0].lineno) for match in matches)
        raise DoesNotApply(f"{place} has this {len(matches)} times (lines {lines}), not once: {edit.old}")
    elsewhere = _places_of(edit, package, read)
    hint = f"it is in {', '.join(elsewhere)}" if elsewhere else f"no module has it{_nearest(edit, text)}"
    raise DoesNotApply(f"{place} does not have this: {edit.old}\n({hint})")


def _locate(edit: Edit, package: Path, read: Callable[[Path], str]) -> Path:
    """The file that has the definition: that of the anchor's module, or else the only other one."""
    module, _, name = edit.anchor.partition(":")
    below = package.joinpath(*module.split("."))
    own = [path for path in (below.with_suffix(".py"), below / "__init__.py") if path.is_file()]
    if own and _definitions(_parsed(read(own[0])), name):
        return own[0]
    last = name.rpartition(".")[2]
    others = {each: text for each, text in _texts(package, read) if last in text}
    elsewhere = [each for each, text in others.items() if _definitions(_parsed(text), name)]
    if len(elsewhere) == 1:
        return elsewhere[0]
    gone = f"{edit.anchor}: {module} {'has no such definition any more' if own else 'is no module any more'}"
    if elsewhere:
        names = ", ".join(_module_name(each, package) for each in elsewhere)
        raise DoesNotApply(f"{gone}, and {len(elsewhere)} others have one: {names}")
    others |= {each: read(each) for each in own}
    near = {
        found: f"{_module_name(each, package)}:{found}"
        for each, text in others.items()
        for found, _ in _all_definitions(_parsed(text))
    }
    hints = [near[each] for each in difflib.get_close_matches(name, near, n=4)]
    hints += [f"what it changes is in {each}" for each in _places_of(edit, package, read)]
    raise DoesNotApply(
        f"{gone}, nor has another module. Looked for: {edit.old}\n({'; '.join(hints) or 'nothing near'})"
    )


def _places_of(edit: Edit, package: Path, read: Callable[[Path], str]) -> list[str]:
    """The innermost definitions of the package that have what is looked for."""
    words = {
        node.id if isinstance(node, ast.Name) else node.attr
        for node in ast.walk(_parsed(edit.old))
        if isinstance(node, ast.Name | ast.Attribute)
    }
    places: list[str] = []
    for path, text in _texts(package, read):
        if not all(word in text for word in words):
            continue
        found = [name for name, definition in _all_definitions(_parsed(text)) if any(_matches(edit, definition))]
        inner = [name for name in found if not any(other.startswith(f"{name}.") for other in found)]
        places += [f"{_module_name(path, package)}:{name}" for name in inner]
    return places


def _nearest(edit: Edit, text: str) -> str:
    """The line of the definition that looks most like the first one that is looked for."""
    name = edit.anchor.partition(":")[2]
    first = ast.unparse(_parsed(edit.old).body[0]).splitlines()[0]
    lines = [line.strip() for scope in _definitions(_parsed(text), name) for line in ast.unparse(scope).splitlines()]
    near = difflib.get_close_matches(first, lines, n=1, cutoff=0.5)
    return f"; nearest here: {near[0]}" if near else ""


def _texts(package: Path, read: Callable[[Path], str]) -> Iterator[tuple[Path, str]]:
    for path in sorted(package.rglob("*.py")):
        yield path, read(path)


def _module_name(path: Path, package: Path) -> str:
    parts = path.relative_to(package).with_suffix("").parts
    return ".".join(parts[:-1] if parts[-1] == "__init__" else parts)


@lru_cache(maxsize=64)
def _parsed(text: str) -> ast.Module:
    return ast.parse(text)


def _all_definitions(node: ast.AST, prefix: str = "") -> Iterator[tuple[str, Definition]]:
    """Every class and function below `node`, outer ones first, with its qualified name."""
    for child in ast.iter_child_nodes(node):
        if isinstance(child, _DEFINITIONS):
            yield prefix + child.name, child
            yield from _all_definitions(child, f"{prefix}{child.name}.")
        else:
            yield from _all_definitions(child, prefix)


def _definitions(tree: ast.Module, name: str) -> list[Definition]:
    """Those of this name: more than one where a property has a setter."""
    return [definition for found, definition in _all_definitions(tree) if found == name]


def _matches(edit: Edit, scope: Definition) -> Iterator[_Match]:
    old, new = _parsed(edit.old).body, _parsed(edit.new).body
    wanted = _expression(old)
    if wanted is not None and _expression(new) is not None:
        for node in _nodes(scope):
            if isinstance(node, ast.expr) and _is_same(wanted, node, []):
                yield _Match([node], None, [])
        return
    for node in _nodes(scope):
        for _, block in ast.iter_fields(node):
            if isinstance(block, list) and block and isinstance(block[0], ast.stmt):
                for first in range(len(block) - len(old) + 1):
                    blocks: list[list[ast.stmt]] = []
                    run = block[first : first + len(old)]
                    if all(_is_same(pattern, each, blocks) for pattern, each in zip(old, run, strict=True)):
                        yield _Match(run, block, blocks)
        if wanted is not None and not new and isinstance(node, ast.BoolOp):
            yield from (_Match([each], node, []) for each in node.values if _is_same(wanted, each, []))


def _expression(body: list[ast.stmt]) -> ast.expr | None:
    """That of a snippet that is nothing else."""
    return body[0].value if len(body) == 1 and isinstance(body[0], ast.Expr) else None


def _nodes(node: ast.AST) -> Iterator[ast.AST]:
    """`node` and all below it, but for what is within f-strings: Python 3.11 does not tell where that stands."""
    yield node
    if not isinstance(node, ast.JoinedStr):
        for child in ast.iter_child_nodes(node):
            yield from _nodes(child)


def _is_same(pattern: object, found: object, blocks: list[list[ast.stmt]]) -> bool:
    """Whether `found` is the syntax of `pattern`; `blocks` get what stands where `pattern` has ``...``."""
    if type(pattern) is not type(found):
        return False
    if isinstance(pattern, ast.AST):
        return all(_is_same(getattr(pattern, name), getattr(found, name), blocks) for name in pattern._fields)
    if isinstance(pattern, list) and isinstance(found, list):
        if found and _is_any_block(pattern):
            blocks.append(found)
            return True
        return len(pattern) == len(found) and all(
            _is_same(one, other, blocks) for one, other in zip(pattern, found, strict=True)
        )
    return pattern == found


def _is_any_block(block: object) -> bool:
    if not isinstance(block, list) or len(block) != 1 or not isinstance(block[0], ast.Expr):
        return False
    return isinstance(block[0].value, ast.Constant) and block[0].value.value is ...


def _spliced(text: str, edit: Edit, match: _Match) -> str:
    """`text` with the edit made; what is not edited stays as it is written."""
    lines = text.encode().splitlines(keepends=True)
    first, last = match.nodes[0], match.nodes[-1]
    if isinstance(match.around, ast.BoolOp):
        first = last = match.around
    decorators = getattr(first, "decorator_list", [])
    start = decorators[0].lineno if decorators else first.lineno
    assert last.end_lineno is not None, "a parsed node has an end"
    head, tail = lines[start - 1][: first.col_offset], lines[last.end_lineno - 1][last.end_col_offset :]
    if isinstance(match.around, ast.BoolOp):
        written = f"({_without(match.around, match.nodes[0])})"
    elif match.around is None:
        written = f"({edit.new})"
    else:
        is_elif = lines[start - 1][first.col_offset :].startswith(b"elif")
        written = _statements(edit, match, head.decode(), is_elif)
    made = b"".join((*lines[: start - 1], head, written.encode(), tail, *lines[last.end_lineno :])).decode()
    try:
        ast.parse(made)
    except SyntaxError as error:
        raise DoesNotApply(f"{edit.anchor}: what comes of it is no Python, {error}") from error
    return made


def _without(operation: ast.BoolOp, operand: ast.AST) -> str:
    left = [value for value in operation.values if value is not operand]
    return ast.unparse(ast.BoolOp(operation.op, left) if len(left) > 1 else left[0])


def _fill(node: ast.AST, blocks: list[list[ast.stmt]]) -> None:
    """Puts `blocks`, in turn, where ``...`` stands for one."""
    for name, value in ast.iter_fields(node):
        if blocks and _is_any_block(value):
            setattr(node, name, blocks.pop(0))
            continue
        for child in value if isinstance(value, list) else [value]:
            if isinstance(child, ast.AST):
                _fill(child, blocks)


def _statements(edit: Edit, match: _Match, margin: str, is_elif: bool) -> str:
    """The new statements as text, the first without its margin."""
    new = ast.parse(edit.new).body
    blocks = list(match.blocks)
    for statement in new:
        _fill(statement, blocks)
    written = "\n".join(map(ast.unparse, new))
    if is_elif and len(new) == 1 and isinstance(new[0], ast.If):
        written = f"el{written}"
    elif is_elif and new:
        written = f"else:\n{indent(written, _INDENT)}"
    elif not new and isinstance(match.around, list) and len(match.nodes) == len(match.around):
        written = "pass"
    return indent(written, margin).removeprefix(margin)
