"""The clients of a run: producers, consumers, members of groups, administrators and strangers."""
