"""``fallline profile``: its options, the plans they ask for, its progress."""
