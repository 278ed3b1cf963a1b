"""How states and parameters are stored: low-bit blocks and stochastically rounded 16-bit floats.

These modules are the reference, in torch operations on any device. ``native/formats.h`` computes the same bits
in C++.
"""

from fallline.formats.blockwise import FORMATS, MIN_ELEMENTS, BlockFormat, applies, block_format
from fallline.formats.rounding import rounding_key, stochastic_round

__all__ = [
    "FORMATS",
    "MIN_ELEMENTS",
    "BlockFormat",
    "applies",
    "block_format",
    "rounding_key",
    "stochastic_round",
]
