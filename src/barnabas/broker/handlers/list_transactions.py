"""ListTransactions: the transactional ids that this broker coordinates (KIP-664)."""

from __future__ import annotations

from barnabas.broker.authorize import authorized
from barnabas.broker.context import RequestContext
from barnabas.broker.parts import BrokerParts
from barnabas.model.acl import Operation, ResourceType
from barnabas.wire.messages.list_transactions import ListTransactionsRequest, ListTransactionsResponse


async def handle(
    broker: BrokerParts, request: ListTransactionsRequest, context: RequestContext
) -> ListTransactionsResponse:
    unknown, found = broker.transactions.coordinator.list_transactions(
        request.producer_id_filters, request.state_filters, request.duration_filter
    )
    states = []
    for listing in found:
        if authorized(context, Operation.DESCRIBE, ResourceType.TRANSACTIONAL_ID, listing.transactional_id):
            states.append(
                ListTransactionsResponse.TransactionState(
                    transactional_id=listing.transactional_id,
                    producer_id=listing.producer_id,
                    transaction_state=listing.state,
                )
            )
        if context.due():
            await context.turn()
    return ListTransactionsResponse(unknown_state_filters=unknown, transaction_states=states)
