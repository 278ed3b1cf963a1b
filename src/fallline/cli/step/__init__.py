"""``fallline step``: its options, the plan they ask for, its progress."""
