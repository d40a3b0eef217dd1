"""How far a query is behind, for notebooks: from the query's own progress, without asking the cluster."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from barnabas.model.ids import TopicPartition
from barnabas.spark.plan import TopicOffsets, offsets_from_json


def lag(query: Any) -> dict[TopicPartition, int]:
    """Records that each partition had, at the last batch's planning, behind what the query has read; {} before that.

    `query` is a ``StreamingQuery``. Of several sources those of ``format("barnabas")`` count.
    """
    progress = query.lastProgress
    found: dict[TopicPartition, int] = {}
    for source in progress["sources"] if progress is not None else ():
        end, latest = _offsets(source["endOffset"]), _offsets(source["latestOffset"])
        for name, topic in latest.items():
            read = end[name].next_offsets if name in end else {}
            for partition, offset in topic.next_offsets.items():
                found[TopicPartition(name, partition)] = offset - read.get(partition, 0)
    return found


def _offsets(text: Any) -> Mapping[str, TopicOffsets]:
    """{} for another source's offset, and for none."""
    try:
        written = json.loads(text) if isinstance(text, str) else text
        return offsets_from_json(written or {})
    except (ValueError, AttributeError):
        return {}
