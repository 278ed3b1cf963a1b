"""Ladders: trends, sentences, rungs, and a race on them."""
