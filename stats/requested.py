"""The rows that the options of a case spell out: their product, in a stated order."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from typing import Any

from . import checks
from .case_rules import checked_case, default_scales, left_out, no_head_dimension
from .cases import HALF, Case
from .checks import InputError
from .conventions import parse_scale
from .elements import canonical_elements
from .quantities import QUANTITIES, expand_quantities
from .quantity_rules import check_asked
from .request import CaseOptions
from .transforms.stacks import canonical_transform, with_length
from .weights.schemes import canonical_weights

DEFAULT_N_KEYS = "10"
DTYPES = ("float32", "float64", "float16", "bfloat16")
SOFTMAXES = ("stable", "naive")


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
        (_checked(case, quantity), quantity)
        for base in _bases(options)
        for quantity, case in _expanded(options, base, quantities)
    ]
    unique = dict.fromkeys(rows)  # logit moments do not depend on n_keys, so sweeps repeat them
    if not unique:
        raise InputError("nothing to measure: logit moments need --dk, and --logit-std has none")
    return list(unique)


def _checked(case: Case, quantity: str) -> Case:
    """The case, if its parts go together and it has the quantity."""
    check_asked(checked_case(case), quantity)
    return case


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
