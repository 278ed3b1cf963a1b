"""The results file of a race: its rows, whether a race may go on with it, how far it is, and its tables for export."""

from fallline.race.clock.calibrated import Calibrated
from fallline.race.results.results_file import Results
from fallline.race.results.schema import SCHEMA
from fallline.race.results.trial_tables import Row

__all__ = ["SCHEMA", "Calibrated", "Results", "Row"]
