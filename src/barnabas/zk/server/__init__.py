"""The embedded coordinator: a ZooKeeper-compatible server with a write-ahead log."""
