"""The bytes that an optimizer holds and allocates, computed from the states of its programs without allocating."""

from fallline.memory.model import Memory, memory_of, stored_by
from fallline.memory.states import Stored, stored

__all__ = ["Memory", "Stored", "memory_of", "stored", "stored_by"]
