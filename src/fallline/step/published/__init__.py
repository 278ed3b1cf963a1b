"""The two published comparisons: their tables as printed, the same on this machine, and what became of their claims."""
