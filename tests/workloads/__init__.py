"""Workloads: the contract, the metrics, the data and the targets."""
