"""Validation metrics that torch does not have."""
