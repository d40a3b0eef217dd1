"""SASL mechanisms without I/O, both sides of each, and their configuration."""
