"""Measuring: the machine and the speed of its memory, clocks, memory meters, statistics, and the results file."""
