"""The historical bugs that a re-implementation of Kafka makes first, each as the edit that puts it back.

A mutant is one bug: edits of the product's syntax (`mutants.edits`), made in a copy of the package and never in the
package itself. A test makes them all, so one that no longer applies is seen the moment the code moves on.
`ABSENT` says of every other bug why there is nothing to mutate.
"""

from __future__ import annotations

from typing import Final

from mutants import (
    table_cleaner,
    table_controller,
    table_coordinators,
    table_log,
    table_network,
    table_replication,
)
from mutants.mutant import Mutant

__all__ = ["ABSENT", "MUTANTS", "Mutant"]

MUTANTS: Final = (
    *table_controller.MUTANTS,
    *table_replication.MUTANTS,
    *table_log.MUTANTS,
    *table_cleaner.MUTANTS,
    *table_coordinators.MUTANTS,
    *table_network.MUTANTS,
)

ABSENT: Final = {
    "B29": "a leader always has an entry for its own epoch, and a follower's last epoch is never larger: with epochs "
    "in the fetch itself (KIP-595) no undefined epoch is ever asked about",
    "B37": "KIP-903 is for KRaft; in ZooKeeper mode Apache Kafka 3.9 sends no broker epochs in AlterPartition either",
    "B43": "a read is one synchronous step: no append or roll can come between its parts",
    "B45": "session order matters only beyond replica.fetch.response.max.bytes in one response",
    "B46": "the comparison of the two logs and their change of places are one synchronous step, without a message",
    "B60": "last stable offset and high watermark are read in one synchronous step",
    "B77": "before transactions of version 2 (KIP-890, Apache Kafka 4.0) an EndTxn names no transaction: 3.9 cannot "
    "tell a late one either; our producer takes another epoch after a lost answer",
    "B91": "no simulated client authenticates yet",
    "B92": "no simulated client authenticates yet",
}
