"""The way from connections to handlers: what all connections of a broker share (Kafka's ``RequestChannel``)."""

from __future__ import annotations

from barnabas.broker.connections import Connections
from barnabas.broker.long_requests import LongRequests
from barnabas.broker.parts import BrokerParts
from barnabas.broker.quotas import Quotas
from barnabas.broker.request_memory import RequestMemory
from barnabas.broker.request_metrics import RequestMetrics
from barnabas.broker.router import Router
from barnabas.broker.this_node import ThisNode
from barnabas.broker.unsent_answers import UnsentAnswers
from barnabas.security.authorizer import Authorizer


class RequestChannel:
    """`parts` are what handlers get; they are set before `Connections.serve` lets the first request be read."""

    __slots__ = (
        *("authorizer", "connections", "long_requests", "memory", "node", "parts", "quotas", "requests", "router"),
        "unsent_answers",
    )

    parts: BrokerParts

    def __init__(
        self,
        node: ThisNode,
        connections: Connections,
        *,
        authorizer: Authorizer,
        quotas: Quotas,
        memory: RequestMemory,
        requests: RequestMetrics,
        unsent_answers: UnsentAnswers,
    ) -> None:
        self.node = node
        self.connections = connections
        self.authorizer = authorizer
        self.quotas = quotas
        self.memory = memory
        self.requests = requests
        self.unsent_answers = unsent_answers
        self.router = Router()
        self.long_requests = LongRequests()
