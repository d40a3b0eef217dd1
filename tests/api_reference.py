"""``docs/api``: the Python names of ``__all__``, their signatures and docstrings, made from the source.

`make docs` writes the pages, and a test finds what is stale. Signatures are read from the source and not from the
objects, so that every Python writes the same.
"""

from __future__ import annotations

import ast
import enum
import importlib
import inspect
import re
import sys
import textwrap
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from types import ModuleType
from typing import Any, Final

import barnabas.client

PAGES: Final = Path(__file__).parent.parent / "docs" / "api"
MODULES: Final = {
    "barnabas.client": ("../client.md", ()),
    "barnabas.client.blocking": ("../client.md", ("barnabas.client.blocking_twin",)),
    "barnabas.testing": ("../testing.md", ()),
    "barnabas.sim": ("../simulator.md", ()),
    "barnabas.spark": (
        "../spark/README.md",
        (
            "barnabas.spark.session",
            "barnabas.spark.lag",
            "barnabas.spark.reasons",
            "barnabas.spark.registry",
            "barnabas.spark.registry_columns",
            "barnabas.spark.source",
        ),
    ),
}
"""Each module with a page, the page that tells how to use it, and modules that stand on the page as well."""
WIDTH: Final = 100
_HEAD: Final = """\
# {module}

This page is made from the source by `make docs`. How to use it: [{guide}]({link}). What may change before 1.0:
[stability.md](../stability.md).

"""

Function = ast.FunctionDef | ast.AsyncFunctionDef


@cache
def _tree(path: str) -> ast.Module:
    return ast.parse(Path(path).read_text())


def _node(thing: Any) -> ast.ClassDef | Function:
    """Where a class or a function is written."""
    module = sys.modules[thing.__module__]
    assert module.__file__ is not None
    found: Any = _tree(module.__file__)
    for name in thing.__qualname__.split("."):
        found = next(each for each in found.body if getattr(each, "name", None) == name)
    assert isinstance(found, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef)
    return found


def signature(node: Function, name: str, *, method: bool) -> str:
    """``async def name(a: int, *, b: str = "x") -> None``; one parameter a line where it would be too long."""
    given = node.args
    positional = [*given.posonlyargs, *given.args]
    defaults: list[ast.expr | None] = [None] * (len(positional) - len(given.defaults)) + [*given.defaults]
    parameters = [_parameter(each, default) for each, default in zip(positional, defaults, strict=True)]
    if given.posonlyargs and len(given.posonlyargs) > method:
        parameters.insert(len(given.posonlyargs), "/")
    if method and not _is(node, "staticmethod"):
        parameters = parameters[1:]
    if given.vararg:
        parameters.append(f"*{_parameter(given.vararg)}")
    elif given.kwonlyargs:
        parameters.append("*")
    parameters += [_parameter(*each) for each in zip(given.kwonlyargs, given.kw_defaults, strict=True)]
    if given.kwarg:
        parameters.append(f"**{_parameter(given.kwarg)}")
    begin = "async " if isinstance(node, ast.AsyncFunctionDef) else ""
    end = f" -> {ast.unparse(node.returns)}" if node.returns is not None and node.name != "__init__" else ""
    line = f"{begin}{name}({', '.join(parameters)}){end}"
    if len(line) <= WIDTH:
        return line
    return f"{begin}{name}(\n" + "".join(f"    {each},\n" for each in parameters) + f"){end}"


def _parameter(given: ast.arg, default: ast.expr | None = None) -> str:
    annotation = f": {ast.unparse(given.annotation)}" if given.annotation is not None else ""
    equals = " = " if annotation else "="
    return f"{given.arg}{annotation}" + (f"{equals}{ast.unparse(default)}" if default is not None else "")


def _is(node: Function, decorator: str) -> bool:
    return any(ast.unparse(each).split(".")[-1] == decorator for each in node.decorator_list)


def markdown(docstring: str | None) -> str:
    """A docstring's text; its literal blocks (``::``) are indented, which is Markdown's way too."""
    text = inspect.cleandoc(docstring or "").replace("``", "`")
    return re.sub(r"^::$\n?|(?<=:):$", "", text, flags=re.M).strip()


def _told(node: ast.ClassDef | Function) -> str:
    text = markdown(ast.get_docstring(node))
    return f"{text}\n\n" if text else ""


def _fields(node: ast.ClassDef) -> Iterator[str]:
    """A class's annotated or assigned public names, each with the string that stands below it."""
    for each, follower in zip(node.body, [*node.body[1:], None], strict=True):
        if isinstance(each, ast.AnnAssign) and isinstance(each.target, ast.Name):
            name, shown = each.target.id, ast.unparse(each)
        elif isinstance(each, ast.Assign) and isinstance(each.targets[0], ast.Name):
            name, shown = each.targets[0].id, ast.unparse(each)
        else:
            continue
        if name.startswith("_"):
            continue
        if awaited := re.fullmatch(r"\w+ = waits(?:_and)?\((.+?)(?:, .+)?\)", shown):
            yield f"- `await {name}(…)`: `{awaited[1]}`, awaited\n"
            continue
        said = ""
        if isinstance(follower, ast.Expr) and isinstance(follower.value, ast.Constant) and follower.value.value:
            said = f": {' '.join(markdown(str(follower.value.value)).split())}"
        yield f"- `{shown}`{said}\n"


def _classes(kind: type) -> list[type]:
    """The class and those of this package it inherits from."""
    return [each for each in kind.__mro__ if each.__module__.split(".")[0] == "barnabas"]


def _class(name: str, kind: type) -> str:
    node = _node(kind)
    assert isinstance(node, ast.ClassDef)
    parts = [_told(node)]
    bases = [each for each in _classes(kind) if not each.__name__.startswith("_")][1:]
    if bases:
        parts.append(f"Inherits from {', '.join(f'`{each.__name__}`' for each in bases)}.\n\n")
    made = kind.__dict__.get("__init__")
    if inspect.isfunction(made) and (constructor := _written(node, "__init__")) is not None:
        call = signature(constructor, name, method=True)
        if ": _" not in call:  # what takes a private thing is made by another object
            parts.insert(0, f"```python\n{call}\n```\n\n")
    fields, methods = [], []
    seen: set[str] = set()
    for each in _classes(kind):
        written = _node(each)
        assert isinstance(written, ast.ClassDef)
        fields += [field for field in _fields(written) if not issubclass(kind, enum.Enum) or each is kind]
        for function in written.body:
            if isinstance(function, Function) and not function.name.startswith("_") and function.name not in seen:
                seen.add(function.name)
                methods.append(_method(function) + _twin(name, function))
    if issubclass(kind, enum.Enum) and len(fields) > 40:
        members = ", ".join(f"`{member.name}`" for member in kind)
        fields = [textwrap.fill(f"{len(fields)} members: {members}.", 120) + "\n"]
    if fields:
        parts.append("".join(fields) + "\n")
    return "".join([*parts, *methods])


def _twin(name: str, function: Function) -> str:
    """Where what `SyncProducer.send` does is told: at `Producer.send`."""
    of = name.removeprefix("Sync")
    if of == name or ast.get_docstring(function) or not hasattr(getattr(barnabas.client, of, None), function.name):
        return ""
    return f"[`{of}.{function.name}`](barnabas.client.md#{of.lower()}), which waits.\n\n"


def _written(node: ast.ClassDef, name: str) -> Any:
    return next((each for each in node.body if isinstance(each, Function) and each.name == name), None)


def _method(node: Function) -> str:
    if _is(node, "property") or _is(node, "cached_property"):
        returns = f": {ast.unparse(node.returns)}" if node.returns is not None else ""
        return f"#### {node.name}\n\n```python\n{node.name}{returns}\n```\n\n{_told(node)}"
    if _is(node, "setter"):
        return ""
    return f"#### {node.name}\n\n```python\n{signature(node, node.name, method=True)}\n```\n\n{_told(node)}"


def _entry(name: str, thing: Any) -> str:
    head = f"## {name}\n\n"
    if inspect.isclass(thing):
        return head + _class(name, thing)
    if inspect.isfunction(thing):
        node = _node(inspect.unwrap(thing))
        assert isinstance(node, Function)
        return f"{head}```python\n{signature(node, name, method=False)}\n```\n\n{_told(node)}"
    if isinstance(thing, ModuleType):
        return f"{head}A module: [{thing.__name__}]({thing.__name__}.md).\n\n"
    if isinstance(thing, dict):
        return head + "".join(f"- `{key!r}`\n" for key in thing) + "\n"
    shown = re.sub(r" at 0x[0-9a-f]+", "", repr(thing))
    return f"{head}```python\n{name} = {textwrap.shorten(shown, 400, placeholder=' …')}\n```\n\n"


def page(module_name: str) -> str:
    """The page of a module: what stands in its ``__all__``, and in those of the modules that belong to it."""
    link, others = MODULES[module_name]
    parts = [_HEAD.format(module=module_name, guide=link.removeprefix("../"), link=link)]
    for each in (module_name, *others):
        module = importlib.import_module(each)
        if each != module_name:
            parts.append(f"# {each}\n\n")
        text = markdown(module.__doc__)
        parts.append(f"{text}\n\n" if text else "")
        names = sorted(module.__all__, key=lambda name: (name.isupper(), name.lower()))
        parts += [_entry(name, getattr(module, name)) for name in names]
    return "".join(parts).rstrip() + "\n"


def index() -> str:
    """The page that leads to the others, with every name on them."""
    parts = ["# Python names\n\nEvery name of `__all__`, made from the source by `make docs`.\n"]
    for module_name, (link, others) in MODULES.items():
        parts.append(f"\n**[{module_name}]({module_name}.md)** ([{link.removeprefix('../')}]({link})):\n")
        names = [name for each in (module_name, *others) for name in importlib.import_module(each).__all__]
        parts.append(", ".join(f"[{name}]({module_name}.md#{name.lower()})" for name in sorted(names, key=str.lower)))
        parts.append("\n")
    return "".join(parts)


def write() -> None:
    """Writes every page. A name that went is gone from its page with it."""
    PAGES.mkdir(exist_ok=True)
    for name in MODULES:
        (PAGES / f"{name}.md").write_text(page(name))
    (PAGES / "README.md").write_text(index())


if __name__ == "__main__":
    write()
