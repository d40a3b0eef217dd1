"""ZooKeeper, both sides: a client, the embedded coordinator that serves it, and what Kafka keeps there.

`protocol` is the wire format; `client` and `server` use it and do not see each other; `kafka` has Kafka's znodes on top
of the client; `inspection` reads, checks and moves whole trees.
"""
