"""Who is speaking, how that is proved, and what they may do: shared by brokers, the coordinator and clients.

Nothing here opens a socket or reads a clock of its own: mechanisms are values that take bytes and give bytes, stores
become TLS contexts, ACLs are asked. `barnabas.broker` puts them on connections.
"""
