"""Which contestant to take, and what that may cost: the rule by which a race decides.

``evidence`` turns numbers by study into differences with errors, ``several`` does the same for scores over several
workloads, ``rule`` takes a look at them, ``schedule`` says when, and ``replay`` does so for a whole race.
"""

from fallline.score.decision.evidence import Difference, Evidence, Times
from fallline.score.decision.rule import LEADER, NOBODY, ONE_LEFT, WITHIN, Look, Standing, take_look
from fallline.score.decision.schedule import FIRST_LOOK, LEVEL, looks_up_to, next_studies
from fallline.score.decision.several import Scores

__all__ = [
    "FIRST_LOOK",
    "LEADER",
    "LEVEL",
    "NOBODY",
    "ONE_LEFT",
    "WITHIN",
    "Difference",
    "Evidence",
    "Look",
    "Scores",
    "Standing",
    "Times",
    "looks_up_to",
    "next_studies",
    "take_look",
]
