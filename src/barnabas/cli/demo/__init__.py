"""``barnabas demo``: real records from a producer into Spark, while brokers are killed, and an audit at the end."""
