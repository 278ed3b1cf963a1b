"""Measuring: what the machine is, how fast its memory is, clocks, memory meters, and what samples can say."""
