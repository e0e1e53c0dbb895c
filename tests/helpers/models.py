"""Models for lifted mechanisms."""

import math

import ndis
from ndis.worst_case.envelopes import RankOneEnvelope


def mean_of(law):
    """A lifted mechanism whose model has this law."""

    class Model:
        def distribution(self, data):
            return law(data)

        def sensitivity(self, noise_variance):
            return RankOneEnvelope(shift_bound=0.01 / math.sqrt(noise_variance), ratio_bound=0.0)

    return ndis.lift(Model(), epsilon=1.0, delta=1e-5)
