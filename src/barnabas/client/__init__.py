"""Speaking to a broker: the sans-IO exchange, an asyncio and a blocking connection, and what is built on them."""
