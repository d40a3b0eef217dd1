"""Kafka's znodes under Kafka's names, and how they are read and written."""
