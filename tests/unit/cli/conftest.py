"""A folder in which `ndis audit` works."""

from __future__ import annotations

import sys

import numpy as np
import pytest

MODEL = """
import numpy as np
import ndis

mechanism = ndis.GaussianMechanism.calibrated(epsilon=1.0, delta=1e-6, sensitivity=1.0)

def make():
    return mechanism

def loud(data):
    print("from the algorithm")
    return data.sum(axis=0), np.full(data.shape[1], 0.5)

def quiet(data):
    return data.sum(axis=0), np.full(data.shape[1], 200.0)

def dense(data):
    return np.zeros(data.shape[1]), data.T @ data + 10.0 * np.eye(data.shape[1])

def fit(data):
    features, target = data
    return features.T @ target, 500.0 * np.eye(features.shape[1])

def stopped(data):
    raise KeyboardInterrupt

def raises(data):
    raise ValueError("secret 42")

def raises_later(data):
    if len(data) < 6:
        raise ValueError("secret 42")
    return quiet(data)

def leaves(data):
    raise SystemExit(0)

def one(data):
    return 3.0

def wrong_shapes(data):
    return np.zeros(3), np.eye(2)

def not_a_number(data):
    return np.full(3, np.nan), np.eye(3)

def indefinite(data):
    return np.zeros(2), np.array([[1.0, 2.0], [2.0, 1.0]]) + len(data)

def changes(data):
    return np.zeros(len(data)), np.ones(len(data))

class Holder:
    @staticmethod
    def inside(data):
        return quiet(data)

number = 3
"""


@pytest.fixture
def workplace(tmp_path, monkeypatch):
    """A folder with a module of algorithms and rows in every form."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "dont_write_bytecode", True)
    (tmp_path / "model.py").write_text(MODEL)
    rows = np.random.default_rng(0).normal(size=(6, 3))
    rows /= np.linalg.norm(rows, axis=1, keepdims=True)
    np.save("rows.npy", rows)
    np.savetxt("rows.csv", rows, fmt="%.17g", delimiter=",", header="a,b,c", comments="")
    return tmp_path
