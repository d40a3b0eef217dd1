"""The parts of a serving broker that request handlers may use, like the arguments of Kafka's ``KafkaApis``."""

from __future__ import annotations

from dataclasses import dataclass

from barnabas.broker.acl_store import AclStore
from barnabas.broker.config_changes import ConfigChanges
from barnabas.broker.configs import BrokerConfigLayers
from barnabas.broker.controller_channel import ControllerChannel
from barnabas.broker.coordinators import Coordinators
from barnabas.broker.delegation_tokens import DelegationTokens
from barnabas.broker.listeners import Listeners
from barnabas.broker.migration import Migration
from barnabas.broker.producer_ids import ProducerIds
from barnabas.broker.quotas import Quotas
from barnabas.broker.this_node import ThisNode
from barnabas.broker.topic_configs import TopicConfigs
from barnabas.broker.topics import Topics
from barnabas.broker.transactions import Transactions
from barnabas.broker.unsent_answers import UnsentAnswers
from barnabas.controller.controller import KafkaController
from barnabas.coordinator.group_coordinator import GroupCoordinator
from barnabas.log.log_dirs import LogDirs
from barnabas.model.config import Config
from barnabas.model.errors import ErrorCode, KafkaError
from barnabas.model.ids import NO_EPOCH
from barnabas.replica.metadata_cache import MetadataCache
from barnabas.replica.replicas import Replicas
from barnabas.runtime import Runtime
from barnabas.wire.messages.api_versions import ApiVersionsResponse
from barnabas.zk.kafka.zk_client import KafkaZkClient


@dataclass(frozen=True, slots=True)
class BrokerParts:
    """Made when all parts are there, before the first request is read."""

    node: ThisNode
    runtime: Runtime
    zk: KafkaZkClient
    broker_id: int
    metadata: MetadataCache
    log_dirs: LogDirs
    replicas: Replicas
    groups: GroupCoordinator
    transactions: Transactions
    coordinators: Coordinators
    controller: KafkaController
    forwarding_channel: ControllerChannel
    """For clients' requests to a KRaft controller: the broker's own requests do not wait behind them."""
    migration: Migration | None
    topics: Topics
    topic_configs: TopicConfigs
    config_changes: ConfigChanges
    producer_ids: ProducerIds
    quotas: Quotas
    unsent_answers: UnsentAnswers
    acls: AclStore | None
    delegation_tokens: DelegationTokens
    api_versions: list[ApiVersionsResponse.ApiVersion]
    """The requests that are answered, by key, with their lowest and highest version."""

    @property
    def cluster_id(self) -> str:
        return self.node.cluster_id

    @property
    def features_epoch(self) -> int:
        return self.node.features_epoch

    @property
    def config(self) -> Config:
        return self.node.config

    @property
    def config_layers(self) -> BrokerConfigLayers:
        return self.node.config_layers

    @property
    def listeners(self) -> Listeners:
        return self.node.listeners

    def is_stale(self, broker_epoch: int, of_kraft: bool = False) -> bool:
        """Whether a controller's request was meant for an earlier registration of this broker (KIP-380).

        Raises UNKNOWN_SERVER_ERROR for a KRaft controller's where no migration is enabled.
        """
        if broker_epoch == NO_EPOCH:  # of a controller from before KIP-380
            return False
        if not of_kraft:
            return broker_epoch < self.controller.broker_epoch
        if self.migration is None:
            raise KafkaError(ErrorCode.UNKNOWN_SERVER_ERROR, "No migration to KRaft is enabled on this broker.")
        return broker_epoch < self.migration.broker_epoch
