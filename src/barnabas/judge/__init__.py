"""Judges whether any broker that speaks Kafka's protocol kept its promises, by what its clients saw (docs/judge.md).

A `history` has one row for each operation as its client saw it, with three outcomes (ok, failed, unknown), in one
Parquet file. `check` is a pure function from a history to a verdict. `anomalies` has the anomalies by Jepsen's and
Adya's names, each with its definition and the smallest history that shows it. `lines` writes histories as text. Nothing
here depends on how a broker works.
"""
