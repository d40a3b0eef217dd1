"""What a run is in: virtual time, machines, disks, a network and ZooKeeper, and what happened in it."""
