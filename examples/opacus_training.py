"""Train a small model with Opacus, and print the exact ε beside the numbers of Opacus' own accountants.

Needs the extra `opacus`: pip install 'ndis[opacus]'. Run: python examples/opacus_training.py
"""

from __future__ import annotations

import warnings

import torch
from opacus import PrivacyEngine
from opacus.accountants import create_accountant
from torch.utils.data import DataLoader, TensorDataset

import ndis.interop.opacus  # registers the accountant "exact"

RECORDS, BATCH, EPOCHS, NOISE, DELTA = 2000, 100, 5, 1.0, 1e-5


def train() -> list[tuple[float, float, int]]:
    """Five epochs of logistic regression on two clouds of points; returns the history of the accountant."""
    torch.manual_seed(0)
    labels = torch.arange(RECORDS) % 2
    points = torch.randn(RECORDS, 4) + 1.5 * labels[:, None]
    loader = DataLoader(TensorDataset(points, labels), batch_size=BATCH)
    model = torch.nn.Linear(4, 2)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.5)
    engine = PrivacyEngine(accountant="exact")
    model, optimizer, loader = engine.make_private(
        module=model, optimizer=optimizer, data_loader=loader, noise_multiplier=NOISE, max_grad_norm=1.0
    )
    loss = torch.nn.CrossEntropyLoss()
    for _ in range(EPOCHS):
        for x, y in loader:
            optimizer.zero_grad()
            loss(model(x), y).backward()
            optimizer.step()
    right = (model(points).argmax(1) == labels).double().mean().item()
    print(f"{len(engine.accountant)} steps, {100 * right:.1f} % right on the training data")
    print(f"ε at δ = {DELTA:g}")
    print(f"  exact (ndis)          {engine.get_epsilon(DELTA):.6f}")
    report = ndis.interop.opacus.check(engine, loader, optimizer=optimizer, batch_size=BATCH, delta=DELTA)
    print(f"  audit of the loop     {report.verdict}")
    print(f"  exact, certified      {engine.accountant.get_epsilon(DELTA, certify=True):.6f}")
    return list(engine.accountant.history)


def main() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # Opacus warns of its pseudo-random noise, and torch of its own hooks
        history = train()
        for name in ("prv", "rdp"):
            accountant = create_accountant(name)
            accountant.history = history
            print(f"  {name} (Opacus)".ljust(24) + f"{accountant.get_epsilon(delta=DELTA):.6f}")


if __name__ == "__main__":
    main()
