"""What the options spell out: order, defaults, repeats, and one line for each bad value."""

from dataclasses import replace

import pytest
from verify_variance.stats.case_rules import checked_case, default_scales
from verify_variance.stats.cases import Case
from verify_variance.stats.checks import InputError
from verify_variance.stats.planning import Rates
from verify_variance.stats.quantities import GROUPS
from verify_variance.stats.request import CaseOptions, DecisionOptions, options_from
from verify_variance.stats.requested import requested_rows
from verify_variance.stats.run import Run


def rows(**given):
    cases, _ = options_from(given)
    return requested_rows(cases)


def test_the_default_table():
    assert rows() == [(Case(d_k=d), "variance") for d in (16, 32, 64, 128)]
    assert requested_rows(CaseOptions()) == rows()


def test_order_from_the_outside_in():
    got = rows(
        dk=[8, 16], quantities=["std", "mean"], scale=["none", "dk"], elements=["normal", "uniform"]
    )
    assert [(c.elements_q, q, c.scale, c.d_k) for c, q in got] == [
        (elements, quantity, scale, d_k)
        for elements in ("normal", "uniform")
        for quantity in ("std", "mean")
        for scale in ("none", "dk")
        for d_k in (8, 16)
    ]
    outer = rows(
        dk=8, quantities="entropy", n_keys=[2, 3], dtype=["float64", "float32"], scale="dk"
    )
    assert [(c.dtype, c.n_keys) for c, _ in outer] == [
        ("float64", 2), ("float64", 3), ("float32", 2), ("float32", 3),
    ]  # fmt: skip


def test_ranges_of_head_dimensions():
    assert [c.d_k for c, _ in rows(dk="16:128:x2")] == [16, 32, 64, 128]
    assert [c.d_k for c, _ in rows(dk=["8:24:+8", "1e2"])] == [8, 16, 24, 100]


def test_keys_without_quantities_ask_for_rows_and_their_jacobian():
    got = rows(dk=64, n_keys=5)
    assert list(dict.fromkeys(q for _, q in got)) == [*GROUPS["softmax"], *GROUPS["jacobian"]]
    assert {c.n_keys for c, _ in got} == {5}
    assert [c.scale for c, q in got if q == "entropy"] == ["none", "sqrt-dk"]


def test_row_statistics_have_ten_keys_by_default():
    assert {c.n_keys for c, _ in rows(quantities="entropy")} == {10}


def test_given_logits_have_no_head_dimension():
    got = rows(logit_std=[1, 2.5])
    assert list(dict.fromkeys(q for _, q in got)) == [*GROUPS["softmax"], *GROUPS["jacobian"]]
    assert {(c.d_k, c.n_keys, c.scale) for c, _ in got} == {(None, 10, "none")}
    assert list(dict.fromkeys(c.logit_std for c, _ in got)) == [1.0, 2.5]
    assert len(got) == 2 * len(dict.fromkeys(q for _, q in got))


def test_given_logits_with_all_quantities_leave_the_moments_out():
    assert not {q for _, q in rows(logit_std=1, quantities="all")} & set(GROUPS["logits"])


def test_default_scales():
    assert default_scales("variance", Case()) == ("none",)
    assert default_scales("entropy", Case(n_keys=4)) == ("none", "sqrt-dk")
    assert default_scales("entropy", Case(d_k=None, logit_std=1.0)) == ("none",)


def test_a_case_has_the_scale_of_its_initialisation_as_the_options_have():
    for weights, scale in (("normal:0.02", "sqrt-dk"), ("t5", "none")):
        case = Case(d_k=64, weights=weights, d_model=768)
        assert case.scale == scale
        assert rows(dk=64, weights=weights, d_model=768, quantities="std") == [(case, "std")]
    plain = Case(d_k=64, weights="normal:0.02", d_model=768, scale="none")
    assert (plain.scale, replace(case, weights="normal:0.02").scale) == ("none", "none")
    assert '"scale"' not in plain.canonical()


def test_transforms_of_a_case_are_named_in_any_form_and_order():
    listed = ("rope:1", "softcap:50", "causal")
    for written in ("causal+rope+softcap:50", ("causal", "softcap:50.0", "rope"), listed):
        assert Case(transform=written).transform == listed
    assert Case(transform="qk-rmsnorm").transform == ("qk-rmsnorm",)
    assert Case(transform="none") == Case()


def test_logit_moments_do_not_repeat_for_each_number_of_keys():
    assert rows(dk=8, n_keys=[2, 3], quantities="std") == [(Case(d_k=8), "std")]


def test_sides_that_differ():
    case, _ = rows(dk=8, elements="uniform", elements_q="laplace", sigma=2, sigma_k=3)[0]
    assert (case.elements_q, case.elements_k) == ("laplace", "uniform")
    assert (case.sigma_q, case.sigma_k) == (2.0, 3.0)
    both = rows(dk=8, sigma=[1, 2])
    assert [(c.sigma_q, c.sigma_k) for c, _ in both] == [(1.0, 1.0), (2.0, 2.0)]
    one = rows(dk=8, sigma_q=[1, 2])
    assert [(c.sigma_q, c.sigma_k) for c, _ in one] == [(1.0, 1.0), (2.0, 1.0)]


def test_laws_are_spelt_in_one_way():
    assert rows(dk=8, elements="student-t:9.0")[0][0].elements_q == "student-t:9"


def test_decision_options():
    _, decision = options_from({"samples": "1e6", "tolerance": "0.02", "seed": 7})
    assert decision.draws() == 10**6
    assert decision.rates() == Rates(tolerance=0.02)
    assert decision.chosen_seed() == 7
    assert DecisionOptions().draws() is None
    assert DecisionOptions().chosen_seed() == 0
    assert DecisionOptions(seed="random").chosen_seed() is None
    assert DecisionOptions(max_elements="1e6").element_cap() == 1e6  # type: ignore[arg-type]


SPHERE = Case(elements_q="sphere", mean_q=1.0)

BAD = [
    (lambda: rows(dks=8), "unknown option 'dks'; did you mean dk? known: "),
    (lambda: rows(dk=0), "d_k must be a positive integer, got 0"),
    (lambda: rows(dk=2.5), "d_k must be a positive integer, got 2.5"),
    (lambda: rows(dk=[]), "d_k needs at least one value, got none; for example 16 32 64 128"),
    (lambda: rows(dk=[8, 8]), "d_k lists 8 twice; give each value once"),
    (lambda: rows(dk=2**21), "d_k must be at most 1048576, got 2097152"),
    (lambda: rows(n_keys=0), "n_keys must be a positive integer, got 0"),
    (lambda: rows(n_keys=10**7), "n_keys must be at most 1000000, got 10000000"),
    (lambda: rows(quantities="varience"), "unknown quantity 'varience'; did you mean variance?"),
    (lambda: rows(quantities=["std", "std"]), "quantities lists std twice; give each value once"),
    (lambda: rows(scale="sqrtdk"), "unknown scale 'sqrtdk'; did you mean sqrt-dk or sqrt-dv? "),
    (lambda: rows(scale="sqrt-dmodel"), "scale sqrt-dmodel needs d_model, which"),
    (lambda: rows(d_model=512), "d_model needs weights, got 512; give --weights too"),
    (lambda: rows(d_v=5), "d_v needs --scale sqrt-dv, got 5; give that scale too"),
    (lambda: rows(scale="sqrt-dv", d_v=[5, 5]), "d_v lists 5 twice"),
    (lambda: rows(dtype_accumulate="float8"), "unknown dtype_accumulate 'float8'; "),
    (
        lambda: rows(dtype="float16", dtype_softmax="float64"),
        "dtype_softmax must be float64 if dtype is, and only then, got float64 with float16; ",
    ),
    (lambda: rows(softmax="fast"), "unknown softmax 'fast'; known: stable, naive"),
    (
        lambda: rows(dtype="float16", elements="sphere"),
        "dtype must be float32 or float64 for elements sphere, got float16; ",
    ),
    (
        lambda: rows(dtype="float16", weights="lecun-normal", d_model=64),
        "weights take products and sums in float32 or float64, got dtype float16; ",
    ),
    (
        lambda: rows(logit_std=1, dtype_products="float16"),
        "dtype_products must be left out with logit_std, got float16; drop --dtype-products",
    ),
    (lambda: rows(scale=["dk", "dk"]), "scale lists dk twice; give each value once"),
    (lambda: rows(scale="dk:2"), "scale dk takes no parameter, got 'dk:2'; write dk"),
    (lambda: rows(elements="gaussian"), "unknown elements 'gaussian'; "),
    (lambda: rows(elements=["normal", "normal"]), "elements lists normal twice"),
    (lambda: rows(elements="student-t:2"), "nu of student-t must be a number above 2"),
    (lambda: rows(elements=[]), "elements-q needs at least one value, got none"),
    (lambda: rows(sigma=0), "sigma_q must be a positive number, got 0"),
    (lambda: rows(sigma_k=-1), "sigma_k must be a positive number, got -1"),
    (lambda: rows(sigma="1e99"), "sigma_q must be from 1e-09 to 1e+09, got 1e99; rescale"),
    (lambda: rows(mean_q="nan"), "mean_q must be a number from -1e+09 to 1e+09, got nan"),
    (lambda: rows(mean_k="far"), "mean_k must be a number from -1e+09 to 1e+09, got 'far'"),
    (lambda: rows(dtype="float61"), "unknown dtype 'float61'; did you mean float"),
    (lambda: rows(correlation=2), "correlation must be between -1 and 1, got 2.0"),
    (
        lambda: rows(correlation=0.5, elements="uniform"),
        "correlation needs normal elements for both q and k, got uniform; drop --correlation or "
        "use --elements normal",
    ),
    (
        lambda: rows(correlation=0.5, n_keys=3),
        "correlation is between one q and one k, and a row has many keys; drop --correlation or "
        "ask for logit moments",
    ),
    (lambda: checked_case(SPHERE), "mean_q must be 0 for elements sphere, got 1.0; "),
    (lambda: rows(logit_std=0), "logit_std must be a positive number, got 0"),
    (
        lambda: rows(logit_std=1, scale="sqrt-dk"),
        "scale sqrt-dk needs d_k, which this case has not; use --scale none or constant:C",
    ),
    (
        lambda: rows(logit_std=1, elements="uniform"),
        "elements_q must be left out with logit_std, got uniform; drop --logit-std, or what "
        "describes q and k",
    ),
    (lambda: rows(logit_std=1, sigma=2), "sigma_q must be left out with logit_std, got 2.0; "),
    (lambda: rows(logit_std=1, mean_k=2), "mean_k must be left out with logit_std, got 2.0; "),
    (
        lambda: rows(logit_std=1, quantities="std"),
        "nothing to measure: logit moments need --dk, and --logit-std has none",
    ),
    (lambda: DecisionOptions(samples="1").draws(), "samples must be an integer of at least 2"),
    (lambda: DecisionOptions(samples="1e99").draws(), "samples must be at most 1"),
    (lambda: DecisionOptions(seed="-1").chosen_seed(), "seed must be an integer of at least 0"),
    (lambda: DecisionOptions(seed="x").chosen_seed(), "seed must be an integer of at least 0"),
    (
        lambda: DecisionOptions(max_elements=float("nan")).element_cap(),
        "max_elements must be a positive number, got nan",
    ),
    (
        lambda: DecisionOptions(tolerance=0.0).rates(),
        "tolerance must be a positive number, got 0.0",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("bad", "message"), BAD, ids=[message[:50] for _, message in BAD])
def test_a_bad_option_is_one_line(bad, message):
    with pytest.raises(InputError) as caught:
        bad()
    assert str(caught.value).startswith(message)
    assert "\n" not in str(caught.value)


def test_dimensions_of_a_scale_are_of_its_cases_alone():
    got = rows(dk=64, scale=["sqrt-dmodel", "sqrt-dv", "dk"], d_model=[256, 512], d_v=32)
    assert [(case.scale, case.d_model, case.d_v) for case, _ in got] == [
        ("sqrt-dmodel", 256, None),
        ("sqrt-dmodel", 512, None),
        ("sqrt-dv", None, 32),
        ("dk", None, None),
    ]
    assert {case.cell() for case, _ in got} == {Case(d_k=64)}


def test_a_precision_that_is_implied_is_not_named():
    implied = rows(dtype="float16", dtype_products="float32", dtype_softmax="float16", dk=8)
    assert implied == rows(dtype="float16", dk=8) == [(Case(d_k=8, dtype="float16"), "variance")]
    own = rows(dtype="float16", dtype_accumulate="float16", dk=8)
    assert own == [(Case(d_k=8, dtype="float16", dtype_accumulate="float16"), "variance")]


def test_a_cell_that_rounds_keeps_its_scale():
    first, second = (
        case for case, _ in rows(dk=8, scale=["sqrt-dk", "query-only"], dtype="float16")
    )
    assert first.cell() != second.cell()
    assert first.cell().scale == "sqrt-dk"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"transform": ("gqa:8",), "quantities": ("entropy", "kurtosis")}, "no mean over a group"),
        ({"elements": ("student-t:3",), "quantities": ("std", "skewness")}, "skewness is infinite"),
        ({"dtype": ("float16",), "quantities": ("std", "law")}, "logits that are not rounded"),
    ],
)
def test_a_quantity_without_a_reference_is_refused_before_any_is_computed(given, message):
    """What the rows are is cheap to say: the others would take seconds before the refusal."""
    with pytest.raises(InputError, match=message):
        rows(**given)


def test_a_verdict_that_cannot_be_comes_before_any_reference(monkeypatch):
    monkeypatch.setattr("verify_variance.stats.run.predict", lambda *_: pytest.fail("computed"))
    asked = CaseOptions(elements=("student-t:9",), quantities=("std", "skewness"))
    with pytest.raises(InputError, match="moments of order 12"):
        Run.planned(asked, DecisionOptions())
