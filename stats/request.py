"""What a run is asked for: option groups as frozen dataclasses."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, fields
from typing import TYPE_CHECKING, TypeVar

from . import checks
from .checks import InputError
from .planning import MAX_ELEMENTS, Rates

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

MOST_SAMPLES = 10**18  # far above what any machine draws in the longest run


@dataclass(frozen=True)
class CaseOptions:
    """What is drawn and measured; every list makes one row for each of its values.

    Parameters
    ----------
    dk
        Head dimensions d_k: integers, start:stop:xFACTOR or start:stop:+STEP.
    quantities
        What to measure: variance, std, mean, skewness, kurtosis, mean_abs; max_prob, second_prob,
        third_prob, entropy, sum_p2, saturated; jacobian_trace, jacobian_frobenius_sq,
        jacobian_frobenius, jacobian_frobenius_median, jacobian_spectral; or a group: logits,
        softmax, jacobian, all. Besides: overflow, broken_rows (inf or nan); law, tails, extremes
        (the whole distribution of q.k).
    n_keys
        Keys in a softmax row (10 where a row statistic is asked for).
    scale
        What multiplies q.k: none, sqrt-dk, dk, constant:C (divides by C), power:P (by d_k^P),
        sqrt-dmodel, inverse-layer:L, mscale:FACTOR:M, ... (see `verify-variance catalogue`). By
        default the initialisation's own with weights, none without, and sqrt-dk beside none for
        row statistics of drawn q and k.
    elements
        Law of the elements of q and k: normal, uniform, rademacher, laplace, student-t:NU, ...
        (see `verify-variance catalogue`).
    elements_q
        Law of the elements of q, where it differs.
    elements_k
        Law of the elements of k, where it differs.
    sigma
        Standard deviation of the elements of q and k.
    sigma_q
        Standard deviation of the elements of q, where it differs.
    sigma_k
        Standard deviation of the elements of k, where it differs.
    mean_q
        Mean of the elements of q.
    mean_k
        Mean of the elements of k.
    correlation
        Correlation of q_i with k_i (two normal laws only).
    logit_std
        Rows of independent normal logits of this standard deviation, instead of q and k.
    dtype
        Precision of q, k and the stored logit: float32, float64, float16 or bfloat16.
    dtype_products
        Precision of the products q_i k_i, where it is not float32 (float64 for float64).
    dtype_accumulate
        Precision of their running sum, likewise.
    dtype_softmax
        Precision of softmax, where it differs from dtype.
    softmax
        stable (subtracts the largest logit) or naive.
    weights
        Initialisation of W_Q and W_K that q and k come out of: lecun-normal, xavier-uniform,
        torch-linear, normal:0.02, t5, orthogonal, tied:NAME, ... (see `verify-variance catalogue`).
        The scale is then the initialisation's own, sqrt-dk for most, where none is given.
    d_model
        Elements of a token, the fan-in of the weights; scale sqrt-dmodel needs it too.
    d_v
        Elements of a value, for scale sqrt-dv.
    heads
        Heads of a layer, where the fan-out counts them (d_model / d_k where it is not given).
    tokens
        Law of the tokens: layernorm, rmsnorm or normal.
    pair
        Query and key of two tokens (off-diagonal) or of one (diagonal).
    ensemble
        What is fresh in every replicate: weights (and tokens), or tokens through fixed weights.
    transform
        Variants of attention: none, rope, qk-rmsnorm, softcap:C, top-k:K, causal, ... (see
        `verify-variance catalogue`); several at once as rope+softcap:50+causal, in whatever order.

    """

    dk: tuple[str, ...] = ("16", "32", "64", "128")
    quantities: tuple[str, ...] = ()
    n_keys: tuple[str, ...] = ()
    scale: tuple[str, ...] = ()
    elements: tuple[str, ...] = ("normal",)
    elements_q: tuple[str, ...] = ()
    elements_k: tuple[str, ...] = ()
    sigma: tuple[str, ...] = ("1",)
    sigma_q: tuple[str, ...] = ()
    sigma_k: tuple[str, ...] = ()
    mean_q: tuple[str, ...] = ("0",)
    mean_k: tuple[str, ...] = ("0",)
    correlation: tuple[str, ...] = ("0",)
    logit_std: tuple[str, ...] = ()
    dtype: tuple[str, ...] = ("float32",)
    dtype_products: tuple[str, ...] = ()
    dtype_accumulate: tuple[str, ...] = ()
    dtype_softmax: tuple[str, ...] = ()
    softmax: tuple[str, ...] = ("stable",)
    weights: tuple[str, ...] = ()
    d_model: tuple[str, ...] = ()
    d_v: tuple[str, ...] = ()
    heads: tuple[str, ...] = ()
    tokens: tuple[str, ...] = ()
    pair: tuple[str, ...] = ()
    ensemble: tuple[str, ...] = ()
    transform: tuple[str, ...] = ()


@dataclass(frozen=True)
class DecisionOptions:
    """How the verdict is made.

    Parameters
    ----------
    samples
        Draws per cell, such as 10000 or 1e6; without it they are planned from the rates.
    tolerance
        Relative gap that must be called a mismatch: 0.01 for logit moments, 0.02 for rows.
    false_alarm
        Probability that a run calls a mismatch although every theory is exact, whole table.
    power
        Probability that a gap as large as the tolerance is called a mismatch.
    within
        The theory is meant as an approximation: only a gap beyond the tolerance is a mismatch.
    seed
        Seed of every draw: an integer, or random (the summary and the record say which it was).
    max_elements
        Most random elements drawn per cell when the draws are planned.
    until_decided
        Look at the draws as they come, again whenever they have doubled, and stop where every row
        is decided; each look spends a part of both error rates. --samples is then the first look.
    max_samples
        Draws per cell after which --until-decided leaves a row undecided.

    """

    samples: str | None = None
    tolerance: float | None = None
    false_alarm: float = 1e-6
    power: float = 0.999
    within: bool = False
    seed: str = "0"
    max_elements: float = MAX_ELEMENTS
    until_decided: bool = False
    max_samples: str | None = None

    def rates(self) -> Rates:
        """The error rates, checked."""
        return Rates(self.false_alarm, self.power, self.tolerance, self.within)

    def chosen_seed(self) -> int | None:
        """The seed as a number, or None where a random one is asked for."""
        return None if self.seed == "random" else checks.count("seed", self.seed, least=0)

    def draws(self) -> int | None:
        """The draws asked for, or None where they are planned."""
        if self.samples is None:
            return None
        return checks.count("samples", self.samples, least=2, most=MOST_SAMPLES)

    def most_draws(self) -> int | None:
        """The draws per cell that --until-decided may reach, or None where the cap says it."""
        if self.max_samples is None:
            return None
        if not self.until_decided:
            raise InputError(
                f"max-samples needs --until-decided, got {self.max_samples}; give it, or --samples"
            )
        return checks.count("max_samples", self.max_samples, least=2, most=MOST_SAMPLES)

    def element_cap(self) -> float:
        """Most random elements per cell, checked."""
        return checks.positive("max_elements", self.max_elements)


@dataclass(frozen=True)
class DeviceOptions:
    """Where draws happen.

    Parameters
    ----------
    platform
        auto, cpu, gpu or tpu.

    """

    platform: str = "auto"


Options = TypeVar("Options", bound="DataclassInstance")


def options_from(given: dict[str, object]) -> tuple[CaseOptions, DecisionOptions]:
    """Both option groups from keyword arguments; InputError for a name that neither has."""
    names = [{f.name for f in fields(kind)} for kind in (CaseOptions, DecisionOptions)]
    for name in given:
        checks.choice("option", name, sorted(names[0] | names[1]))
    return (
        options_of(CaseOptions, {n: v for n, v in given.items() if n in names[0]}),
        options_of(DecisionOptions, {n: v for n, v in given.items() if n in names[1]}),
    )


def options_of(kind: type[Options], given: dict[str, object]) -> Options:
    """An option group from keyword arguments as a Python caller writes them.

    Examples:
        >>> options_of(CaseOptions, {"dk": [16, 32], "scale": "sqrt-dk"}).dk
        ('16', '32')

    """
    listed = {f.name for f in fields(kind) if str(f.type).startswith("tuple")}
    return kind(**{k: _texts(v) if k in listed else v for k, v in given.items()})


def _texts(value: object) -> tuple[str, ...]:
    if isinstance(value, str) or not isinstance(value, Iterable):
        return (str(value),)
    return tuple(str(item) for item in value)
