"""Every tracker with its real package, on this machine alone; those that are not installed are skipped by name.

``make test-logs`` installs all of them and runs these.
"""
