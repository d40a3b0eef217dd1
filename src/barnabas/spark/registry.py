"""Confluent's schema registry: schemas by id and by subject.

With `Registry.cache` answers are kept in a directory. A schema by its id never changes and comes from there; the newest
schema of a subject is requested again, and comes from there only while the registry does not answer.
"""

from __future__ import annotations

import base64
import hashlib
import json
import os
import urllib.error
import urllib.request
from collections.abc import Mapping
from dataclasses import dataclass, field
from http.client import HTTPException
from pathlib import Path
from typing import Any, Final, NamedTuple, Self
from urllib.parse import quote, unquote, urlsplit, urlunsplit

__all__ = ["Reference", "Registry", "RegistryDown", "Schema"]

_TIMEOUT_S: Final = 30
_UNKNOWN: Final = 404
_REFUSED: Final = (409, 422)
_UNREADABLE: Final = (
    "The schema registry's URL cannot be read: a name and a password in it are percent-encoded (a slash is %2F), or "
    "given beside it, Registry(url, user='name:password')."
)
_MEDIA_TYPE: Final = "application/vnd.schemaregistry.v1+json"


class RegistryDown(OSError):
    """The registry does not answer, and no earlier answer is kept."""


class Reference(NamedTuple):
    """Another subject's schema that a schema uses."""

    name: str
    """The name in the schema: an Avro name, a Protobuf import, the ``$ref`` of a JSON Schema."""
    subject: str
    version: int


class Schema(NamedTuple):
    kind: str
    """``AVRO``, ``JSON`` or ``PROTOBUF``."""
    text: str
    references: tuple[Reference, ...] = ()
    imports: tuple[tuple[str, str], ...] = ()
    """Name and text of each schema that it uses, each after those that it uses itself; a registry fills them in."""
    id: int | None = None

    @property
    def texts(self) -> tuple[str, ...]:
        """The texts of `imports` in their order, and last its own."""
        return (*(text for _, text in self.imports), self.text)


@dataclass(frozen=True)
class Registry:
    url: str
    user: str = field(default="", repr=False)
    """``name:password``, Confluent's ``basic.auth.user.info``."""
    cache: str | None = None
    """A directory that caches answers; shared by the executors, or one on each."""

    def __post_init__(self) -> None:
        """``https://name:password@host`` is taken apart: what is `url` is told in errors and plans.

        Raises ``ValueError``, which tells nothing of a URL in which the login's end cannot be seen.
        """
        try:
            parts = urlsplit(self.url)
            _ = parts.port
        except ValueError:
            raise ValueError(_UNREADABLE) from None
        if "@" in parts.path + parts.query + parts.fragment:
            raise ValueError(_UNREADABLE)
        login, at, host = parts.netloc.rpartition("@")
        if at:
            object.__setattr__(self, "url", urlunsplit(parts._replace(netloc=host)))
            object.__setattr__(self, "user", self.user or unquote(login))

    @classmethod
    def of(cls, registry: Self | str | Mapping[str, str]) -> Self:
        """Of a URL, or of Confluent's properties ``schema.registry.url`` and ``basic.auth.user.info``."""
        if isinstance(registry, cls):
            return registry
        if isinstance(registry, str):
            return cls(registry)
        assert isinstance(registry, Mapping)
        return cls(
            registry["schema.registry.url"], registry.get("basic.auth.user.info", ""), registry.get("cache") or None
        )

    def by_id(self, schema_id: int) -> Schema:
        """Raises ``ValueError`` for an id that the registry does not know, `RegistryDown`."""
        return self._schema(f"/schemas/ids/{schema_id}", for_ever=True)._replace(id=schema_id)

    def newest(self, subject: str) -> Schema:
        """Raises ``ValueError`` for a subject that the registry does not have, `RegistryDown`."""
        return self._schema(f"/subjects/{quote(subject, safe='')}/versions/latest", for_ever=False)

    def register(self, subject: str, schema: Schema) -> Schema:
        """The schema with its id and imports; it becomes `subject`'s newest where the subject lacked it.

        Raises ``ValueError`` for a schema that is invalid, or that the subject's compatibility rule refuses,
        `RegistryDown`.
        """
        body: dict[str, Any] = {
            "schema": schema.text,
            "references": [reference._asdict() for reference in schema.references],
        }
        if schema.kind != "AVRO":
            body["schemaType"] = schema.kind
        told = self._asked(f"/subjects/{quote(subject, safe='')}/versions", for_ever=False, body=body)
        return schema._replace(id=told["id"], imports=self._imports(body["references"]))

    def _schema(self, path: str, *, for_ever: bool) -> Schema:
        told = self._asked(path, for_ever=for_ever)
        references = told.get("references") or ()
        return Schema(
            told.get("schemaType") or "AVRO",
            told["schema"],
            tuple(Reference(reference["name"], reference["subject"], reference["version"]) for reference in references),
            self._imports(references),
            told.get("id"),
        )

    def _imports(self, references: Any) -> tuple[tuple[str, str], ...]:
        found: dict[str, str] = {}
        for reference in references:
            place = f"/subjects/{quote(reference['subject'], safe='')}/versions/{reference['version']}"
            referred = self._schema(place, for_ever=True)
            found = {**dict(referred.imports), **found, reference["name"]: referred.text}
        return tuple(found.items())

    def _asked(self, path: str, *, for_ever: bool, body: Mapping[str, Any] | None = None) -> dict[str, Any]:
        data = json.dumps(body, sort_keys=True).encode() if body is not None else None
        name = quote(path, safe="") + (f".{hashlib.sha256(data).hexdigest()}" if data else "")
        kept = Path(self.cache, name + ".json") if self.cache else None
        if for_ever and kept is not None and kept.exists():
            return dict(json.loads(kept.read_text()))
        request = urllib.request.Request(self.url.rstrip("/") + path, data, {"Content-Type": _MEDIA_TYPE})
        if self.user:
            # The login is not sent to the target of a redirection.
            request.add_unredirected_header("Authorization", "Basic " + base64.b64encode(self.user.encode()).decode())
        try:
            with urllib.request.urlopen(request, timeout=_TIMEOUT_S) as answer:
                told: dict[str, Any] = json.load(answer)
        except urllib.error.HTTPError as error:
            if error.code == _UNKNOWN:
                raise ValueError(f"the schema registry has nothing at {path}") from None
            if error.code in _REFUSED:
                raise ValueError(f"the schema registry refuses what {path} was asked: {_reason(error)}") from None
            return self._kept(kept, f"answered {error.code} to {path}")
        except (OSError, ValueError, HTTPException) as error:
            return self._kept(kept, f"did not answer {path}: {error}")
        if kept is not None:
            kept.parent.mkdir(parents=True, exist_ok=True)
            part = kept.with_suffix(f".{os.getpid()}-{id(told)}.part")
            part.write_text(json.dumps(told))
            part.replace(kept)
        return told

    def _kept(self, file: Path | None, why: str) -> dict[str, Any]:
        if file is not None and file.exists():
            return dict(json.loads(file.read_text()))
        raise RegistryDown(f"the schema registry {self.url} {why}")


def _reason(error: urllib.error.HTTPError) -> str:
    told = error.read().decode(errors="replace")
    try:
        return str(json.loads(told)["message"])
    except (ValueError, KeyError, TypeError):
        return told[:500] or str(error.code)
