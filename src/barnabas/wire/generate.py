"""Writes ``wire/messages/``: one module an API, one class a message, from ``messages.json``.

Run ``python -m barnabas.wire.generate`` after a change of the schemas; the result is committed, so that readers,
type checkers and a starting broker find plain classes.
"""

from __future__ import annotations

import keyword
from pathlib import Path  # noqa: TID251 - a developer's tool, no part of the product
from typing import Final

from barnabas.wire.schema import Field, MessageSchema, StructSchema, message_names, message_schema, snake_case

PYTHON_TYPES: Final = {
    "bool": "bool",
    "int8": "int",
    "int16": "int",
    "uint16": "int",
    "int32": "int",
    "uint32": "int",
    "int64": "int",
    "float64": "float",
    "string": "str",
    "bytes": "Bytes",
    "uuid": "Uuid",
}

HEADER: Final = '"""{title}. Generated from Kafka\'s schema by ``barnabas.wire.generate``: do not edit."""\n'


def module_name(schema: MessageSchema) -> str:
    """``FetchRequest`` and ``FetchResponse`` live in ``fetch``, ``OffsetCommitKey`` in ``offset_commit_key``."""
    return snake_case(api_name(schema))


def api_name(schema: MessageSchema) -> str:
    if schema.kind in ("request", "response"):
        return schema.name.removesuffix("Request").removesuffix("Response")
    return schema.name


def _type(schema: MessageSchema, field: Field) -> str:
    if field.type == "records":
        return "Records"
    python = f"{schema.name}.{field.type}" if field.is_struct else PYTHON_TYPES[field.type]
    if field.is_array:
        python = f"list[{python}]"
    if field.is_ever_null:
        python += " | None"
    return python


def _default(field: Field) -> str:
    if field.null_by_default or field.type == "records":
        return "None"
    if field.is_array or field.is_struct:
        return "EMPTY"
    if field.type == "bytes":
        return 'b""'
    if field.type == "uuid":
        return "ZERO_UUID"
    return repr(field.default).replace("'", '"')


def _comment(field: Field) -> str:
    words = [("[]" if field.is_array else "") + field.type, f"versions {field.versions}"]
    if field.tag >= 0:
        words.append(f"tag {field.tag}" + (f" in {field.tagged}" if field.tagged != field.versions else ""))
    if field.is_ever_null:
        words.append("nullable" + (f" in {field.nullable}" if field.nullable.low > field.versions.low else ""))
    if field.ignorable:
        words.append("ignorable")
    return ", ".join(words)


def _class_body(schema: MessageSchema, struct: StructSchema, indent: str) -> list[str]:
    lines = []
    slots = [field.attribute for field in struct.fields]
    for name in slots:
        assert name.isidentifier(), name
        assert not keyword.iskeyword(name), name
    if schema.is_ever_flexible:
        slots.append("unknown_tagged_fields")
    if not slots:
        lines.append(f"{indent}__slots__ = ()")
        return lines
    lines.append(f"{indent}__slots__ = (")
    lines += [f'{indent}    "{name}",' for name in slots]
    lines.append(f"{indent})")
    lines.append("")
    for field in struct.fields:
        lines.append(f"{indent}{field.attribute}: {_type(schema, field)}  # {_comment(field)}")
    if schema.is_ever_flexible:
        lines.append(f"{indent}unknown_tagged_fields: TaggedFields")
    lines.append("")
    if struct.fields:
        lines.append(f"{indent}def __init__(")
        lines.append(f"{indent}    self,")
        for field in struct.fields:
            lines.append(f"{indent}    {field.attribute}: {_type(schema, field)} = {_default(field)},")
        lines.append(f"{indent}) -> None:")
    else:
        lines.append(f"{indent}def __init__(self) -> None:")
    for field in struct.fields:
        value = field.attribute
        if _default(field) == "EMPTY":
            empty = "[]" if field.is_array else f"{schema.name}.{field.type}()"
            value = f"{empty} if {field.attribute} is EMPTY else {field.attribute}"
        lines.append(f"{indent}    self.{field.attribute} = {value}")
    if schema.is_ever_flexible:
        lines.append(f"{indent}    self.unknown_tagged_fields = None")
    return lines


def _message_class(schema: MessageSchema) -> list[str]:
    lines = [f"class {schema.name}(Message):"]
    number = f"API key {schema.api_key}, versions" if schema.api_key >= 0 else "Versions"
    flexible = f"flexible since {schema.flexible.low}" if schema.is_ever_flexible else "not flexible"
    lines += [f'    """{number} {schema.versions}, {flexible}."""', ""]
    lines += [
        f'    name: ClassVar[str] = "{schema.name}"',
        f"    api_key: ClassVar[int] = {schema.api_key}",
        f"    min_version: ClassVar[int] = {schema.versions.low}",
        f"    max_version: ClassVar[int] = {schema.versions.high}",
        f"    flexible_since: ClassVar[int] = {schema.flexible.low}",
        "",
    ]
    for struct in schema.structs.values():
        lines += [f"    class {struct.name}(Struct):"]
        lines += _class_body(schema, struct, " " * 8)
        lines += [""]
    lines += _class_body(schema, schema.root, " " * 4)
    return lines


def _module(schemas: list[MessageSchema]) -> str:
    body: list[str] = []
    for schema in schemas:
        body += ["", "", *_message_class(schema)]
    text = "\n".join(body)
    title = " and ".join(f"``{schema.name}``" for schema in schemas)
    from_structs = [
        name
        for name, used in (
            ("EMPTY", " is EMPTY" in text),
            ("Bytes", ": Bytes" in text or "[Bytes]" in text),
            ("Records", ": Records" in text),
            ("Struct", "(Struct)" in text),
            ("TaggedFields", ": TaggedFields" in text),
        )
        if used
    ]
    from_ids = [name for name, used in (("ZERO_UUID", "ZERO_UUID" in text), ("Uuid", "Uuid" in text)) if used]
    lines = [
        HEADER.format(title=title) + "# ruff: noqa: E501, RUF023, RUF100",
        "# fmt: off",
        "",
        "from __future__ import annotations",
        "",
    ]
    lines += ["from typing import ClassVar", ""]
    if from_ids:
        lines.append(f"from barnabas.model.ids import {', '.join(from_ids)}")
    lines.append("from barnabas.wire.message import Message")
    if from_structs:
        lines.append(f"from barnabas.wire.structs import {', '.join(from_structs)}")
    return "\n".join([*lines, text]) + "\n"


def _registry(schemas: list[MessageSchema]) -> str:
    lines = [
        '"""Kafka\'s messages, one module an API. Generated from Kafka\'s schema by ``barnabas.wire.generate``."""',
        "",
        "from __future__ import annotations",
        "",
        "from typing import Final, NamedTuple",
        "",
        "",
        "class Api(NamedTuple):",
        '    """Where an API\'s classes are, known without importing them."""',
        "",
        "    module: str",
        "    name: str",
        "    max_version: int",
        "    flexible_since: int",
        "",
        "",
        "APIS: Final[dict[int, Api]] = {",
    ]
    requests = sorted((s for s in schemas if s.kind == "request"), key=lambda schema: schema.api_key)
    responses = {s.api_key: s for s in schemas if s.kind == "response"}
    for schema in requests:
        assert responses[schema.api_key].flexible == schema.flexible, schema.name
        assert responses[schema.api_key].versions == schema.versions, schema.name
        assert schema.versions.low == 0, schema.name
        entry = f'Api("{module_name(schema)}", "{api_name(schema)}", {schema.versions.high}, {schema.flexible.low})'
        lines.append(f"    {schema.api_key}: {entry},")
    return "\n".join([*lines, "}", ""])


def generate() -> dict[str, str]:
    """Every file of ``wire/messages/`` by its name, with its text."""
    schemas = [message_schema(name) for name in message_names()]
    modules: dict[str, list[MessageSchema]] = {}
    for schema in schemas:
        modules.setdefault(module_name(schema), []).append(schema)
    files = {f"{name}.py": _module(members) for name, members in modules.items()}
    files["__init__.py"] = _registry(schemas)
    return files


def main() -> None:
    directory = Path(__file__).parent / "messages"
    directory.mkdir(exist_ok=True)
    files = generate()
    for path in directory.glob("*.py"):
        if path.name not in files:
            path.unlink()
    for name, text in files.items():
        (directory / name).write_text(text, "utf-8")


if __name__ == "__main__":
    main()
