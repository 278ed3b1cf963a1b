"""``python -m fallline`` is the command ``fallline``."""

from fallline.cli import main

main()
