"""Refusals say what to do."""

import numpy as np
import pytest
from sklearn.gaussian_process.kernels import RBF

import ndis
from ndis.errors import ParameterError
from ndis.learn import PrivateCovariance, PrivateGaussianProcess, PrivateLogisticRegression, PrivateRidge
from ndis.models import BohningLogistic, GaussianProcess

PUBLIC = {"noise_variance": 1.0, "label_bound": 1.0, "max_records": 2, "query": [[0.0]]}


@pytest.mark.parametrize(
    ("action", "said"),
    [
        (
            lambda: ndis.RandomProjection.calibrated(epsilon=1, delta=1e-6, sketch_size=5, row_norm_bound=None),
            r"^row_norm_bound must be a positive number; got None; state what is known .*, and rows beyond it are",
        ),
        (lambda: BohningLogistic(l2_penalty=0.0, row_norm_bound=1.0), r"^l2_penalty must be positive; got 0\.0$"),
        (lambda: ndis.lift(None, epsilon="1", delta=1e-6), r"^epsilon must be a real number; got '1'$"),
        (lambda: ndis.lift(None, epsilon=None, delta=1e-6), r"^epsilon must be a real number; got None$"),
        (lambda: PrivateGaussianProcess(max_records=2).fit([[0.0]], [1.0]), "and labels beyond it are clipped$"),
        (lambda: PrivateRidge(row_norm_bound=1.0).fit([[0.0]], [1.0]), "and targets beyond it are clipped$"),
        (lambda: PrivateCovariance(row_norm_bound=1.0, records=-1).fit([[0.0]]), r"would leak it\)$"),
        (
            lambda: GaussianProcess(kernel=4.0 * RBF(), prior_variance_bound=2.0, **PUBLIC),
            r"^query must hold points of prior variance at most 2\.0; got 4\.0; state a prior_variance_bound",
        ),
        (
            lambda: PrivateLogisticRegression(row_norm_bound=1.0, method="posterior").fit(np.zeros((3, 1)), [0, 1, 2]),
            r"^y must have two classes; got more \(Only binary classification is supported\); [^.]*$",
        ),
    ],
)
def test_refusals_say_what_to_do(action, said):
    with pytest.raises(ParameterError, match=said):
        action()
