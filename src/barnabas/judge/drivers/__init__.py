"""Clients in other languages: small programs that `barnabas judge` builds, and speaks to by lines."""
