"""Whether a checkpoint is still at its initialisation, and then whether at the declared one.

An element of a matrix that was drawn has the declared standard deviation to within the error of a
sample's; a trained one has not. Where every W_k is as declared (or every W_q), the weights were
never trained, and the other projection is judged by the same test.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass

from ..audit.findings import Finding, decided_finding
from ..cases import Case, Reference
from ..decision import Row, decide
from ..planning import Rates
from ..quantities import Estimate
from .architecture import initial_sds, model_of
from .heads import Layer
from .projections import Attention

FALSE_ALARM = 1e-6  # that any attention of an untrained model is called otherwise than declared
_LOST = 0.01  # weights this much smaller than initialised are no result of training
_ROOM = 0.02  # of a ratio that names a mistake, or 6 of its standard errors


@dataclass(frozen=True, slots=True)
class _Spread:
    """The standard deviation of one matrix's elements, decided against the declared one."""

    attention: Attention
    of: str
    row: Row

    @property
    def ratio(self) -> float:
        """Measured over declared."""
        assert self.row.estimate is not None
        return self.row.estimate.value / self.row.reference.unit

    def is_near(self, ratio: float) -> bool:
        """Whether measured over declared is this, to within the error of the elements."""
        assert self.row.estimate is not None
        room = max(_ROOM, 6 * self.row.estimate.mcse / self.row.estimate.value)
        return abs(math.log(self.ratio / ratio)) < room


def initial_findings(layers: Sequence[Layer]) -> Iterator[Finding]:
    """What the spread of W_q and W_k says about initialisation; nothing where none is declared."""
    spreads = _spreads(layers)
    if not spreads:
        return
    fresh = {of for of in ("q", "k") if all(_agrees(s) for s in spreads if s.of == of)}
    if not fresh:
        yield _trained(spreads)
        return
    for of in ("q", "k"):
        those = [spread for spread in spreads if spread.of == of]
        wrong = [spread for spread in those if spread.row.verdict == "mismatch"]
        for spread in wrong or [max(those, key=lambda spread: abs(spread.ratio - 1))]:
            said, cause = _cause(spread) if wrong else (_at_init(of, fresh), None)
            where = spread.attention.site.path
            yield decided_finding(f"initial W_{of}", where, spread.row, said, cause)


def _at_init(of: str, fresh: Collection[str]) -> str:
    if len(fresh) == 2:
        return "W_q and W_k are spread as they are initialised: nothing of this was trained."
    return f"W_{of} is spread as it is initialised: not trained."


def _agrees(spread: _Spread) -> bool:
    return spread.row.verdict == "match"


def _spreads(layers: Sequence[Layer]) -> list[_Spread]:
    """Both matrices of every attention against what config.json declares."""
    found = []
    rates = Rates(FALSE_ALARM / (2 * len(layers)))
    for layer in layers:
        attention, heads = layer.attention, layer.heads
        sds = initial_sds(attention.config, attention.inputs, attention.heads.d_k)
        if sds is None or not all(head.logit_std > 0 for head in heads):
            return []  # not declared; or broken, which is said elsewhere
        n_kv = attention.heads.n_kv_heads
        keys = heads[:: len(heads) // n_kv]
        for of, sd, values in (
            ("q", sds[0], [head.sd_q for head in heads]),
            ("k", sds[1], [head.sd_k for head in keys]),
        ):
            elements = len(values) * attention.heads.d_k * attention.inputs
            row = _row(sd, values, elements, attention.heads.d_k)
            found.append(_Spread(attention, of, decide([row], rates, samples_only=True)[0]))
    return found


def _row(sd: float, values: Sequence[float], elements: int, d_k: int) -> Row:
    """The standard deviation of normal elements, `sd / sqrt(2 N)` its standard error."""
    pooled = math.sqrt(sum(value**2 for value in values) / len(values))
    reference = Reference(
        *(sd, sd, sd * math.sqrt(0.5), None),
        *("closed form", "the declared standard deviation of an element", "normal elements"),
    )
    estimate = Estimate(elements, pooled, pooled * math.sqrt(0.5))
    return Row(Case(d_k, sigma_q=sd), "std", reference, estimate)


def _trained(spreads: Sequence[_Spread]) -> Finding:
    ratios = [spread.ratio for spread in spreads]
    said = (
        f"W_q and W_k are {min(ratios):.3g} to {max(ratios):.3g} times as spread as they were "
        "initialised: trained weights."
    )
    middle = sorted(ratios)[len(ratios) // 2]
    if middle < _LOST:
        said = said.replace(
            "trained weights", "no training does that, and the logits are all but constant"
        )
    return Finding("spread", "all attentions", "measured", said, None, 1.0, middle)


def _cause(spread: _Spread) -> tuple[str, str]:
    """What a matrix at another initialisation than its fellow's may be."""
    root, ratio = math.sqrt(spread.attention.heads.d_k), spread.ratio
    _, model = model_of(spread.attention.config)
    where = (
        f"{spread.attention.site.path}: W_{spread.of} is {ratio:.4g} times as spread as declared"
    )
    if spread.is_near(1 / root) and spread.attention.factor != 1.0:
        scale = spread.attention.scale
        said = f"{where}, 1/sqrt(d_k): the scale is in its initialisation, and {scale} divides too."
        return said, "scale-twice"
    if spread.is_near(root) and model is not None and model.folded:
        said = f"{where}, sqrt(d_k): the scale that this model type has in W_q is not in it."
        return said, "scale-not-folded"
    return f"{where}, the other matrix as declared: neither trained nor initialised so.", "init-std"
