"""Rules about znodes that should be short-lived, and about remains of other ways of running Kafka."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Final

from barnabas.zk.inspection.check.cluster import ClusterRecord, unreadable_finding
from barnabas.zk.inspection.check.finding import MINUTE_MS, ZnodeFinding, agreed, counted, duration, listed
from barnabas.zk.inspection.image import ReadZNode, creations_of
from barnabas.zk.kafka.config_znodes import (
    ConfigEntityChangeNotificationSequenceZNode,
    ConfigEntityChangeNotificationZNode,
)
from barnabas.zk.kafka.security_znodes import (
    AclChangeZNode,
    DelegationTokenChangeNotificationSequenceZNode,
    DelegationTokenChangeNotificationZNode,
)
from barnabas.zk.kafka.znode_json import ZNodeError, sequence_number
from barnabas.zk.kafka.znodes import (
    ControllerZNode,
    IsrChangeNotificationSequenceZNode,
    IsrChangeNotificationZNode,
    LogDirEventNotificationSequenceZNode,
    LogDirEventNotificationZNode,
    MigrationZNode,
)

NOTIFICATION_KEPT_MS: Final = 15 * MINUTE_MS
"""How long a notification between brokers stays; a broker that sees the next one removes older ones."""
NOTIFICATIONS_MAX: Final = 10_000
"""More children than this make every read of them slow, whatever their age."""
TO_CONTROLLER_MS: Final = MINUTE_MS
"""How long a notification to the controller may stay: a controller handles it, and removes it, at once."""


def migration(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """The traces of a migration to KRaft: ``/migration``, and a controller that is no broker."""
    found = cluster.controller
    kraft = found is not None and (found.kraft_epoch if found.kraft_epoch is not None else -1) >= 0
    if kraft and found is not None:
        yield ZnodeFinding(
            "kraft-controller",
            ControllerZNode.path,
            f"/controller is held by KRaft controller {found.broker_id}: the cluster is being migrated, and no broker "
            "in ZooKeeper mode becomes controller.",
            "Finish the migration; to go back, stop the KRaft controllers, then `barnabas zk delete /migration` and "
            "`barnabas zk delete /controller`.",
        )
    if MigrationZNode.path in cluster.image:
        yield ZnodeFinding(
            "migration-leftover",
            MigrationZNode.path,
            "/migration is there, which only a migration to KRaft makes"
            + (" and one is under way." if kraft else ", and the controller is a broker: it was begun and given up."),
            "Finish the migration, or roll it back as far as its KRaft controllers are gone."
            if kraft
            else "`barnabas zk delete /migration`; a new migration would go on where the old one stopped.",
        )


def notifications(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """Sequence nodes that brokers send each other: they pile up if no broker removes them."""

    def acl_change(data: bytes | None) -> object:
        return AclChangeZNode.decode_literal(data)

    between_brokers: tuple[tuple[str, str, Callable[[bytes | None], object] | None], ...] = (
        (
            ConfigEntityChangeNotificationZNode.path,
            ConfigEntityChangeNotificationSequenceZNode.sequence_number_prefix,
            ConfigEntityChangeNotificationSequenceZNode.decode,
        ),
        (AclChangeZNode.literal_path, AclChangeZNode.sequence_number_prefix, acl_change),
        (AclChangeZNode.extended_path, AclChangeZNode.sequence_number_prefix, AclChangeZNode.decode_extended),
        (
            DelegationTokenChangeNotificationZNode.path,
            DelegationTokenChangeNotificationSequenceZNode.sequence_number_prefix,
            None,
        ),
    )
    to_controller: tuple[tuple[str, str, Callable[[bytes | None], object]], ...] = (
        (
            IsrChangeNotificationZNode.path,
            IsrChangeNotificationSequenceZNode.sequence_number_prefix,
            IsrChangeNotificationSequenceZNode.decode,
        ),
        (
            LogDirEventNotificationZNode.path,
            LogDirEventNotificationSequenceZNode.sequence_number_prefix,
            LogDirEventNotificationSequenceZNode.decode,
        ),
    )
    for path, prefix, decode in between_brokers:
        waiting = cluster.image.below(path)
        yield from _readable(waiting, decode)
        yield from _numbers(cluster, path, prefix, waiting)
        yield from _purged(path, waiting)
    for path, prefix, decode in to_controller:
        waiting = cluster.image.below(path)
        yield from _readable(waiting, decode)
        yield from _numbers(cluster, path, prefix, waiting)
        yield from _taken(cluster, path, waiting)


def _readable(waiting: list[ReadZNode], decode: Callable[[bytes | None], object] | None) -> Iterator[ZnodeFinding]:
    if decode is None:
        return
    for znode in waiting:
        try:
            decode(znode.data)
        except (ZNodeError, UnicodeDecodeError) as error:
            yield unreadable_finding(znode.path, error)


def _numbers(cluster: ClusterRecord, path: str, prefix: str, waiting: list[ReadZNode]) -> Iterator[ZnodeFinding]:
    names = [znode.path.rpartition("/")[2] for znode in waiting]
    numbered = {name: sequence_number(name, prefix) for name in names}
    foreign = [name for name, number in numbered.items() if number is None]
    if foreign:
        yield ZnodeFinding(
            "notification-name",
            f"{path}/{foreign[0]}",
            f"{path} has {listed(foreign)}, which {agreed(len(foreign), 'is no notification', 'are no notifications')} "
            f"({prefix} and a number): brokers fail to read the rest.",
            f"`barnabas zk delete {path}/{foreign[0]}`.",
        )
    numbers = [number for number in numbered.values() if number is not None]
    parent = cluster.image.znodes.get(path)
    if not numbers or parent is None:
        return
    next_number = creations_of(parent.stat)
    if max(numbers) >= next_number:
        yield ZnodeFinding(
            "sequence-behind",
            path,
            f"{path} will number its next child {next_number}, and there is one with {max(numbers)}: the tree was "
            "copied without its counters, and brokers that saw the higher number overlook every change until then.",
            f"Restart the brokers after the children of {path} are removed; move trees by `barnabas zk export` and "
            "`import`, which keep the counters.",
        )


def _purged(path: str, waiting: list[ReadZNode]) -> Iterator[ZnodeFinding]:
    """A broker that handles a notification removes those older than 15 minutes."""
    if not waiting:
        return
    newest_ms = max(znode.stat.ctime for znode in waiting)
    overdue = [znode for znode in waiting if newest_ms - znode.stat.ctime > NOTIFICATION_KEPT_MS + MINUTE_MS]
    if overdue:
        oldest_ms = min(znode.stat.ctime for znode in overdue)
        yield ZnodeFinding(
            "notifications-pile-up",
            path,
            f"{counted(len(overdue), 'notification')} in {path} {agreed(len(overdue), 'is', 'are')} up to "
            f"{duration(newest_ms - oldest_ms)} older than the newest, which should have had them removed: "
            "no broker takes notifications up.",
            "Look for errors about it in the brokers' logs and restart the broker that has them.",
        )
    elif len(waiting) > NOTIFICATIONS_MAX:
        yield ZnodeFinding(
            "notifications-pile-up",
            path,
            f"There are {len(waiting)} notifications in {path}: every broker reads them all at each change.",
            "Change configurations less often, or many at once; they go 15 minutes after they were made.",
        )


def _taken(cluster: ClusterRecord, path: str, waiting: list[ReadZNode]) -> Iterator[ZnodeFinding]:
    if not waiting:
        return
    age_ms = cluster.age_ms(min(znode.stat.ctime for znode in waiting))
    if age_ms > TO_CONTROLLER_MS:
        yield ZnodeFinding(
            "notifications-pile-up",
            path,
            f"{counted(len(waiting), 'notification')} in {path} {agreed(len(waiting), 'waits', 'wait')} for the "
            f"controller, the first since {duration(age_ms)}.",
            "The controller is stuck or there is none: `barnabas zk delete /controller` has another one work them off."
            if cluster.brokers
            else "The first controller works them off when the brokers are started.",
        )
