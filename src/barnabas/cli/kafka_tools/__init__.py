"""Apache Kafka's command line tools by their own names, with the flags, the output and the exit codes of Kafka 3.9.

One module a tool; `names` says which, and imports none of them before it is called. What a tool reads from its words
goes through `options` (Kafka's joptsimple) or `arguments` (its argparse4j), what it asks a cluster through `session`.
"""
