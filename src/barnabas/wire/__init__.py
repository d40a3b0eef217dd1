"""Kafka's bytes: message classes, their codecs for every version, frames, record batches. Pure."""
