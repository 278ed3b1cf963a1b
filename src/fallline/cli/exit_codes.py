"""How a verb ends: 0 done, 1 the run failed, 2 bad input.

Bad input gets one line that says what, where, and what would be right.
"""

from __future__ import annotations

import dataclasses
import errno
import sys
from collections.abc import Callable
from typing import Any

FAILED = 1
BAD_INPUT = 2
INTERRUPTED = 130  # as a shell reports it


class BadInput(Exception):
    """The input cannot work; the message names it and the remedy."""


@dataclasses.dataclass(frozen=True)
class failing_with:
    """Turns the errors of a verb's own code into bad input, or into a run that failed, in one line."""

    bad_input: tuple[type[Exception], ...] = ()
    failed: tuple[type[Exception], ...] = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, self.bad_input):
            raise BadInput(str(error)) from None
        if isinstance(error, self.failed):
            _leave(str(error), FAILED)


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
        # Whichever option named the file: no system can look up a name that it cannot hold.
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
