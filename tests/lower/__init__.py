"""Lowerings behind their interface, and executors that have a part of the elements."""
