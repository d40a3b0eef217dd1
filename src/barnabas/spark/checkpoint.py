"""What a streaming query's checkpoint says of the query."""

from __future__ import annotations

import json
from pathlib import Path
from urllib.parse import unquote, urlsplit


def query_id(location: str) -> str | None:
    """The id that a query keeps for as long as it has its checkpoint; Spark writes it before the query begins.

    None where `location` is no directory of this machine (``hdfs:``, ``s3a:``), or holds no query's checkpoint.
    """
    parts = urlsplit(location)
    if parts.scheme not in ("", "file"):
        return None
    directory = Path(unquote(parts.path) if parts.scheme else location)
    try:
        found = json.loads((directory / "metadata").read_text(encoding="utf-8"))["id"]
    except (OSError, ValueError, KeyError, TypeError):
        return None
    return found if isinstance(found, str) else None
