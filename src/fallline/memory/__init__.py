"""What an optimizer holds and allocates, in bytes, from the states of its programs; nothing is allocated to know it."""

from fallline.memory.model import Memory, memory_of
from fallline.memory.states import Stored, stored

__all__ = ["Memory", "Stored", "memory_of", "stored"]
