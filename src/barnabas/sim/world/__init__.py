"""Everything around a broker: virtual time, machines, disks, a network and ZooKeeper, and the trace of what
happened."""
