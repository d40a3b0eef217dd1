"""``barnabas spark check``: the changes that a program for the official connector needs for ``format("barnabas")``.

It reads the program and does not run it: it finds chains of calls with ``.format("kafka")`` or ``.format("barnabas")``,
and their literal options. Pure.
"""

from __future__ import annotations

import ast
import difflib
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Final, NamedTuple

from barnabas.spark import options, passed_over, sink_options
from barnabas.spark.jobs import JobError

FORMATS: Final = ("kafka", "barnabas")
_WAYS: Final = ("read", "readStream", "write", "writeStream")
_OF_THE_CALL: Final = ("path", "schema", "partitionBy", "outputMode", "queryName")
_CONNECTOR_JAR: Final = "spark-sql-kafka"


class Remark(NamedTuple):
    line: int
    what: str
    says: str
    must: bool
    """Whether the program fails, or behaves differently, until this is changed."""


@dataclass
class _Chain:
    """One reader or writer: the calls from ``spark.read`` or ``frame.write`` on."""

    way: str
    line: int
    format: str = ""
    options: dict[str, int] = field(default_factory=dict)
    """Their names, and the line of each."""
    values: dict[str, str] = field(default_factory=dict)
    calls: dict[str, ast.Call] = field(default_factory=dict)

    def add_option(self, key: ast.expr, value: ast.expr | None) -> None:
        if name := _text([key]):
            self.options[name] = key.lineno
            self.values[name.lower()] = _text([value])


def check(source: str, name: str) -> list[Remark]:
    """The findings about the program, by line. Raises `JobError` for invalid Python."""
    try:
        tree = ast.parse(source, name)
    except SyntaxError as error:
        raise JobError(f"{name}:{error.lineno} is no Python: {error.msg}") from None
    reader = _Reader()
    reader.visit(tree)
    found = [remark for chain in reader.chains if chain.format in FORMATS for remark in _judged(chain)]
    jars = [
        Remark(node.lineno, _CONNECTOR_JAR, "the connector's JAR is not needed any more", False)
        for node in ast.walk(tree)
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and _CONNECTOR_JAR in node.value
    ]
    return sorted({*found, *jars})


def _judged(chain: _Chain) -> Iterator[Remark]:
    if chain.format == "kafka":
        yield Remark(chain.line, 'format("kafka")', 'becomes format("barnabas")', False)
    writes = chain.way.startswith("write")
    known = {name.lower(): name for name in (sink_options.option_names() if writes else options.option_names())}
    harmless = passed_over.OF_SINK if writes else passed_over.OF_SOURCE
    for name, line in chain.options.items():
        if name.lower() in harmless:
            yield Remark(line, name, "is taken and has no effect here", False)
        elif name.lower() not in known:
            near = difflib.get_close_matches(name.lower(), known, 1)
            hint = f"; is {known[near[0]]} meant?" if near else ": docs/spark/options.md has what there is"
            yield Remark(line, name, f"is refused{hint}", True)
    given = {name.lower() for name in chain.options}
    if chain.way == "writeStream":
        yield from _of_a_streams_sink(chain, given)
    if chain.way == "write":
        mode = _text(chain.calls["mode"].args) if "mode" in chain.calls else None
        if mode in ("overwrite", "ignore"):
            yield Remark(chain.line, f'mode("{mode}")', "is refused, as it is by the official connector", True)
        elif "mode" not in chain.calls and "save" in chain.calls:
            says = 'wants mode("append"), or a session of barnabas.spark.session'
            yield Remark(chain.calls["save"].lineno, "save()", says, True)
    if chain.way == "readStream" and {"endingoffsets", "endingtimestamp", "endingoffsetsbytimestamp"} & given:
        yield Remark(chain.line, "ending..", "is refused: a stream has no end", True)


def _of_a_streams_sink(chain: _Chain, given: set[str]) -> Iterator[Remark]:
    trigger = chain.calls.get("trigger")
    if trigger is not None and any(keyword.arg == "realTime" for keyword in trigger.keywords):
        yield Remark(chain.line, "trigger(realTime=..)", "takes nothing that is written in Python", True)
    if chain.values.get("delivery") == "at-least-once" or "sinkid" in given:
        return
    place = chain.values.get("checkpointlocation", "")
    if "checkpointlocation" not in given or ("://" in place and not place.startswith("file:")):
        says = "wants a sinkId, or delivery=at-least-once: no checkpoint on this machine gives the sink a name"
        yield Remark(chain.line, "writeStream", says, True)
    says = "rows arrive exactly once: two tasks with rows for one partition want by_target_partition"
    yield Remark(chain.line, "writeStream", says, False)


class _Reader(ast.NodeVisitor):
    """Follows chains of calls, also if a variable is at their beginning."""

    def __init__(self) -> None:
        self.chains: list[_Chain] = []
        self._named: dict[str, _Chain] = {}
        self._dicts: dict[str, ast.Dict] = {}

    def visit_Assign(self, node: ast.Assign) -> None:
        chain = self._followed(node.value)
        for target in node.targets:
            if isinstance(target, ast.Name):
                if isinstance(node.value, ast.Dict):
                    self._dicts[target.id] = node.value
                if chain is not None:
                    self._named[target.id] = chain

    def visit_Call(self, node: ast.Call) -> None:
        self._followed(node)

    def visit_Attribute(self, node: ast.Attribute) -> None:
        self._followed(node)

    def _followed(self, node: ast.expr) -> _Chain | None:
        """The chain that `node` belongs to, with what `node` adds to it."""
        if isinstance(node, ast.Name):
            return self._named.get(node.id)
        if isinstance(node, ast.Attribute):
            chain = self._followed(node.value)
            if node.attr in _WAYS:
                chain = _Chain(node.attr, node.end_lineno or node.lineno)
                self.chains.append(chain)
            return chain
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            chain = self._followed(node.func.value)
            for argument in (*node.args, *(keyword.value for keyword in node.keywords)):
                self.visit(argument)
            if chain is not None:
                self._add(chain, node.func.attr, node)
            return chain
        self.generic_visit(node)
        return None

    def _add(self, chain: _Chain, name: str, call: ast.Call) -> None:
        chain.calls[name] = call
        if name == "format":
            chain.format, chain.line = _text(call.args), call.end_lineno or call.lineno
        elif name == "option" and call.args:
            chain.add_option(call.args[0], call.args[1] if len(call.args) > 1 else None)
        elif name in ("options", "load", "save", "start"):
            for keyword in call.keywords:
                if keyword.arg == "format":
                    chain.format, chain.line = _text([keyword.value]), keyword.value.lineno
                elif keyword.arg == "mode":
                    chain.calls["mode"] = ast.Call(func=call.func, args=[keyword.value], keywords=[])
                elif keyword.arg is not None and (name == "options" or keyword.arg not in _OF_THE_CALL):
                    chain.add_option(ast.copy_location(ast.Constant(keyword.arg), keyword.value), keyword.value)
                elif keyword.arg is None:
                    written = (
                        self._dicts.get(keyword.value.id) if isinstance(keyword.value, ast.Name) else keyword.value
                    )
                    if isinstance(written, ast.Dict):
                        for key, value in zip(written.keys, written.values, strict=True):
                            if key is not None:
                                chain.add_option(key, value)


def _text(arguments: Sequence[ast.expr | None]) -> str:
    """The text argument of a call, "" if it is computed."""
    first = arguments[0] if arguments else None
    return first.value if isinstance(first, ast.Constant) and isinstance(first.value, str) else ""
