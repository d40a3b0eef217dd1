"""What Kafka keeps in ZooKeeper, under Kafka's names: the znodes, and how they are read and written."""
