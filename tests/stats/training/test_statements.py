"""Statements: what holds, what does not, and what the error bar leaves open."""

import math

import pytest
from verify_variance.stats.checks import InputError
from verify_variance.stats.training.arms import ARMS, arm_of
from verify_variance.stats.training.documents import STATEMENTS
from verify_variance.stats.training.finals import BY_HEAD, Table, finals_of
from verify_variance.stats.training.options import TrainOptions
from verify_variance.stats.training.paired import interval
from verify_variance.stats.training.presets import (
    PRESETS,
    RATE,
    RATES,
    TUNING,
    fixed_runs,
    tuned_runs,
    tuning_runs,
)
from verify_variance.stats.training.statements import holds, judge


def run(arm: str, replicate: int, experiment: str = "d_k 64", rate: float = RATE, **values):
    numbers = dict.fromkeys([*BY_HEAD, "accuracy", "largest_rise", "loss_at_third"], 0.3)
    numbers |= {"validation_loss": 2.5, "fall": 2.0}
    return {"experiment": experiment, "arm": arm, "rate": rate, "replicate": replicate} | (
        numbers | values
    )


def table(**of_none) -> Table:
    """Five replicates, in which the unscaled arm has these values, a hundredth apart."""
    runs = []
    for r in range(5):
        near = {name: value * (1 + 0.001 * r) for name, value in of_none.items()}
        runs += [run("sqrt-dk", r), run("none", r, **near)]
    return Table(runs)


def test_an_arm_is_compared_with_the_reference_or_with_the_control():
    losses = {"no-attention": 2.5, "sqrt-dk": 2.1, "none": 2.4}
    found = Table(
        [run(arm, r, validation_loss=x + 0.01 * r) for arm, x in losses.items() for r in range(3)]
    )
    assert found.against("d_k 64", "none", "validation_loss").mean == pytest.approx(0.3)
    control = found.against("d_k 64", "none", "validation_loss", reference="no-attention")
    assert control.mean == pytest.approx(-0.1)
    assert verdict("C13", found) == "refuted"


def verdict(name: str, found: Table) -> str:
    (one,) = [judged for judged in judge(found, STATEMENTS) if judged.statement.id == name]
    return one.verdict


def test_a_run_that_learns_nothing_confirms_that_the_loss_does_not_fall():
    assert verdict("C13", table(fall=0.02)) == "confirmed"
    assert verdict("C13", table(fall=1.9)) == "refuted"


def test_a_difference_within_its_error_is_undecided():
    spread = [run("none", r, validation_loss=2.5 + 0.1 * (-1) ** r) for r in range(5)]
    found = Table([*spread, *(run("sqrt-dk", r) for r in range(5))])
    assert verdict("B19", found) == "undecided"
    assert verdict("B19", table(validation_loss=2.7)) == "confirmed"
    assert verdict("B19", table(validation_loss=2.3)) == "refuted"


def test_all_parts_must_hold():
    assert verdict("B20", table(max_prob=0.9, near_keys=0.9)) == "confirmed"
    assert verdict("B20", table(max_prob=0.9, near_keys=0.1)) == "refuted"


def test_a_replicate_that_was_lost_decides_nothing():
    lost = [run("none", r, fall=None if r == 2 else 0.01) for r in range(5)]
    found = Table([*lost, *(run("sqrt-dk", r) for r in range(5))])
    assert verdict("C13", found) == "undecided"


def test_statements_of_experiments_that_were_not_run_are_left_out():
    ids = {judged.statement.id for judged in judge(table(fall=1.0), STATEMENTS)}
    assert ids == {"A20", "A32", "B19", "B20", "C13"}


def test_the_preset_of_the_documents_speaks_of_every_part_of_every_statement():
    runs = []
    for experiment in PRESETS["documents"]:
        planned = [*tuning_runs(experiment), *fixed_runs(experiment)]
        layers = range(1, experiment.n_layers + 1)
        more = {"logit_std_growth": 0.1} | {f"{n}_{i}": 0.3 for n in BY_HEAD for i in layers}
        for p in planned:
            loss = 2.5 + (p.rate != RATE) + 0.1 * (p.arm == "no-attention")  # fixed is best
            at = (p.arm, p.replicate, p.experiment, p.rate)
            runs.append(run(*at, **more, validation_loss=loss))
    judged = judge(Table(runs), STATEMENTS)
    assert [one.statement.id for one in judged] == [s.id for s in STATEMENTS]
    for one in judged:
        tuned = {"d_k 64"}
        known = [p for p in one.statement.parts if not p.tuned or p.experiment in tuned]
        assert [outcome.part for outcome in one.outcomes] == known


@pytest.mark.parametrize(
    ("values", "low", "high", "answer"),
    [
        ([1.0, 1.01, 1.02], 0.0, 2.0, True),
        ([1.0, 1.01, 1.02], 2.0, math.inf, False),
        ([1.0, 1.01, 1.02], -math.inf, 0.5, False),
        ([0.0, 1.0, 2.0], 0.5, math.inf, None),
    ],
)
def test_a_mean_between_its_bounds_or_not(values, low, high, answer):
    assert holds(interval(values), low, high) is answer


def test_the_best_rate_is_that_of_the_lowest_loss_on_the_replicate_that_is_not_judged():
    tuning = [
        run("none", TUNING, rate=rate, validation_loss=loss)
        for rate, loss in zip(RATES, (2.0, None, 1.0), strict=True)
    ]
    found = Table([*tuning, run("none", 0), run("none", 0, rate=RATES[2], validation_loss=7.0)])
    assert found.best_rate("d_k 64", "none") == RATES[2]
    assert found.values("d_k 64", "none", "validation_loss") == [2.5]
    assert found.values("d_k 64", "none", "validation_loss", tuned=True) == [7.0]
    assert found.best_rate("d_k 64", "dk") == RATE
    with pytest.raises(InputError, match=r"no run of dk in d_k 64 at rate 0\.005; train it first"):
        found.values("d_k 64", "dk", "fall")


def test_runs_at_the_fixed_rate_are_not_planned_twice():
    (wide, *_) = PRESETS["documents"]
    best = dict.fromkeys(wide.arms, RATE) | {"none": RATES[0]}
    assert {r.arm for r in tuned_runs(wide, best)} == {"none"}
    assert {r.replicate for r in tuned_runs(wide, best)} == set(range(wide.replicates))


def test_what_is_left_of_a_log():
    log = {
        "experiment": "e", "arm": "none", "rate": RATE, "replicate": 0, "steps": [0, 10, 30],
        "validation_loss": [5.0, 3.0, 2.0], "training_loss": [None, 3.5, 2.5],
        "accuracy": [0.0, 0.1, 0.2], "lost_steps": 0, "largest_rise": 0.4,
        **{name: [[[1.0, 2.0], [3.0, 4.0]]] * 3 for name in BY_HEAD},
    }  # fmt: skip
    found = finals_of(log)
    assert found["fall"] == 3.0
    assert found["loss_at_third"] == 3.0
    assert (found["entropy"], found["entropy_1"], found["entropy_2"]) == (2.5, 1.5, 3.5)
    assert found["logit_std_growth"] == 2.0
    assert finals_of(log | {"steps": [0, 20, 30]})["loss_at_third"] == 4.0
    assert finals_of(log | {"validation_loss": [5.0, 3.0, None]})["fall"] is None


def test_the_multipliers_of_the_arms():
    expected = {"sqrt-dk": 0.125, "none": 1, "dk": 1 / 64, "constant:10": 0.1,
                "power:0.6": 64**-0.6, "power:0.8": 64**-0.8, "sqrt-dmodel": 128**-0.5,
                "learnable:1": 1, "learnable:sqrt-dk": 0.125, "score-layernorm": 1,
                "v-compensation": 1, "qk-rmsnorm": 0.125, "sd-15": 15 / 8,
                "no-attention": 0.125}  # fmt: skip
    assert {name: arm_of(name, 64, 128).multiplier for name in ARMS} == pytest.approx(expected)
    assert arm_of("v-compensation", 64, 128).value_factor == 0.125


def test_options_say_what_is_wrong():
    for wrong, said in (
        ({"preset": "document"}, "unknown preset 'document'"),
        ({"arms": ("sqrt-dk", "nonne")}, "unknown arm 'nonne'"),
        ({"arms": ("none",)}, "arms must have sqrt-dk, with which all are compared, got none"),
        ({"steps": "2"}, "steps must be"),
        ({"replicates": "1"}, "replicates must be"),
    ):
        with pytest.raises(InputError, match=said):
            TrainOptions(**wrong).experiments()
