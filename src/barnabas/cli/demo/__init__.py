"""``barnabas demo``: one record's whole life on real input, with brokers killed on the way and an audit at the end."""
