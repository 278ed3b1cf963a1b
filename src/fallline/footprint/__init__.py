"""The memory that a whole training needs, and what would make it fit.

``trainees/`` (the model) → ``trace`` (one iteration on tensors without memory) → ``prediction`` (bytes
by category, those of the optimizer from :mod:`fallline.memory`) → ``caching_allocator`` (fragmentation) → ``devices``
(verdicts) → ``remedies`` → ``document``. ``question`` does all of it in order, and ``measuring`` trains for real.
"""

from fallline.footprint.prediction import Prediction, Predictor, predicted, predicted_peak
from fallline.footprint.setting import Setting

__all__ = ["Prediction", "Predictor", "Setting", "predicted", "predicted_peak"]
