"""Steps that are no Gaussian pairs live in profiles like pairs do: counted, composed, and written as JSON."""

from __future__ import annotations

import json

import pytest

import ndis
from ndis._groups import StepGroup
from ndis.accountant.laws.mixture_steps import MixtureStep
from ndis.errors import ParameterError

STEP = MixtureStep(1.0, (0.0, 1.0, 2.0), (0.2, 0.6, 0.2))


def test_equal_steps_are_counted() -> None:
    one = ndis.PrivacyProfile(groups=[StepGroup(STEP), StepGroup(MixtureStep(1.0, [0, 1, 2], [0.2, 0.6, 0.2]), 2)])
    assert [group.count for group in one.groups] == [3]
    plain = ndis.PrivacyProfile.from_noise_multiplier(1.0)
    assert [group.count for group in one.compose(plain).repeat(2).groups] == [1, 6]


def test_json_comes_back_in_a_new_format() -> None:
    profile = ndis.PrivacyProfile(groups=[StepGroup(STEP, 3)]).compose(ndis.PrivacyProfile.from_noise_multiplier(2.0))
    text = profile.to_json()
    assert json.loads(text)["format_version"] == 3
    back = ndis.PrivacyProfile.from_json(text)
    assert back.groups[1] == profile.groups[1]
    assert back.to_json() == text
    assert json.loads(ndis.PrivacyProfile.from_noise_multiplier(2.0).to_json())["format_version"] == 2


@pytest.mark.parametrize("change", [{"kind": "other"}, {"noise": 1.0}, {"probabilities": [0.5, 0.5, 0.5]}])
def test_other_json_is_refused(change: dict[str, object]) -> None:
    result = json.loads(ndis.PrivacyProfile(groups=[StepGroup(STEP)]).to_json())
    result["groups"][0]["step"].update(change)
    with pytest.raises(ParameterError):
        ndis.PrivacyProfile.from_json(json.dumps(result))


def test_a_step_is_for_one_relation_between_data_sets() -> None:
    with pytest.raises(ParameterError, match="add-remove"):
        ndis.PrivacyProfile(groups=[StepGroup(STEP)], adjacency="replace-one")


def test_no_pair_is_invented_for_a_step() -> None:
    profile = ndis.PrivacyProfile(groups=[StepGroup(STEP)])
    for attempt in (lambda: profile.remove, lambda: profile.sampling_rate, lambda: profile.subsampled(0.5)):
        with pytest.raises(ParameterError):
            attempt()
