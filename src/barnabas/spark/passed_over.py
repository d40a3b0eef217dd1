"""Options that a job for the official connector may have and that have no effect here. Pure.

They are accepted, with one warning for each process, so that such a job runs unchanged. Options about access, about the
records to read or about guarantees are not among them: these are obeyed or refused.
"""

from __future__ import annotations

import difflib
import logging
from collections.abc import Iterable, Mapping, Set
from typing import Final

_LOG: Final = logging.getLogger(__name__)

_CONNECTOR: Final = frozenset(
    {
        "kafkaconsumer.polltimeoutms",
        "fetchoffset.numretries",
        "fetchoffset.retryintervalms",
        "usedeprecatedoffsetfetching",
    }
)
_CLIENTS: Final = frozenset(
    f"kafka.{name}"
    for name in (
        "allow.auto.create.topics",
        "auto.commit.interval.ms",
        "buffer.memory",
        "check.crcs",
        "client.dns.lookup",
        "client.rack",
        "connections.max.idle.ms",
        "fetch.max.wait.ms",
        "fetch.min.bytes",
        "group.instance.id",
        "heartbeat.interval.ms",
        "max.block.ms",
        "max.in.flight.requests.per.connection",
        "max.poll.interval.ms",
        "max.poll.records",
        "max.request.size",
        "metadata.max.age.ms",
        "metadata.max.idle.ms",
        "partition.assignment.strategy",
        "receive.buffer.bytes",
        "reconnect.backoff.max.ms",
        "reconnect.backoff.ms",
        "retries",
        "retry.backoff.max.ms",
        "retry.backoff.ms",
        "send.buffer.bytes",
        "session.timeout.ms",
        "socket.connection.setup.timeout.max.ms",
        "socket.connection.setup.timeout.ms",
    )
)
"""Options of both consumers and producers: a job often has one mapping for its source and its sink."""
_SOURCES_OWN: Final = frozenset(
    f"kafka.{name}"
    for name in ("auto.offset.reset", "fetch.max.bytes", "group.id", "isolation.level", "max.partition.fetch.bytes")
)
_SINKS_OWN: Final = frozenset(
    f"kafka.{name}"
    for name in (
        "acks",
        "batch.size",
        "compression.type",
        "delivery.timeout.ms",
        "enable.idempotence",
        "linger.ms",
        "transaction.timeout.ms",
    )
)
OF_SOURCE: Final = _CONNECTOR | _CLIENTS | _SINKS_OWN
OF_SINK: Final = _CLIENTS | _SOURCES_OWN
"""Lower-case names."""

_OF_TABLES: Final = frozenset(
    {"collation", "comment", "external", "is_managed_location", "location", "owner", "provider"}
)
"""What Spark adds to the options of a table in its catalog (``CREATE TABLE .. USING barnabas``)."""
_AGAIN: Final = "option."
"""The prefix of the table's own options, which Spark passes a second time."""

_warned: set[str] = set()


def given_by_user(options: Mapping[str, str]) -> dict[str, str]:
    """`options` by lower-case names, as they are in Spark, without what Spark adds to those of a table."""
    given = {name.lower(): str(value) for name, value in options.items()}
    twice = {f"{_AGAIN}{name}" for name in given}
    return {name: value for name, value in given.items() if name not in _OF_TABLES and name not in twice}


def check_names(given: Iterable[str], known: Mapping[str, str], without_effect: Set[str], reader: str) -> None:
    """Warns of options in `without_effect`. Raises ``ValueError`` if others of `given` are not `known` to `reader`.

    `known` has the option's spelling by its lower-case name.
    """
    unknown = sorted(set(given) - set(known) - without_effect)
    if unknown:
        near = difflib.get_close_matches(unknown[0], known, 1)
        hint = f" Did you mean {known[near[0]]}?" if near else ""
        raise ValueError(f"{reader} has no option {', '.join(unknown)}.{hint}")
    _warn_of(set(given) & without_effect)


def _warn_of(names: Iterable[str]) -> None:
    """Warns once per process that `names` were given and have no effect."""
    new = sorted(set(names) - _warned)
    if new:
        _warned.update(new)
        _LOG.warning(
            "format('barnabas') takes these options of the official connector and does without them: %s.",
            ", ".join(new),
        )
