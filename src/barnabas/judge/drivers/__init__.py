"""Clients in other languages: small programs that `barnabas judge` builds, and controls by lines of text."""
