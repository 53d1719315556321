"""The nouns of the product: what is drawn (`Case`) and what should come out (`Reference`)."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field, fields, replace
from functools import lru_cache
from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from .laws.samples import SampleLaw

Kind = Literal["closed form", "quadrature", "bracket", "none"]
HALF = ("float16", "bfloat16")


@dataclass(frozen=True, slots=True)
class Case:
    """What is drawn and how the logit is scaled: pure numbers and names.

    The logit is `factor(scale) * sum_i q_i k_i` over `d_k` elements. Element laws are names of
    `stats.elements.ELEMENTS` with their parameter, such as `student-t:9`; every law has mean 0
    and standard deviation `sigma_*` before `mean_*` is added. With `n_keys` the replicate is one
    query with that many keys, without it one q, k pair. With `logit_std` the logits of a row are
    independent normals of that standard deviation and `d_k` is None.

    With `weights` (`stats.weights.schemes.WEIGHTS`), q = W_Q x and k = W_K y come out of tokens of
    `d_model` elements, and a replicate is one draw of the weights with its tokens (`ensemble`
    weights) or one draw of tokens through one drawn pair of weights (`ensemble` tokens). `pair`
    says whether y is another token than x (off-diagonal) or x itself (diagonal).

    Where `scale` is left out it is the initialisation's own, or none without `weights`; the case
    says which. `transform` takes variants of attention, as names or in one text such as
    `rope+causal`, and holds them in the one order in which they act, however they are written.

    `dtype` is the precision of the elements and of the stored logit. Their products and sums are
    float32 (float64 for float64) and softmax is `dtype`, unless `dtype_products`,
    `dtype_accumulate` and `dtype_softmax` say otherwise; `softmax` is stable (the largest logit is
    subtracted) or naive. `d_v` is there for scales that need it.

    Examples:
        >>> case = Case(d_k=64, scale="sqrt-dk")
        >>> case.cell().scale, case.parameters()
        ('none', {})
        >>> Case(weights="normal:0.02", d_model=768).scale, Case(transform="causal+rope").transform
        ('sqrt-dk', ('rope:1', 'causal'))

    """

    d_k: int | None = 64
    n_keys: int | None = None
    elements_q: str = "normal"
    elements_k: str = "normal"
    sigma_q: float = 1.0
    sigma_k: float = 1.0
    mean_q: float = 0.0
    mean_k: float = 0.0
    correlation: float = 0.0
    logit_std: float | None = None
    scale: str = ""  # never left so
    dtype: str = "float32"
    weights: str | None = None
    d_model: int | None = None
    heads: int | None = None
    tokens: str = "layernorm"
    pair: str = "off-diagonal"
    ensemble: str = "weights"
    d_v: int | None = None
    dtype_products: str | None = None
    dtype_accumulate: str | None = None
    dtype_softmax: str | None = None
    softmax: str = "stable"
    transform: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        if not self.scale:
            object.__setattr__(self, "scale", _own_scale(self.weights))
        if self.transform:
            from .transforms.stacks import canonical_transform

            text = _composed(self.transform)
            object.__setattr__(self, "transform", canonical_transform(text))

    @property
    def rounds(self) -> bool:
        """Whether the logit is rounded to half precision on its way."""
        return not {self.dtype, self.dtype_products, self.dtype_accumulate}.isdisjoint(HALF)

    @property
    def rounds_rows(self) -> bool:
        """Whether softmax rows are made of half-precision numbers, or naively."""
        softmax = self.dtype_softmax or self.dtype
        return self.rounds or softmax in HALF or self.softmax == "naive"

    def cell(self) -> Case:
        """Everything that is drawn: the case without its scale, unless more happens after that."""
        return _cell(self)

    def canonical(self) -> str:
        """Canonical JSON of the fields that differ from their defaults (and `d_k`, always)."""
        shown = {"d_k": self.d_k, **_changed(self)}
        return json.dumps(shown, sort_keys=True, separators=(",", ":"))

    def parameters(self) -> dict[str, object]:
        """Fields away from their default that have no column of their own in a record's row."""
        own_column = {"d_k", "n_keys", "elements_q", "elements_k", "scale", "dtype"}
        own_column |= {"weights", "ensemble", "transform"}
        shown = {name: value for name, value in _changed(self).items() if name not in own_column}
        if self.weights is not None:
            shown |= {"tokens": self.tokens, "pair": self.pair}
        return shown

    @property
    def elements(self) -> str:
        """Both element laws in one word: `normal`, or `uniform x rademacher` where they differ."""
        same = self.elements_q == self.elements_k
        return self.elements_q if same else f"{self.elements_q} x {self.elements_k}"


@lru_cache(maxsize=4096)
def _cell(case: Case) -> Case:
    if case.rounds or case.transform:
        return case
    d_model = None if case.weights is None else case.d_model
    return replace(case, scale="none", d_model=d_model, d_v=None)


def _own_scale(weights: str | None) -> str:
    if weights is None:
        return "none"
    from .weights.schemes import default_scale  # with SciPy, which plain vectors do without

    return default_scale(weights)


def _composed(transform: str | tuple[str, ...]) -> str:
    return transform if isinstance(transform, str) else "+".join(transform)


def _changed(case: Case) -> dict[str, object]:
    defaults = {field.name: field.default for field in fields(case)} | {"scale": "none"}
    values = {name: getattr(case, name) for name in defaults}
    return {name: value for name, value in values.items() if value != defaults[name]}


@dataclass(frozen=True, slots=True)
class Reference:
    """The value that theory gives a quantity, derived without sampling.

    `value` is a number, an interval `(low, high)` for kind `bracket`, or None for kind `none`.
    A gap is judged as `(estimate - value) / unit`. `replicate_sd` is the standard deviation of
    the quantity's influence function over independent replicates, so that the standard error of
    an estimate from N replicates is `replicate_sd / sqrt(N)`; `replicate_skew` is the skewness of
    the same function. Both are None where they are not known exactly, and `replicate_sd` is None
    where it is infinite. `approximation` may be shown beside a row of kind `none` and is never
    compared with. `sample_law` is the law of the estimate itself where it is not that of a mean,
    and `at(draws)` the reference once their number is known, where it depends on it. `rounded`:
    derived without the rounding of half precision, hence judged as an approximation.
    """

    value: float | tuple[float, float] | None
    unit: float
    replicate_sd: float | None
    replicate_skew: float | None
    kind: Kind
    formula: str
    assumptions: str = ""
    approximation: float | None = None
    sample_law: SampleLaw | None = field(default=None, compare=False, repr=False)
    at: Callable[[int], Reference] | None = field(default=None, compare=False, repr=False)
    rounded: bool = False
