"""The wire format between a client and ZooKeeper: records, operations, frames, errors, ACLs."""
