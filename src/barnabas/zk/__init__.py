"""ZooKeeper, both sides: a client, the embedded coordinator that serves it, and what Kafka keeps there.

`protocol` is what goes over the wire, `client` and `server` speak it and do not see each other, `kafka` is Kafka's tree
on top of the client, `inspection` looks at whole trees.
"""
