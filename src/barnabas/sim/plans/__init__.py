"""What is to happen in a run, as values: a plan of actions, how a seed draws one, and what it is widened by."""
