"""Two published comparisons: their tables as printed, the same on this machine, and answers to their claims."""
