"""The ZooKeeper-mode controller: one broker of the cluster decides who leads what, and tells the others.

`controller.KafkaController` is the story; read it first. Events (`events`) wait in one queue (`event_manager`) and are
handled one at a time, so that between two events the picture of the cluster (`context`) always agrees with itself.
What is decided is pure (`election`, `alter_partition`, `batch`); what moves is a table (`partition_state_machine`,
`replica_state_machine`); what is written is guarded by the controller epoch, so that a deposed controller's write
fails; what is told to brokers goes through `channels`, one request at a time each.
"""
