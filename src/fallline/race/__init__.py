"""Races: which optimizer trains a workload fastest, each tuned with the same care, with the same clock."""
