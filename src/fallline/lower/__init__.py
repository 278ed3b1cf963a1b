"""From a rule's graph to something that runs.  Knows no optimizer by name."""
