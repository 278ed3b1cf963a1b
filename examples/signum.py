"""The smallest optimizer of one's own.  Try: fallline race examples/sine.py -o adamw -o examples/signum.py:Signum"""

import fallline
from fallline.rules import rule, sign


@rule
def signum(p, g, m, *, lr, beta):
    m = beta * m + (1 - beta) * g
    return p - lr * sign(m), m


Signum = fallline.optimizer(signum, lr=1e-3, beta=0.9)
