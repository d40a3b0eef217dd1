"""Authentication and authorization: shared by brokers, the coordinator and clients.

Nothing here opens a socket or reads a clock of its own: SASL mechanisms take bytes and return bytes, stores become TLS
contexts, ACLs return decisions. `barnabas.broker` applies them to connections.
"""
