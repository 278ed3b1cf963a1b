"""Measuring: what the machine is, how fast its memory is, and what samples can say."""
