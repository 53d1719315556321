"""The findings about a checkpoint: what is a defect, and what is only measured.

Defects need no theory of training: elements that are nan or inf, heads whose q or k is zero, heads
that are copies of one another or whose q is their k, a scale that is not the one expected, and in
a checkpoint that is still at its initialisation an initialisation other than the declared one. All
else (spread, alignment, spectrum, predicted logits) is measured: trained weights are nobody's unit
normal, and the sentence says so.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator, Sequence
from statistics import median

from ..audit.findings import Audit, Finding
from ..audit.options import AuditOptions
from ..cases import Case
from ..conventions import scale_factor
from ..decision import Verdict
from .architecture import Declared, initial_sds, model_of, part_of
from .checkpoint import Checkpoint
from .head_statistics import HeadStatistics
from .heads import Layer, read_layer
from .initialisation import initial_findings
from .projections import Attention, attentions

_MOST_SUSPECTS = 5
_EXACT = 1e-9  # of a factor that is arithmetic
_COLUMNS = (
    *("sd_q", "sd_k", "kurtosis_q", "kurtosis_k", "alignment", "top", "stable_rank"),
    *("logit_std", "alone"),
)
_KEYS = 1024  # of a row, where no length is declared
_LENGTHS = ("max_position_embeddings", "n_positions", "n_ctx", "max_seq_len", "seq_length")
WHITE = (
    "Logit std: of a row of logits, in the median head and the largest, predicted for white-noise "
    "tokens (independent, mean 0, variance 1 in every direction) through the norms that are known, "
    "at relative position 0: exact for the matrices, a yardstick for a text. Unit logits are a "
    "claim about initialisation; what training has made of it is measured, not judged. Align: "
    "cosine of W_q and W_k; rank: stable rank of W_q' W_k with the gains of the norms."
)


def audit_checkpoint(checkpoint: Checkpoint, options: AuditOptions) -> Audit:
    """The findings about a checkpoint, read one head at a time.

    Raises InputError for an unknown layout, quantised weights, or a config that does not fit.
    """
    sizes = options.sizes
    declares = bool(model_of(part_of(checkpoint.config, ""))[0])
    given = Declared(
        options.n_heads,
        options.n_kv_heads,
        sizes[0] if len(sizes) == 1 else None,
        None if declares else options.wanted,
    )
    layers = [read_layer(checkpoint, attention) for attention in attentions(checkpoint, given)]
    findings = (
        *_broken(layers),
        *_empty(layers),
        *_copies(layers),
        *_scales(layers, options.wanted),
        *initial_findings(layers),
        *_logits(layers),
        *_suspects(layers),
    )
    return Audit(checkpoint.name, "checkpoint", findings, _facts(layers), options.wanted)


def _facts(layers: Sequence[Layer]) -> dict[str, str]:
    first = layers[0].attention
    heads = sum(len(layer.heads) for layer in layers)
    sizes = sorted({layer.attention.heads.d_k for layer in layers})
    return {
        "model type": model_of(first.config)[0] or "not declared",
        "layout": first.site.layout.models,
        "attentions": f"{len(layers)} with {heads} heads of d_k = {', '.join(map(str, sizes))}",
    }


def _broken(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Elements that are no finite numbers, or so large that no product of them is."""
    bad = False
    for layer in layers:
        broken = sum(head.broken for head in layer.heads)
        huge = [i for i, head in enumerate(layer.heads) if math.isnan(head.logit_std)]
        bad |= bool(broken or huge)
        if broken:
            said = f"{layer.where}: {broken} elements of q or k are nan or inf."
            yield Finding("finite", layer.where, "mismatch", said, "not-finite", 0.0, broken)
        elif huge:
            said = f"{layer.where}: heads {_listed(huge)} have elements beyond 1e60."
            yield Finding("finite", layer.where, "mismatch", said, "overflow", 0.0, len(huge))
    if not bad:
        yield Finding("finite", "all heads", "match", expected=0.0, measured=0.0)


def _empty(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Heads whose every row of logits is constant: q or k is zero whatever the token."""
    bad = False
    for layer in layers:
        empty = [i for i, head in enumerate(layer.heads) if head.logit_std == 0.0]
        if empty:
            bad = True
            said = f"{layer.where}: heads {_listed(empty)} have no logits, q or k is zero: all "
            said += "their weights are 1/n."
            yield Finding("not zero", layer.where, "mismatch", said, "zero", 0.0, len(empty))
    if not bad:
        yield Finding("not zero", "all heads", "match", expected=0.0, measured=0.0)


def _copies(layers: Sequence[Layer]) -> Iterator[Finding]:
    """Heads whose q equals that of another bit by bit, and heads whose q is their k."""
    places = defaultdict(list)
    for layer in layers:
        for i, mark in enumerate(layer.marks):
            if layer.heads[i].alone > 0:
                places[mark].append(f"{layer.where} head {i}")
        tied = [i for i, head in enumerate(layer.heads) if head.same and head.alone > 0]
        if tied:
            said = f"{layer.where}: W_q is W_k in heads {_listed(tied)}: the logits are symmetric, "
            said += "and a token's with itself is the largest."
            yield Finding("q is not k", layer.where, "mismatch", said, "tied", 0.0, len(tied))
    copies = [same for same in places.values() if len(same) > 1]
    for same in copies[:_MOST_SUSPECTS]:
        said = f"{same[0]} has the very W_q of {', '.join(same[1:4])}"
        said += f" and {len(same) - 4} more" if len(same) > 4 else ""
        said += ": was one key used for all their draws?"
        yield Finding("distinct", same[0], "mismatch", said, "copies", 1.0, len(same))
    if not copies:
        yield Finding("distinct", "all heads", "match", expected=1.0, measured=1.0)


def _scales(layers: Sequence[Layer], expected: str | None) -> Iterator[Finding]:
    """The declared scale against the expected one; without either, what is assumed."""
    by_scale: dict[tuple[str, float], list[Layer]] = defaultdict(list)
    for layer in layers:
        by_scale[layer.attention.scale, layer.attention.factor].append(layer)
    for those in by_scale.values():
        where = those[0].where if len(those) == 1 else f"{len(those)} attentions"
        yield _scale(those[0].attention, where, expected)


def _scale(attention: Attention, where: str, expected: str | None) -> Finding:
    kind, known = model_of(attention.config)[0], attention.known
    scale, factor = attention.scale, attention.factor
    place = {"d_k": attention.heads.d_k, "scale": scale}
    said = f"Scale {scale}" + ("" if known else " is assumed")
    if expected is None or not kind:
        if known:
            said += f", as {kind} has it." if kind else ", as given."
        else:
            said += (
                f": that of {kind or 'a model type not declared'} is not known; --expected says "
            )
            said += "another."
        return Finding("scale", where, "measured", said, None, None, factor, None, place)
    wanted = scale_factor(Case(attention.heads.d_k, scale=expected))
    if abs(factor / wanted - 1) <= _EXACT:
        return Finding("scale", where, "match", "", None, wanted, factor, _EXACT, place)
    said += f" by {kind}" if known else f": that of {kind} is not known"
    said += f", where {expected} was expected."
    verdict: Verdict = "mismatch" if known else "undecided"
    return Finding("scale", where, verdict, said, "declared-scale", wanted, factor, _EXACT, place)


def _logits(layers: Sequence[Layer]) -> Iterator[Finding]:
    """What the logits of each attention are predicted to be, beside what its init made them."""
    for i, layer in enumerate(layers):
        attention = layer.attention
        stds = [head.logit_std for head in layer.heads]
        yield Finding(
            "logit std",
            layer.where,
            "measured",
            WHITE if i == 0 else "",
            expected=initial_std(layer),
            measured=median(stds),
            place={
                "d_k": attention.heads.d_k,
                "layer": attention.site.layer,
                "heads": len(stds),
                **_columns(layer.heads),
            },
        )


def _columns(heads: Sequence[HeadStatistics]) -> dict[str, list[float]]:
    return {name: [getattr(head, name) for head in heads] for name in _COLUMNS}


def initial_std(layer: Layer) -> float | None:
    """Standard deviation of the logits when training began, for white tokens.

    `factor inputs sqrt(d_k) sd_q sd_k`; with norms of q and k, whose gains begin at 1,
    `factor sqrt(d_k)`. None where no initialisation is declared.
    """
    attention = layer.attention
    root = attention.factor * math.sqrt(attention.heads.d_k)
    if layer.qk_normed:
        return root
    sds = initial_sds(attention.config, attention.inputs, attention.heads.d_k)
    return None if sds is None else root * attention.inputs * sds[0] * sds[1]


def _suspects(layers: Sequence[Layer]) -> Iterator[Finding]:
    """The heads furthest from where softmax has many keys to choose from, the worst first."""
    ranked = sorted(
        (
            (head.logit_std, i, layer)
            for layer in layers
            for i, head in enumerate(layer.heads)
            if head.logit_std > 0
        ),
        key=lambda entry: -entry[0],
    )
    for std, i, layer in ranked[:_MOST_SUSPECTS]:
        keys = _keys(layer.attention)
        edge = math.sqrt(2 * math.log(keys))
        if std <= edge:
            return
        said = (
            f"{layer.where} head {i}: predicted logits of std {std:.3g}, beyond sqrt(2 ln n) = "
            f"{edge:.3g} at n = {keys}: one key would take a fair share of the weight."
        )
        yield Finding(
            "saturated", f"{layer.where} head {i}", "measured", said, "saturated", edge, std
        )


def _keys(attention: Attention) -> int:
    for name in _LENGTHS:
        value = attention.config.get(name)
        if isinstance(value, int) and value > 1:
            return value
    return _KEYS


def _listed(heads: Sequence[int]) -> str:
    shown = ", ".join(map(str, heads[:8]))
    return f"{shown} and {len(heads) - 8} more" if len(heads) > 8 else shown
