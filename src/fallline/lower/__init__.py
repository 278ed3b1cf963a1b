"""Turns the graph of a rule into something that runs.  No optimizer is known here by name."""
