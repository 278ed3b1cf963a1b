"""Data that workloads read where it is installed, and the formats of its files."""
