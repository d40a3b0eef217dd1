"""Plans: what happens in a run, as a list of timed actions; how a seed draws one, and what it is widened by."""
