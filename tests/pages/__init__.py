"""Pages in a real browser: Debian's chromium, driven by Playwright, with an empty profile and no network.

They are skipped where either is missing; ``make test-pages`` installs both and runs them.
"""
