"""One partition's log on disk in Kafka's own files, and the broker's log directories that hold such logs."""
