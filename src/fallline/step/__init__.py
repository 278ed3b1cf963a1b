"""Compares implementations of an optimizer's step: which is fastest from which size, and how far from the limit."""
