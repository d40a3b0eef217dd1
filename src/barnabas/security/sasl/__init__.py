"""SASL mechanisms without I/O, both sides of each, and the words in which operators write them down."""
