"""JSON Schema: the column that a schema's values are, and whether a value is one of them."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from typing import Any, Final
from urllib.parse import urldefrag

import jsonschema_rs

_TYPES: Final = {"string": "string", "integer": "bigint", "number": "double", "boolean": "boolean"}
_BASE: Final = "registry:///"
"""The base URI of the names in a ``$ref`` where the schema has no ``$id``."""
_PYTHON: Final = {str: "string", bool: "boolean", int: "integer", float: "number"}


class JsonSchema:
    def __init__(self, text: str, imports: Sequence[tuple[str, str]] = ()) -> None:
        """`imports`: other schemas, each behind the name that a ``$ref`` has for it. Raises ``ValueError``."""
        self.root: Any = json.loads(text)
        self._named: dict[str, Any] = {"": self.root}
        for name, document in imports:
            self._named[name] = json.loads(document)
        kind: Any = jsonschema_rs.Draft7Validator
        if isinstance(self.root, dict) and "$schema" in self.root:
            kind = jsonschema_rs.validator_cls_for(self.root)
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
        """What is wrong with a value, as one sentence; None where nothing is."""
        if self._validator.is_valid(value):
            return None
        error = next(iter(self._validator.iter_errors(value)))
        place = ".".join(map(str, error.instance_path))
        return f"{error.message}, at {place}" if place else str(error.message)

    def spark_type(self) -> str:
        """In Spark's DDL. Raises ``ValueError`` for what no column can hold."""
        return self._type(self.root, self.root, ())

    def _type(self, schema: Any, document: Any, inside: tuple[str, ...]) -> str:
        if not isinstance(schema, dict):
            raise ValueError(f"the JSON Schema takes any value ({json.dumps(schema)}), which no Spark column can hold")
        if "$ref" in schema:
            reference = str(schema["$ref"])
            if reference in inside:
                raise ValueError(f"the JSON Schema's {reference} contains itself, which no Spark column can hold")
            found, document = self._resolved(reference, document)
            return self._type(found, document, (*inside, reference))

        def inner(part: Any) -> str:
            return self._type(part, document, inside)

        for word in ("oneOf", "anyOf"):
            if word in schema:
                return _one_of({inner(branch) for branch in schema[word] if branch != {"type": "null"}}, word)
        if "allOf" in schema:
            return self._all_of(schema, document, inner)
        return self._plain(schema, inner)

    def _all_of(self, schema: Any, document: Any, inner: Callable[[Any], str]) -> str:
        """The properties of all parts; the validator sees to what only restricts them."""
        parts = [inner(part) for part in schema["allOf"] if _says_type(part)]
        own = {word: value for word, value in schema.items() if word != "allOf"}
        if _says_type(own):
            parts.append(inner(own))
        if len(parts) > 1 and all(part.startswith("struct<") for part in parts):
            return f"struct<{','.join(part.removeprefix('struct<').removesuffix('>') for part in parts)}>"
        return _one_of(set(parts), "allOf")

    def _plain(self, schema: Any, inner: Callable[[Any], str]) -> str:
        kind = _kind(schema)
        if kind == "object":
            if properties := schema.get("properties"):
                fields = (f"`{name.replace('`', '``')}`:{inner(declared)}" for name, declared in properties.items())
                return f"struct<{','.join(fields)}>"
            if isinstance(schema.get("additionalProperties"), dict):
                return f"map<string,{inner(schema['additionalProperties'])}>"
            raise ValueError("the JSON Schema has an object without properties, which no Spark column can hold")
        if kind == "array":
            if not isinstance(schema.get("items"), dict):
                raise ValueError("the JSON Schema has an array without one type of items, which no Spark column holds")
            return f"array<{inner(schema['items'])}>"
        return _TYPES[kind]

    def _resolved(self, reference: str, document: Any) -> tuple[Any, Any]:
        """What a ``$ref`` means, and the document that it is in."""
        uri, fragment = urldefrag(reference)
        if uri and uri != self.root.get("$id"):
            document = self._document(uri)
        elif uri:
            document = self.root
        found = document
        for step in fragment.strip("/").split("/") if fragment else ():
            try:
                found = found[step.replace("~1", "/").replace("~0", "~")]
            except (KeyError, TypeError):
                raise ValueError(f"the JSON Schema refers to {reference}, which is not there") from None
        return found, document


def _one_of(types: set[str], word: str) -> str:
    if len(types) != 1:
        told = " or ".join(sorted(types)) or "nothing"
        raise ValueError(f"the JSON Schema's {word} has several types ({told}), which no Spark column can hold")
    return types.pop()


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
