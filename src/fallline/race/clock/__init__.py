"""The clock of a race: the cost of a step, measured apart from the trials, and seconds from steps."""
