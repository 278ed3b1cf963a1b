"""Models whose memory can be asked for: by name, by numbers, from a configuration, or from a workload file."""

from fallline.footprint.trainees.naming import trainee
from fallline.footprint.trainees.trainee import Trainee, Unbuildable

__all__ = ["Trainee", "Unbuildable", "trainee"]
