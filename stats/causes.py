"""Name the likely cause of a wrong scale from the ratio of measured to expected.

What can go wrong: two causes can have one ratio (1/sqrt(8) is d_model of 8 heads, and sqrt(d_k)
twice at d_k = 8), so that a ratio names candidates, ranked, and never a culprit.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass
from itertools import chain

from .cases import Case
from .checks import InputError
from .conventions import scale_factor
from .scales import mscale

_ROOM = 0.02  # a ratio this close to a candidate's names it; neighbouring candidates differ by more
_EXACT = 1e-4  # room of a factor that was probed, not sampled
COMMON_HEADS = (8, 12, 16, 4, 6, 32, 10, 20, 24, 40, 48, 64, 96, 128)  # the commonest first
PADDINGS = (16, 32, 64, 128, 8)  # kernels round head_dim up to a multiple of these
_LARGEST_WRITTEN = 2**14  # beyond it any number is near 1/sqrt(integer)
TRUNCATED_SD = 0.8796256610342398  # standard deviation of a unit normal cut at +-2


@dataclass(frozen=True, slots=True)
class Cause:
    """A candidate: the ratio it makes, its size in words, and what would have happened."""

    ratio: float
    size: str
    why: str

    def __str__(self) -> str:
        return f"{self.size}: {self.why}?"


def likely_cause(ratio: float, d_k: int | None, scale: str | None = None) -> str:
    """What would make the logits' standard deviation `ratio` times what is expected, or "".

    Examples:
        >>> likely_cause(8.05, 64)
        'sqrt(d_k) = 8 too large: a divisor sqrt(d_k) that is missing?'
        >>> likely_cause(1.4, 64)
        'sqrt(2) = 1.414 too large: a variance counted twice?'
        >>> likely_cause(1.2, 64)
        ''
        >>> likely_cause(12.03, 64, "inverse-layer:11")
        '12 times too large: scale sqrt-dk where inverse-layer:11 was meant?'

    """
    causes = likely_causes(ratio, d_k, scale=scale)
    return str(causes[0]) if causes else ""


def likely_causes(
    ratio: float,
    d_k: int | None,
    *,
    scale: str | None = None,
    n_heads: int | None = None,
    room: float = _ROOM,
) -> list[Cause]:
    """Every known cause within `room` (relative) of a ratio of logit standard deviations.

    Nearest first; of those equally near (within half the room) the commonest first. `scale` is
    the convention that was expected, where it is known; `n_heads` the heads, likewise.

    Examples:
        >>> [cause.why for cause in likely_causes(0.5, 64)]
        ['d_model = 256 (4 heads) where d_k = 64 was meant', "torch MultiheadAttention's packed \
Xavier init of q and k"]

    """
    found = chain(
        _conventions(d_k, scale),
        _scalings(d_k, scale),
        _dimensions(d_k, scale, n_heads),
        _spreads(),
        _paddings(d_k, scale),
        _rare(),
    )
    return _ranked(ratio, [*found], room)


def factor_causes(
    ratio: float, d_k: int, *, scale: str | None = None, n_heads: int | None = None
) -> list[Cause]:
    """Every known cause of a probed factor that is `ratio` times the expected one.

    The factor is exact, so that any whole number of heads can be told, and what only the law of
    q and k could do is left out.

    Examples:
        >>> factor_causes(0.125**0.5, 64, scale="sqrt-dk")[0].why
        'd_model = 512 (8 heads) where d_k = 64 was meant'

    """
    if ratio == 0:
        return [Cause(0.0, "0", "a scale of 0 used literally, or the query not used")]
    if ratio < 0:
        return [Cause(ratio, "of the wrong sign", "a minus sign too many")]
    dimensions = [*_dimensions(d_k, scale, n_heads), *_paddings(d_k, scale)]
    found = [*_scalings(d_k, scale), *dimensions, *_rare()]
    dimension = d_k / ratio**2
    whole = round(dimension)
    if scale == "sqrt-dk" and 1 < whole <= _LARGEST_WRITTEN and whole != d_k:
        why = f"{whole} where d_k = {d_k} was meant"
        if whole > d_k and whole % d_k == 0:
            why = f"d_model = {whole} ({whole // d_k} heads) where d_k = {d_k} was meant"
        symbol = f"sqrt({max(d_k, whole)}/{min(d_k, whole)})"
        found.append(_sized(math.sqrt(d_k / whole), symbol, why))
    distinct = {cause.why: cause for cause in reversed(found)}  # the first of each wording stays
    return _ranked(ratio, [*reversed(distinct.values())], _EXACT)


def written(factor: float) -> str:
    """A factor as people write it: `1/64`, `1/sqrt(512)`, `8`; "" where it is none of these.

    Examples:
        >>> written(0.125), written(512**-0.5), written(0.3)
        ('1/8', '1/sqrt(512)', '')

    """
    if factor <= 0:
        return ""
    for value, form in ((factor, "{}"), (1 / factor, "1/{}"), (factor**-2, "1/sqrt({})")):
        whole = round(value)
        if 1 <= whole <= _LARGEST_WRITTEN and abs(value / whole - 1) < _EXACT / 5:
            return form.format(whole)
    return ""


def _ranked(ratio: float, candidates: list[Cause], room: float) -> list[Cause]:
    near = []
    for rank, cause in enumerate(candidates):
        off = abs(math.log(ratio / cause.ratio)) if ratio > 0 else math.inf
        if off < room:
            near.append((int(2 * off / room), rank, cause))
    return [cause for *_, cause in sorted(near, key=lambda entry: entry[:2])]


def _sized(ratio: float, symbol: str, why: str) -> Cause:
    """A cause whose size is a symbol with its value: `sqrt(d_k) = 8 too large`."""
    size = ratio if ratio > 1 else 1 / ratio
    return Cause(ratio, f"{symbol} = {size:.4g} too {'large' if ratio > 1 else 'small'}", why)


def _scalings(d_k: int | None, scale: str | None) -> Iterator[Cause]:
    """Powers of d_k: a divisor forgotten, doubled, or upside down."""
    if d_k is None or d_k < 2:
        return
    root = math.sqrt(d_k)
    again = {
        "none": "divided by sqrt(d_k) already, where scale none was expected",
        "sqrt-dk": "divided by sqrt(d_k) twice, or by d_k",
    }.get(scale or "", "divided by sqrt(d_k) once more than expected")
    upside_down = "multiplied by sqrt(d_k) where a division was meant"
    yield _sized(root, "sqrt(d_k)", "a divisor sqrt(d_k) that is missing")
    yield _sized(1 / root, "sqrt(d_k)", again)
    yield _sized(float(d_k), "d_k", upside_down)
    yield _sized(1 / d_k, "d_k", "divided by d_k more than expected")
    yield _sized(d_k**0.25, "d_k^(1/4)", "d_k^(-1/4) applied to q or k alone")
    yield _sized(d_k**-1.5, "d_k^(3/2)", "a default scale divided out as d_k, not as d_k^(-1/2)")


def _conventions(d_k: int | None, scale: str | None) -> Iterator[Cause]:
    """A plain convention in place of the one expected, such as a default that stayed."""
    if d_k is None or scale in (None, "none", "sqrt-dk", "dk"):
        return
    with suppress(InputError):  # a scale that needs more than d_k says nothing here
        expected = scale_factor(Case(d_k, scale=scale or "none"))
        for other in ("sqrt-dk", "none", "dk"):
            ratio = scale_factor(Case(d_k, scale=other)) / expected
            size = f"{max(ratio, 1 / ratio):.4g} times too {'large' if ratio > 1 else 'small'}"
            if abs(math.log(ratio)) > _ROOM:
                yield Cause(ratio, size, f"scale {other} where {scale} was meant")


def _dimensions(d_k: int | None, scale: str | None, n_heads: int | None) -> Iterator[Cause]:
    """Another dimension under the root: d_model, of the common numbers of heads."""
    if d_k is None or scale not in (None, "none", "sqrt-dk"):
        return
    already = 1 / math.sqrt(d_k) if scale == "none" else 1.0
    for heads in dict.fromkeys(filter(None, (n_heads, *COMMON_HEADS))):
        size = f"sqrt({heads * d_k})" if scale == "none" else f"sqrt({heads})"
        where = "where none was" if scale == "none" else f"where d_k = {d_k} was"
        why = f"d_model = {heads * d_k} ({heads} heads) {where} meant"
        if heads > 1:
            yield _sized(already / math.sqrt(heads), size, why)


def _paddings(d_k: int | None, scale: str | None) -> Iterator[Cause]:
    """The head dimension as a kernel pads it."""
    if d_k is None or scale not in (None, "sqrt-dk"):
        return
    for padded in dict.fromkeys(-(-d_k // step) * step for step in PADDINGS):
        if padded != d_k:
            why = f"the head dimension padded from {d_k} to {padded}"
            yield _sized(math.sqrt(d_k / padded), f"sqrt({padded}/{d_k})", why)


def _spreads() -> Iterator[Cause]:
    """What the law of q and k can do: a check of logits sees it, a probe of the scale does not."""
    yield _sized(math.sqrt(2), "sqrt(2)", "a variance counted twice")
    yield _sized(1 / math.sqrt(2), "sqrt(2)", "half the variance")
    both = "two normals cut at 2 sigma and not corrected (0.8796^2)"
    yield Cause(TRUNCATED_SD**2, f"{TRUNCATED_SD**2:.4f} of it", both)
    one = "one normal cut at 2 sigma and not corrected"
    yield Cause(TRUNCATED_SD, f"{TRUNCATED_SD:.4f} of it", one)
    yield Cause(0.5, "half of it", "torch MultiheadAttention's packed Xavier init of q and k")
    yield Cause(1 / 3, "a third of it", "torch Linear's default init of q and k")
    yield Cause(2.0, "twice too large", "He init of q and k")


def _rare() -> Iterator[Cause]:
    """Factors that kernels and conventions of particular models leave out or add."""
    yield _sized(math.sqrt(2), "sqrt(2)", "sqrt(2/d_k) where 1/sqrt(d_k) was meant")
    yield _sized(math.log(2), "1/ln(2)", "exp2 without its factor log2(e)")
    yield _sized(1 / math.log(2), "1/ln(2)", "a factor log2(e) too many")
    for m in (1.0, 0.707):  # DeepSeek-V3 and V2: context stretched by 40
        why = f"YaRN's mscale^2 missing ({m} at factor 40)"
        yield _sized(mscale(40, m) ** -2, "mscale^2", why)
