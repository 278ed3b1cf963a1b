"""``fallline race``: its options, the race they ask for, its progress."""
