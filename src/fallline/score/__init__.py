"""Scores: performance profiles and AlgoPerf's score, with intervals, from races or from AlgoPerf's own logs."""
