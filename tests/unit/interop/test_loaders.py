"""The accountant for Opacus sees noise and rate; a loader that draws no Poisson samples is called by its name."""

from __future__ import annotations

import importlib
import importlib.util
import sys
import warnings
from collections.abc import Callable, Iterator
from types import ModuleType, SimpleNamespace
from typing import Any

import pytest

import ndis.interop
from ndis.interop.loaders import check, warn_unless_poisson

RULE = r"^data_loader must draw Poisson samples; got {}; no accountant of Opacus speaks about this training run: "


def sampler(name: str, inner: Any = None) -> Any:
    """A stand-in for a sampler of torch or Opacus: the name of its class, and what it wraps. It has no length."""
    made = type(name, (), {"__len__": None, "__iter__": None})()
    if inner is not None:
        made.sampler = inner
    return made


class Loader:
    """A stand-in for a data loader, whose records nobody may look at."""

    def __init__(self, batch_sampler: Any = None, sampler: Any = None) -> None:
        self.batch_sampler, self.sampler = batch_sampler, sampler

    @property
    def dataset(self) -> Any:
        raise AssertionError("records are private")

    def __len__(self) -> int:
        return 20


POISSON = [
    Loader(sampler("UniformWithReplacementSampler")),
    Loader(sampler("DistributedUniformWithReplacementSampler"), sampler("SequentialSampler")),
    Loader(sampler("BatchSplittingSampler", sampler("UniformWithReplacementSampler"))),  # Opacus' memory manager
    Loader(type("Mine", (type(sampler("UniformWithReplacementSampler")),), {})()),  # it draws as its parent does
]
OTHERS = [
    (Loader(sampler("BatchSampler", sampler(name))), name)
    for name in ("RandomSampler", "SequentialSampler", "WeightedRandomSampler")
] + [
    (Loader(sampler("BatchSplittingSampler", sampler("BatchSampler", sampler("RandomSampler")))), "RandomSampler"),
    (Loader(None, sampler("WeightedRandomSampler")), "WeightedRandomSampler"),  # batch_size=None
    (Loader(sampler("Bespoke")), "Bespoke"),
    (Loader(type("Mine", (type(sampler("UniformWithReplacementSampler")),), {"__iter__": None})()), "Mine"),
    (Loader(), "NoneType"),
]


@pytest.mark.parametrize("loader", POISSON)
def test_poisson_samples_pass(loader: Loader) -> None:
    warn_unless_poisson(loader)  # a warning is an error here


@pytest.mark.parametrize(("loader", "name"), OTHERS)
def test_other_samplers_are_named(loader: Loader, name: str) -> None:
    with pytest.warns(UserWarning, match=RULE.format(name)) as caught:
        warn_unless_poisson(loader)
    assert [one.filename for one in caught] == [__file__]


class Engine:
    """A stand-in for `opacus.PrivacyEngine`: it asks for the hook as that one does."""

    def __init__(self, accountant: Any) -> None:
        self.accountant = accountant

    def make_private(self, *, data_loader: Loader, poisson_sampling: bool = True) -> Callable[[Any], None]:
        data_loader = Loader(sampler("UniformWithReplacementSampler")) if poisson_sampling else data_loader
        sample_rate = 1 / len(data_loader)
        hook: Callable[[Any], None] = self.accountant.get_optimizer_hook_fn(sample_rate=sample_rate)
        return hook


class _Accountant:
    """A stand-in for `opacus.accountants.IAccountant`, where Opacus is not installed."""

    def __init__(self) -> None:
        self.history: list[tuple[float, float, int]] = []

    def get_optimizer_hook_fn(self, sample_rate: float) -> Callable[[Any], None]:
        step: Any = self.step  # type: ignore[attr-defined]
        return lambda optim: step(noise_multiplier=optim.noise_multiplier, sample_rate=sample_rate)


@pytest.fixture
def accountant(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """An OpacusAccountant; over a stand-in for its base class if Opacus is not installed."""
    if importlib.util.find_spec("opacus") is not None:
        yield importlib.import_module("ndis.interop.opacus").OpacusAccountant()
        return
    registry: dict[str, Any] = {}
    for name, contents in {
        "opacus": {},
        "opacus.accountants": {"IAccountant": _Accountant, "register_accountant": registry.__setitem__},
        "opacus.accountants.registry": {"_ACCOUNTANTS": registry},
    }.items():
        module = ModuleType(name)
        vars(module).update(contents)
        monkeypatch.setitem(sys.modules, name, module)
    module = importlib.import_module("ndis.interop.opacus")
    yield registry["exact"]()
    del sys.modules["ndis.interop.opacus"], vars(ndis.interop)["opacus"]


def test_the_accountant_looks_at_the_loader_of_the_engine(accountant: Any) -> None:
    mine = Loader(sampler("BatchSampler", sampler("WeightedRandomSampler")))
    hook = Engine(accountant).make_private(data_loader=mine)
    with pytest.warns(UserWarning, match=RULE.format("WeightedRandomSampler")):
        Engine(accountant).make_private(data_loader=mine, poisson_sampling=False)
    hook(SimpleNamespace(noise_multiplier=1.0, accumulated_iterations=1))
    assert accountant.history == [(1.0, 1 / 20, 1)]


def test_what_the_exact_accountant_says_is_proved(accountant: Any) -> None:
    """Its claim is certified, so that the audit of a sound loop does not fail by a last digit."""
    drawn = sampler("UniformWithReplacementSampler")
    drawn.sample_rate, type(drawn).__len__ = 1 / 20, lambda _: 20
    accountant.history = [(1.0, 1 / 20, 100)]

    class Prepared(Loader):
        dataset = range(2000)  # type: ignore[assignment]

    report = check(SimpleNamespace(accountant=accountant), Prepared(drawn))
    assert report.verdict == "sound"
    assert report.claim.epsilon == accountant.get_epsilon(1e-5, certify=True)


def test_an_engine_that_shows_no_loader_gets_its_hook(accountant: Any) -> None:
    hook = accountant.get_optimizer_hook_fn(sample_rate=0.1)
    hook(SimpleNamespace(noise_multiplier=2.0, accumulated_iterations=1))
    assert accountant.history == [(2.0, 0.1, 1)]


@pytest.mark.filterwarnings("ignore")  # Opacus and torch warn as they like
@pytest.mark.parametrize(
    ("weighted", "poisson_sampling", "name"),
    [(False, False, "SequentialSampler"), (True, False, "WeightedRandomSampler"), (True, True, None)],
)
def test_with_opacus_itself(weighted: bool, poisson_sampling: bool, name: str | None) -> None:
    torch: Any = pytest.importorskip("torch")
    opacus: Any = pytest.importorskip("opacus")
    importlib.import_module("ndis.interop.opacus")
    data = torch.utils.data
    records = data.TensorDataset(torch.zeros(40, 2), torch.zeros(40))
    weights = data.WeightedRandomSampler(torch.ones(40), 40) if weighted else None
    model = torch.nn.Linear(2, 1)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        opacus.PrivacyEngine(accountant="exact").make_private(
            module=model,
            optimizer=torch.optim.SGD(model.parameters(), lr=0.1),
            data_loader=data.DataLoader(records, batch_size=4, sampler=weights),
            noise_multiplier=1.0,
            max_grad_norm=1.0,
            poisson_sampling=poisson_sampling,
        )
    ours = [one for one in caught if str(one.message).startswith("data_loader must")]
    assert [str(one.message).split("; ")[1] for one in ours] == ([] if name is None else [f"got {name}"])
    assert all(one.filename == __file__ for one in ours)
