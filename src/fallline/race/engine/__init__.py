"""Where trials run: messages between a race and its workers, local processes, a Ray cluster, and the trial itself."""

from fallline.race.engine.interface import ONE_THREAD, Engine
from fallline.race.engine.local import LocalEngine

__all__ = ["ONE_THREAD", "Engine", "LocalEngine"]
