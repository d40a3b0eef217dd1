"""A verdict on any broker that speaks Kafka: what clients saw of it, and whether it kept its promises (docs/judge.md).

`history` is what clients saw: one row for each operation as its client saw it, with three outcomes (ok, failed,
unknown), in one Parquet file. `check` is a pure function from a history to a verdict. `anomalies` names what it looks
for, by Jepsen's and Adya's names, each with its definition and the smallest history that shows it. `lines` writes
histories as text. Nothing here knows how a broker works.
"""
