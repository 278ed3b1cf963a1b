"""The work that several processes do together; ``tests/distributed/worker.py`` runs these in each of them."""
