"""Rules about a cluster's top znodes, its registrations and its controller."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

from barnabas.zk.inspection.check.cluster import ClusterRecord, unreadable_finding
from barnabas.zk.inspection.check.finding import ZnodeFinding, listed
from barnabas.zk.kafka.config_znodes import IPS, ConfigEntityTypeZNode
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import (
    PERSISTENT_ZK_PATHS,
    BrokerIdsZNode,
    BrokerIdZNode,
    ClusterIdZNode,
    ControllerEpochZNode,
    ControllerZNode,
    FeatureZNode,
    TopicsZNode,
)


def session(owner: int) -> str:
    """A session's id as ZooKeeper's own tools print it."""
    return f"0x{owner & (1 << 64) - 1:x}"


def no_cluster(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """Finds a tree without any of Kafka's znodes."""
    image = cluster.image
    if BrokerIdsZNode.path in image or TopicsZNode.path in image:
        return
    below = listed(image.children("/"))
    yield ZnodeFinding(
        "no-cluster",
        BrokerIdsZNode.path,
        "There is no Kafka cluster in this tree: it has neither /brokers/ids nor /brokers/topics"
        + (f"; at its top there is {below}." if below else ", and it is empty."),
        "Give the chroot that the brokers' zookeeper.connect has (`--zookeeper host:port/chroot`).",
    )


def missing_paths(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    # Kafka before 2.7 has no quotas of addresses.
    wanted = [path for path in PERSISTENT_ZK_PATHS if path != ConfigEntityTypeZNode.path(IPS)]
    for path in wanted:
        if path not in cluster.image:
            yield ZnodeFinding(
                "missing-path",
                path,
                f"{path} is missing, which every broker makes at its start and relies on afterwards.",
                f"Restart a broker, or make it: `barnabas zk create {path}`.",
            )
    if ClusterIdZNode.path not in cluster.image:
        yield ZnodeFinding(
            "missing-cluster-id",
            ClusterIdZNode.path,
            "/cluster/id is missing: the next broker that starts invents a new one, and refuses its log directories, "
            "whose meta.properties name the old one.",
            "Take the id from the meta.properties of a log directory and put it back: "
            """`barnabas zk create -p /cluster/id '{"version":"1","id":"<id>"}'`.""",
        )
    else:
        try:
            ClusterIdZNode.decode(cluster.image.data(ClusterIdZNode.path))
        except ZNodeError as error:
            yield unreadable_finding(ClusterIdZNode.path, error)


def registrations(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    if BrokerIdsZNode.path in cluster.image and not cluster.image.children(BrokerIdsZNode.path):
        yield ZnodeFinding(
            "no-brokers",
            BrokerIdsZNode.path,
            "No broker is registered: the cluster is down, or its brokers use another chroot.",
            "Start the brokers; what concerns living brokers was not checked.",
        )
    addresses: defaultdict[tuple[str, int], list[int]] = defaultdict(list)
    for broker, registered in cluster.brokers.items():
        path = BrokerIdZNode.path(broker)
        if registered.stat.ephemeral_owner == 0:
            yield ZnodeFinding(
                "registration-not-ephemeral",
                path,
                f"{path} belongs to no session, so broker {broker} counts as alive for ever; no broker writes that.",
                f"Stop broker {broker}, remove the znode (`barnabas zk delete {path}`), and start the broker.",
            )
        for endpoint in registered.info.endpoints:
            addresses[endpoint.host, endpoint.port].append(broker)
    for (host, port), brokers in addresses.items():
        if len(set(brokers)) > 1:
            yield ZnodeFinding(
                "same-address",
                BrokerIdZNode.path(brokers[0]),
                f"Brokers {listed(sorted(set(brokers)))} all say that they listen on {host}:{port}.",
                "Give each broker advertised.listeners of its own, and restart those that are wrong.",
            )


def controller(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    path = ControllerZNode.path
    znode = cluster.image.znodes.get(path)
    if znode is None:
        if cluster.brokers:
            yield ZnodeFinding(
                "no-controller",
                path,
                "There is no /controller although brokers are registered: nothing is elected, created or deleted.",
                "Brokers elect one within a moment; where it stays, their controller.log says why. Restart one.",
            )
        return
    found = cluster.controller
    if found is None or (found.kraft_epoch or -1) >= 0:
        return  # unreadable, or a migration's: other rules report those
    owner = znode.stat.ephemeral_owner
    registered = cluster.brokers.get(found.broker_id)
    elect = "`barnabas zk delete /controller` makes the brokers elect another."
    if owner == 0:
        yield ZnodeFinding(
            "controller-not-ephemeral",
            path,
            f"/controller names broker {found.broker_id} and belongs to no session, so it stays when that broker dies.",
            f"No broker writes that; {elect}",
        )
    if registered is None:
        yield ZnodeFinding(
            "controller-not-registered",
            path,
            f"/controller names broker {found.broker_id}, which is not registered: it does not work as controller.",
            f"It goes when session {session(owner)} times out (18 s by default). Where it stays, {elect}",
        )
    elif owner not in (0, registered.stat.ephemeral_owner):
        yield ZnodeFinding(
            "controller-of-dead-session",
            path,
            f"/controller belongs to session {session(owner)}, and broker {found.broker_id}, which it names, is "
            f"registered by session {session(registered.stat.ephemeral_owner)}: it is left from an earlier life.",
            f"It goes when that session times out (18 s by default). Where it stays, {elect}",
        )


def controller_epoch(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    path = ControllerEpochZNode.path
    written = [
        (state.controller_epoch, topic.state_paths[partition])
        for topic in cluster.topics.values()
        for partition, state in topic.states.items()
    ]
    highest, where = max(written, default=(-1, ""))
    if path not in cluster.image:
        if cluster.controller is not None or written:
            yield ZnodeFinding(
                "no-controller-epoch",
                path,
                "/controller_epoch is missing, which every write of the controller checks: none succeeds.",
                f"`barnabas zk create {path} {max(highest, 0) + 1}`, then `barnabas zk delete /controller`, "
                "so that the next controller begins with it.",
            )
    elif cluster.controller_epoch is not None and highest > cluster.controller_epoch:
        yield ZnodeFinding(
            "controller-epoch-behind",
            path,
            f"/controller_epoch is {cluster.controller_epoch}, and {where} was written by a controller of epoch "
            f"{highest}: it was set back, and brokers refuse what a controller of a lower epoch tells them.",
            f"`barnabas zk set {path} {highest}`, then `barnabas zk delete /controller`, "
            "so that the next controller has a higher one.",
        )


def features(cluster: ClusterRecord) -> Iterator[ZnodeFinding]:
    """Finalized features, and the trace of inter.broker.protocol.version in a registration."""
    by_version: defaultdict[int, list[int]] = defaultdict(list)
    for broker, registered in cluster.brokers.items():
        by_version[int(registered.fields.get("version", 0))].append(broker)
    if len(by_version) > 1:
        text = ", ".join(f"{listed(brokers)} by version {version}" for version, brokers in sorted(by_version.items()))
        yield ZnodeFinding(
            "registration-versions",
            BrokerIdsZNode.path,
            f"Brokers register in different forms ({text}): their inter.broker.protocol.version is not the same.",
            "Finish the rolling upgrade: one inter.broker.protocol.version on all brokers, restarted one by one.",
        )
    if FeatureZNode.path not in cluster.image:
        return
    try:
        finalized = FeatureZNode.decode(cluster.image.data(FeatureZNode.path))
    except ZNodeError as error:
        yield unreadable_finding(FeatureZNode.path, error)
        return
    if finalized.enabled and by_version and max(by_version) < 5:
        yield ZnodeFinding(
            "features-without-protocol",
            FeatureZNode.path,
            "/feature is enabled, and no broker's inter.broker.protocol.version is 2.7 or newer: "
            "they ignore it until the next controller turns it off.",
            "`barnabas zk delete /controller` has the brokers elect one that does.",
        )
    for name, level in finalized.features.items():
        without = [
            broker
            for broker, registered in cluster.brokers.items()
            if not _supports(registered.fields.get("features"), name, level)
        ]
        if without:
            yield ZnodeFinding(
                "feature-not-supported",
                FeatureZNode.path,
                f"The feature {name} is finalized at level {level}, and of the brokers registered {listed(without)} "
                "cannot do that.",
                f"Bring these brokers to a version that has {name}, or downgrade the feature by `kafka-features`.",
            )


def _supports(features: object, name: str, level: int) -> bool:
    supported = features.get(name) if isinstance(features, dict) else None
    if not isinstance(supported, dict):
        return False
    try:
        return int(supported.get("min_version", 0)) <= level <= int(supported.get("max_version", -1))
    except (TypeError, ValueError):
        return False
