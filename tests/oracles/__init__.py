"""Straight-line float64 oracles: one file per optimizer, written from its published definition."""
