"""Run the command `ndis`: parse, call the library, print. Python gives every number in one line too.

The exit status is 0 if all is fine, 1 if a claim is refuted (`ndis audit`), 2 for bad input, and 3 for a number that
cannot be computed to the accuracy promised. It is 70 for a fault of this package, and 130 after an interrupt. One line
on stderr says why.
"""

from __future__ import annotations

import click

from ndis import __version__
from ndis.cli import audit, fits, ledger, release, schema, spectrum, training
from ndis.cli.options import App

__all__ = ["app", "main"]

app = App(
    "ndis",
    help="Exactly how private is an algorithm with Gaussian output?",
    commands=[
        *(spectrum.delta, spectrum.epsilon, spectrum.curve),
        *(release.sketch, fits.regress, fits.logistic, fits.predict, release.describe, release.count),
        *(audit.audit, audit.report, training.audit_training, training.risk),
        *(training.dpsgd, release.calibrate, schema.schema, ledger.ledger),
    ],
)
app = click.version_option(__version__, message="%(prog)s %(version)s")(app)
main = app.main  # run the command of this process
