"""What a run is asked for: option groups as frozen dataclasses, and the cases they spell out."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, fields, replace
from itertools import product
from typing import TYPE_CHECKING, Any, TypeVar

from . import checks
from .case_rules import checked_case, default_scales, left_out, no_head_dimension
from .cases import HALF, Case
from .checks import InputError
from .conventions import parse_scale
from .elements import canonical_elements
from .planning import MAX_ELEMENTS, Rates
from .quantities import QUANTITIES, expand_quantities
from .transforms.stacks import canonical_transform, with_length
from .weights.schemes import canonical_weights

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DEFAULT_N_KEYS = "10"
MOST_SAMPLES = 10**18  # far above what any machine draws in the longest run
DTYPES = ("float32", "float64", "float16", "bfloat16")
SOFTMAXES = ("stable", "naive")


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
        jacobian_frobenius, jacobian_spectral; or a group: logits, softmax, jacobian, all. Besides:
        overflow, broken_rows (inf or nan); law, tails, extremes (the whole distribution of q.k).
    n_keys
        Keys in a softmax row (10 where a row statistic is asked for).
    scale
        What multiplies q.k: none, sqrt-dk, dk, constant:C (divides by C), power:P (by d_k^P),
        sqrt-dmodel, inverse-layer:L, mscale:FACTOR:M, ... (see `verify-variance catalogue`).
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
        The scale is then the initialisation's own, sqrt-dk for most.
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
        Seed of every draw: an integer, or random (it is printed).
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


def requested_rows(options: CaseOptions) -> list[tuple[Case, str]]:
    """Every (case, quantity) that the options spell out, one table row each, in a stated order.

    Outermost to innermost: dtypes, softmax, elements, sigmas, means, correlation, logit_std,
    weights, d_model, heads, tokens, pair, ensemble, transform, n_keys, quantity, scale, d_v, d_k.
    Raises InputError for anything that breaks a rule or comes twice.
    """
    given = options.quantities
    if options.logit_std and not options.weights and options.dk != CaseOptions.dk:
        no_head_dimension(options.dk)
    rows_alone = bool(options.n_keys or options.logit_std)
    quantities = expand_quantities(
        given or (("softmax", "jacobian") if rows_alone else ("variance",))
    )
    rows = [
        (checked_case(case), quantity)
        for base in _bases(options)
        for quantity, case in _expanded(options, base, quantities)
    ]
    unique = dict.fromkeys(rows)  # logit moments do not depend on n_keys, so sweeps repeat them
    if not unique:
        raise InputError("nothing to measure: logit moments need --dk, and --logit-std has none")
    return list(unique)


def _bases(options: CaseOptions) -> Iterator[Case]:
    """Cases without d_k, n_keys and scale: the product of everything else."""
    both = (options.elements, options.sigma)
    for name in ("elements", "sigma"):
        checks.no_duplicates(name, getattr(options, name))
    lists: dict[str, tuple[str | None, ...]] = {
        "dtype": options.dtype,
        **{name: getattr(options, name) or (None,) for name in _PRECISIONS},
        "softmax": options.softmax,
        "elements_q": options.elements_q or both[0],
        "elements_k": options.elements_k or ("=",),
        "sigma_q": options.sigma_q or both[1],
        "sigma_k": options.sigma_k or ("=",),
        "mean_q": options.mean_q,
        "mean_k": options.mean_k,
        "correlation": options.correlation,
        "logit_std": options.logit_std or (None,),
        **_weight_lists(options),
        "transform": options.transform or ("none",),
    }
    if options.elements_q and not options.elements_k:
        lists["elements_k"] = both[0]
    if options.sigma_q and not options.sigma_k:
        lists["sigma_k"] = both[1]
    for name, values in lists.items():
        if not values:
            raise InputError(f"{name.replace('_', '-')} needs at least one value, got none")
        checks.no_duplicates(name, values)
    for values in product(*lists.values()):
        yield _base(dict(zip(lists, values, strict=True)))


def _base(texts: dict[str, str | None]) -> Case:
    def real(name: str) -> float:
        most = checks.MAX_MAGNITUDE
        rule = f"a number from {-most:g} to {most:g}"
        return checks.number(name, texts[name], rule, lambda x: abs(x) <= most)

    if texts["elements_k"] == "=":
        texts["elements_k"] = texts["elements_q"]
    if texts["sigma_k"] == "=":
        texts["sigma_k"] = texts["sigma_q"]
    logit_std = texts["logit_std"]
    return Case(
        d_k=None,
        dtype=checks.choice("dtype", str(texts["dtype"]), DTYPES),
        softmax=checks.choice("softmax", str(texts["softmax"]), SOFTMAXES),
        **{name: _precision(name, texts) for name in _PRECISIONS},
        elements_q=canonical_elements(str(texts["elements_q"])),
        elements_k=canonical_elements(str(texts["elements_k"])),
        sigma_q=checks.magnitude("sigma_q", texts["sigma_q"]),
        sigma_k=checks.magnitude("sigma_k", texts["sigma_k"]),
        mean_q=real("mean_q"),
        mean_k=real("mean_k"),
        correlation=real("correlation"),
        logit_std=None if logit_std is None else checks.magnitude("logit_std", logit_std),
        transform=canonical_transform(str(texts["transform"])),
        **_of_weights(texts),
    )


_PRECISIONS = ("dtype_products", "dtype_accumulate", "dtype_softmax")


def _precision(name: str, texts: dict[str, str | None]) -> Any:
    """A precision of its own, or None where it is what the dtype implies."""
    given, dtype = texts[name], str(texts["dtype"])
    implied = dtype if name == "dtype_softmax" or dtype not in HALF else "float32"
    if given is None or checks.choice(name, given, DTYPES) == implied:
        return None
    return given


_OF_WEIGHTS = ("weights", "d_model", "heads", "tokens", "pair", "ensemble")


def _weight_lists(options: CaseOptions) -> dict[str, tuple[str | None, ...]]:
    """What describes weights and tokens; ranges written out."""
    lists = {name: tuple(map(str, getattr(options, name))) for name in _OF_WEIGHTS}
    if not lists["weights"]:
        for name, values in lists.items():
            if values and not _of_scale(options, name):
                raise InputError(f"{name} needs weights, got {values[0]}; give --weights too")
        return {}
    lists["weights"] = tuple(canonical_weights(text) for text in lists["weights"])
    for name in ("d_model", "heads"):
        if lists[name]:
            numbers = checks.integer_range(name, lists[name], most=checks.MAX_D_K)
            lists[name] = tuple(map(str, numbers))
    return {name: values or (None,) for name, values in lists.items()}


def _of_weights(texts: dict[str, str | None]) -> dict[str, Any]:
    given = {name: text for name in _OF_WEIGHTS if (text := texts.get(name)) is not None}
    return {n: int(text) if n in ("d_model", "heads") else text for n, text in given.items()}


def _expanded(
    options: CaseOptions, base: Case, quantities: tuple[str, ...]
) -> Iterator[tuple[str, Case]]:
    d_ks = checks.integer_range("d_k", options.dk, most=checks.MAX_D_K)
    n_keys = checks.integer_range(
        "n_keys", options.n_keys or (DEFAULT_N_KEYS,), most=checks.MAX_N_KEYS
    )
    checks.no_duplicates("scale", options.scale)
    if options.d_v and not _of_scale(options, "d_v"):
        raise InputError(f"d_v needs --scale sqrt-dv, got {options.d_v[0]}; give that scale too")
    for n, quantity in product(n_keys, quantities):
        of_rows = not QUANTITIES[quantity].of_pairs
        if left_out(base, quantity, quantities):
            continue
        scales = options.scale or default_scales(quantity, base)
        for scale in scales:
            stack = with_length(base.transform, n, of_rows)
            of_row = replace(base, n_keys=n if of_rows else None, scale=scale, transform=stack)
            for case in _sized(options, of_row):
                for d_k in d_ks if base.logit_std is None else (None,):
                    yield quantity, replace(case, d_k=d_k)


def _of_scale(options: CaseOptions, need: str) -> bool:
    """Whether a scale that was asked for needs a dimension."""
    return any(need in parse_scale(scale)[0].needs for scale in options.scale)


def _sized(options: CaseOptions, case: Case) -> Iterator[Case]:
    """The case with each d_model and d_v that its scale needs, and with none that it does not."""
    needs = parse_scale(case.scale)[0].needs
    sizes = {
        name: checks.integer_range(name, given, most=checks.MAX_D_K)
        for name in ("d_model", "d_v")
        if name in needs and (given := getattr(options, name)) and getattr(case, name) is None
    }
    for d_model, d_v in product(*(sizes.get(n, (getattr(case, n),)) for n in ("d_model", "d_v"))):
        yield replace(case, d_model=d_model, d_v=d_v)
