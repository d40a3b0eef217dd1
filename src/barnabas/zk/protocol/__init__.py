"""What goes over the wire between a client and ZooKeeper: records, operations, frames, errors, who may do what."""
