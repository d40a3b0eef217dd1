"""JSON Schema: the column type of a schema, and the validation of values."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator, Sequence
from functools import reduce
from typing import Any, Final, TypeAlias
from urllib.parse import unquote, urldefrag

import jsonschema_rs

_Type: TypeAlias = "str | dict[str, _Type] | tuple[str, _Type]"
"""A column's: in Spark's DDL, an object's properties, or the ``array`` or ``map`` of what is inside."""
_TYPES: Final = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
_BASE: Final = "registry:///"
"""The base URI of the names in a ``$ref`` if the schema has no ``$id``."""
_PYTHON: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


class JsonSchema:
    def __init__(self, text: str, imports: Sequence[tuple[str, str]] = ()) -> None:
        """`imports`: other schemas, each by the name that a ``$ref`` has for it. Raises ``ValueError``."""
        self.root: Any = json.loads(text)
        self._named: dict[str, Any] = {"": self.root}
        for name, document in imports:
            self._named[name] = json.loads(document)
        kind: Any = jsonschema_rs.Draft7Validator
        if isinstance(self.root, dict) and "$schema" in self.root:
            kind = jsonschema_rs.validator_cls_for(self.root)
        draft = str(self.root.get("$schema", "")) if isinstance(self.root, dict) else ""
        self._reads_beside_ref = "2019-09" in draft or "2020-12" in draft
        try:
            self._validator = kind(self.root, retriever=self._document, base_uri=_BASE)
        except (jsonschema_rs.ReferencingError, jsonschema_rs.ValidationError) as error:
            raise ValueError(f"the JSON Schema cannot be used: {error}") from None

    def _document(self, uri: str) -> Any:
        """A document by its URI, which is made of the schema's ``$id``, if any, and the name in its ``$ref``."""
        for name, document in self._named.items():
            if name and (uri in (name, document.get("$id")) or uri.endswith("/" + name)):
                return document
        raise ValueError(f"the JSON Schema refers to {uri}, which the registry does not name")

    def fault(self, value: Any) -> str | None:
        """The error of a value, as one sentence; None for a valid one."""
        if self._validator.is_valid(value):
            return None
        error = next(iter(self._validator.iter_errors(value)))
        place = ".".join(map(str, error.instance_path))
        return f"{error.message}, at {place}" if place else str(error.message)

    def missing(self, value: Any) -> Iterator[tuple[list[str | int], str]]:
        """The place of each object that lacks a required property, and the property's name."""
        for error in self._validator.iter_errors(value):
            if isinstance(error.kind, jsonschema_rs.ValidationErrorKind.Required):
                yield error.instance_path, error.kind.property

    def spark_type(self) -> str:
        """In Spark's DDL. Raises ``ValueError`` for a type that no column can hold."""
        return _ddl(self._type(self.root, self.root, ()))

    def _type(self, schema: Any, document: Any, inside: tuple[str, ...]) -> _Type:
        """The type by all of the schema's keywords together; the validator checks keywords that only restrict."""
        if not isinstance(schema, dict):
            raise ValueError(f"the JSON Schema takes any value ({json.dumps(schema)}), which no Spark column can hold")

        def inner(part: Any) -> _Type:
            return self._type(part, document, inside)

        parts: list[_Type] = []
        if "$ref" in schema:
            reference = str(schema["$ref"])
            if reference in inside:
                raise ValueError(f"the JSON Schema's {reference} contains itself, which no Spark column can hold")
            parts.append(self._type(*self._resolved(reference, document), (*inside, reference)))
            if not self._reads_beside_ref:
                return parts[0]
        for word in ("oneOf", "anyOf"):
            branches = [branch for branch in schema.get(word, ()) if _says_type(branch) and not _is_null(branch)]
            if branches:
                parts.append(_one_of([inner(branch) for branch in branches], word))
        parts += [inner(part) for part in schema.get("allOf", ()) if _says_type(part)]
        own = {word: told for word, told in schema.items() if word not in ("$ref", "oneOf", "anyOf", "allOf")}
        if _says_type(own) or not parts:
            parts.append(self._plain(own, inner))
        return reduce(_both, parts)

    def _plain(self, schema: Any, inner: Callable[[Any], _Type]) -> _Type:
        kind = _kind(schema)
        if kind == "object":
            if not schema.get("properties") and isinstance(schema.get("additionalProperties"), dict):
                return "map", inner(schema["additionalProperties"])
            return {name: inner(declared) for name, declared in schema.get("properties", {}).items()}
        if kind == "array":
            if not isinstance(schema.get("items"), dict) or "prefixItems" in schema:
                raise ValueError("the JSON Schema has an array without one type of items, which no Spark column holds")
            return "array", inner(schema["items"])
        return _TYPES[kind]

    def _resolved(self, reference: str, document: Any) -> tuple[Any, Any]:
        """The schema that a ``$ref`` names, and the document that has it."""
        uri, fragment = urldefrag(reference)
        if uri and uri != self.root.get("$id"):
            document = self._document(uri)
        elif uri:
            document = self.root
        found = document
        for step in fragment.strip("/").split("/") if fragment else ():
            name = unquote(step).replace("~1", "/").replace("~0", "~")
            try:
                found = found[int(name) if isinstance(found, list) else name]
            except (LookupError, TypeError, ValueError):
                raise ValueError(f"the JSON Schema refers to {reference}, which is not there") from None
        return found, document


def _ddl(kind: _Type) -> str:
    if isinstance(kind, str):
        return kind
    if isinstance(kind, dict):
        if not kind:
            raise ValueError("the JSON Schema has an object without properties, which no Spark column can hold")
        fields = (f"`{name.replace('`', '``')}`:{_ddl(inner)}" for name, inner in kind.items())
        return f"struct<{','.join(fields)}>"
    word, inner = kind
    return f"map<string,{_ddl(inner)}>" if word == "map" else f"array<{_ddl(inner)}>"


def _one_of(types: list[_Type], word: str) -> _Type:
    different = [kind for number, kind in enumerate(types) if kind not in types[:number]]
    if all(kind in ("bigint", "double") for kind in different) and len(different) == 2:
        return "double"
    if len(different) > 1:
        told = " or ".join(sorted(map(_ddl, different)))
        raise ValueError(f"the JSON Schema's {word} has several types ({told}), which no Spark column can hold")
    return different[0]


def _both(one: _Type, other: _Type) -> _Type:
    """The type of values that are of both; an object has the properties of both."""
    if isinstance(one, dict) and isinstance(other, dict):
        return {
            name: _both(one[name], other[name]) if name in one and name in other else (one | other)[name]
            for name in one | other
        }
    if isinstance(one, tuple) and isinstance(other, tuple) and one[0] == other[0]:
        return one[0], _both(one[1], other[1])
    if one == other or other == {}:
        return one
    if one == {}:
        return other
    if (one, other) in (("bigint", "double"), ("double", "bigint")):
        return "bigint"
    told = " and ".join(map(_ddl, (one, other)))
    raise ValueError(f"the JSON Schema has values that are to be {told}, which no Spark column can hold")


def _is_null(schema: Any) -> bool:
    return schema.get("type") in ("null", ["null"]) or schema.get("enum") == [None] or schema.get("const", "") is None


def _says_type(schema: Any) -> bool:
    words = ("$ref", "type", "properties", "items", "enum", "const", "oneOf", "anyOf", "allOf")
    return isinstance(schema, dict) and any(word in schema for word in words)


def _kind(schema: Any) -> str:
    """The one type beside null; where the schema names none, the type that its other keywords are for."""
    told = schema.get("type")
    kinds = {told} if isinstance(told, str) else set(told or ())
    if not kinds:
        kinds = {word for word, sign in (("object", "properties"), ("array", "items")) if sign in schema}
        chosen = schema.get("enum", [schema["const"]] if "const" in schema else [])
        kinds |= {_PYTHON.get(type(value), "object") for value in chosen if value is not None}
    kinds -= {"null"}
    if kinds == {"integer", "number"}:
        return "number"
    if len(kinds) != 1:
        told = " or ".join(sorted(kinds)) or "any type"
        raise ValueError(f"the JSON Schema has values of {told}, which no Spark column can hold")
    return str(kinds.pop())
