"""A step stays a short walk: what docs/architecture.md says of its calls and files is counted here."""

import sys
from pathlib import Path
from types import FrameType

import pytest
import torch

import fallline
from fallline.lower.native.torch_watch import torch_reader

PACKAGE = str(Path(fallline.__file__).parent)
COMPREHENSIONS = ("<listcomp>", "<genexpr>", "<dictcomp>", "<setcomp>")


def calls_of_a_step() -> list[tuple[str, str]]:
    """(file, function) in the order of the calls, those of generated code under the file's name ``<string>``."""
    params = [torch.nn.Parameter(torch.ones(8)) for _ in range(3)]
    for param in params:
        param.grad = torch.ones(8)
    optimizer = fallline.AdamW(params)
    for _ in range(3):
        optimizer.step()
    found = []

    def note(frame: FrameType, event: str, argument: object) -> None:
        file, name = frame.f_code.co_filename, frame.f_code.co_name
        if event == "call" and (file.startswith(PACKAGE) or file == "<string>") and name not in COMPREHENSIONS:
            found.append((file.removeprefix(PACKAGE + "/"), name))

    sys.setprofile(note)
    try:
        optimizer.step()
    finally:
        sys.setprofile(None)
    return found


@pytest.mark.skipif(torch_reader() is None, reason="without C to look at tensors, Python looks at each of them")
def test_a_step_is_at_most_25_calls_over_6_files() -> None:
    calls = calls_of_a_step()
    files = {file for file, _ in calls} - {"<string>"}
    assert 10 < len(calls) <= 25, calls
    assert len(files) <= 6, files
