"""Measurements that need a process of their own; each prints its result as JSON."""
