"""A real cluster's znodes, copied into the simulator, where the real controller is tried before the cluster is.

`tree` reads what the controller reads, and nothing secret; `cluster` is the copy: the coordinator, and a controller for
each broker, behind which stands a broker that only answers; `forecast` says what a step changed and what it cost, and
`picture` draws it. docs/rehearse.md has the words for operators.
"""
