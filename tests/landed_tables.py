"""What a topic's Delta or Iceberg table holds, as the table's own library reads it."""

from __future__ import annotations

from pathlib import Path
from typing import Any


def rows(path: Path, table_format: str) -> list[dict[str, Any]]:
    """By partition and offset."""
    if table_format == "delta":
        from deltalake import DeltaTable

        found = DeltaTable(str(path)).to_pyarrow_table()
    else:
        from pyiceberg.catalog.sql import SqlCatalog

        with SqlCatalog("barnabas", uri=f"sqlite:///{path}/_barnabas/iceberg.db") as catalog:
            found = catalog.load_table("barnabas.landed").scan().to_arrow()
    return sorted(found.to_pylist(), key=lambda row: (row["_partition"], row["_offset"]))
