"""The invariants: watchers judge each state as the run goes, and judges look at the end."""
