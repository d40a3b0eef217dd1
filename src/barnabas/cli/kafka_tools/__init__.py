"""Apache Kafka's command line tools by their own names, with the flags, the output and the exit codes of Kafka 3.9.

Each tool is one module; `names` lists them, and imports a module when its tool is called. A tool parses its words by
`options` (in Kafka: joptsimple) or `arguments` (argparse4j), and reaches a cluster by `session`.
"""
