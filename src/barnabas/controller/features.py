"""Finalized features (KIP-584). In ZooKeeper mode Kafka 3.9 supports none. So features that another version finalized
can be deleted, and every other change is refused with Kafka's words.
"""

from __future__ import annotations

import asyncio
from enum import IntEnum
from typing import Final

from barnabas.controller import events
from barnabas.controller.reign import Reign
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.metadata_version import MetadataVersion
from barnabas.runtime.turns import SLICE
from barnabas.wire.messages.update_features import UpdateFeaturesRequest
from barnabas.zk.kafka.znode_json import ZNodeError
from barnabas.zk.kafka.znodes import Features, FeatureZNode

SUPPORTED_FEATURES: Final[dict[str, tuple[int, int]]] = {}
"""Lowest and highest level of each feature that this broker supports (Kafka's ``BrokerFeatures.createEmpty``)."""


class UpgradeType(IntEnum):
    """``FeatureUpdate.UpgradeType``."""

    UPGRADE = 1
    SAFE_DOWNGRADE = 2
    UNSAFE_DOWNGRADE = 3


def upgrade_type(update: UpdateFeaturesRequest.FeatureUpdateKey, version: int) -> UpgradeType | None:
    """An update's type; None for an unknown one. Version 0 of the request tells only whether a downgrade is allowed."""
    if version == 0:
        return UpgradeType.SAFE_DOWNGRADE if update.allow_downgrade else UpgradeType.UPGRADE
    return UpgradeType(update.upgrade_type) if update.upgrade_type in list(UpgradeType) else None


def validate(
    update: UpdateFeaturesRequest.FeatureUpdateKey, kind: UpgradeType | None, existing: int | None
) -> str | None:
    """Why an update is refused; None if it is allowed."""
    level = update.max_version_level
    if not update.feature:
        return "Feature name can not be empty."
    if kind is None:
        return "Received unknown upgrade type."
    if level < 1 and kind is not UpgradeType.UPGRADE:
        return "Can not delete non-existing finalized feature." if existing is None else None
    if level < 1:
        return (
            f"Can not provide versionLevel: {level} less than 1 without setting the SAFE downgradeType in the request."
        )
    if existing is not None:
        if level == existing:
            direction = "downgrade" if kind is UpgradeType.SAFE_DOWNGRADE else "upgrade"
            return f"Can not {direction} a finalized feature from existing versionLevel:{existing} to the same value."
        if level < existing and kind is not UpgradeType.SAFE_DOWNGRADE:
            return (
                f"Can not downgrade finalized feature from existing versionLevel:{existing} to provided "
                f"versionLevel:{level} without setting the downgradeType to SAFE in the request."
            )
        if level > existing and kind is not UpgradeType.UPGRADE:
            return (
                f"When the downgradeType is set to SAFE in the request, the provided versionLevel:{level} can not be "
                f"greater than existing versionLevel:{existing}."
            )
    supported = SUPPORTED_FEATURES.get(update.feature)
    if supported is None:
        return "Could not apply finalized feature update because the provided feature is not supported."
    lowest, _ = supported
    if level < lowest:
        return (
            f"Could not apply finalized feature update because the provided versionLevel:{level} is lower than the "
            f"supported minVersion:{lowest}."
        )
    return None


async def process_update_features(reign: Reign, event: events.UpdateFeatures) -> dict[str, KafkaError | None]:
    if not reign.metadata_version.is_feature_versioning_supported:
        raise KafkaError(ErrorCode.INVALID_REQUEST, "Feature versioning system is disabled.")
    data, _ = await reign.zk.get_data_and_version(FeatureZNode.path)
    try:
        existing = FeatureZNode.decode(data).features if data is not None else {}
    except ZNodeError as error:
        raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, str(error)) from None
    target = dict(existing)
    outcomes: dict[str, KafkaError | None] = {}
    for number, update in enumerate(event.updates, 1):
        if not number % SLICE:
            await asyncio.sleep(0)
        refused = validate(update, upgrade_type(update, event.version), existing.get(update.feature))
        outcomes[update.feature] = None if refused is None else KafkaError(ErrorCode.INVALID_REQUEST, refused)
        if refused is None and update.max_version_level < 1:
            target.pop(update.feature)
        elif refused is None:
            target[update.feature] = update.max_version_level
    if target != existing and not event.validate_only:
        form = 2 if reign.metadata_version >= MetadataVersion.IBP_3_3_IV0 else 1
        await reign.zk.update_feature_znode(Features(target, version=form))
    return outcomes
