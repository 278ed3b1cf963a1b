"""How a verb ends: 0 done, 1 the run failed, 2 bad input.

Bad input gets one line that says what, where, and what would be right.
"""

from __future__ import annotations

import errno
import sys
from collections.abc import Callable
from typing import Any

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # as a shell reports it


class BadInput(Exception):
    """What the user gave cannot work; the message names it and the remedy."""


def run(app: Callable[..., Any]) -> None:
    """Runs a typer application and leaves the process with the right code."""
    for stream in (sys.stdout, sys.stderr):
        # A terminal that cannot show a sign gets a question mark instead of a traceback.
        getattr(stream, "reconfigure", lambda **_: None)(errors="replace")
    try:
        code = app(standalone_mode=False)
        if code == INTERRUPTED:  # what typer makes of Ctrl-C, without a word
            _leave("interrupted", INTERRUPTED)
        sys.exit(code if isinstance(code, int) else 0)
    except BadInput as error:
        _leave(str(error), BAD_INPUT)
    except KeyboardInterrupt:
        _leave("interrupted", INTERRUPTED)
    except OSError as error:
        # Of whatever file an option names: no system looks one up whose name it cannot hold.
        if error.errno != errno.ENAMETOOLONG:
            raise
        _leave(f"{error.filename}: {error.strerror}; give a shorter one", BAD_INPUT)
    except Exception as error:
        # typer's own errors; which module they live in differs between its releases.
        if type(error).__name__ == "Abort":
            _leave("interrupted", INTERRUPTED)
        if not hasattr(error, "format_message"):
            raise
        _leave(_usage(error), BAD_INPUT)


def _usage(error: Any) -> str:
    message = " ".join(error.format_message().split()).rstrip(".")
    context = getattr(error, "ctx", None)
    return f"{message}; see `{context.command_path} --help`" if context else message


def _leave(message: str, code: int) -> None:
    print(f"fallline: {message}", file=sys.stderr)
    sys.exit(code)
