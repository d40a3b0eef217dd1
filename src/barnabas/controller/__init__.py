"""The ZooKeeper-mode controller: one broker of the cluster decides who leads what, and tells the others.

`controller.KafkaController` is the story; read it first. Events (`events`) wait in one queue (`event_manager`) and are
handled one at a time, so that between two events the picture of the cluster (`context`) always agrees with itself.
Decisions are pure (`election`, `alter_partition`, `batch`); state changes are tables (`partition_state_machine`,
`replica_state_machine`); the controller epoch guards every write, so that a deposed controller's fails; requests to
brokers go through `channels`, to each one at a time.
"""
