"""What an attention makes of its weights: their sums, the values, and which axis they run over."""

from __future__ import annotations

import numpy as np

from ...stats.audit.findings import Finding, judged
from ...stats.decision import Verdict
from .black_box import Array
from .compared import compared
from .seen_logits import SeenLogits, seen_in_range
from .subject import Subject

_WRONG_AXIS = {
    "softmax-over-queries": "The weights of each key sum to 1 over the queries: the softmax runs "
    "over the wrong axis.",
    "softmax-over-heads": "The weights of each pair sum to 1 over the heads: the softmax runs over "
    "the wrong axis.",
    "softmax-over-batch": "Every weight is 1: the softmax runs over the batch, of length 1.",
}


def wrong_axis(subject: Subject) -> Finding | None:
    """The finding of a softmax that runs over an axis other than that of the keys."""
    q, k = subject.draw(subject.d_k)
    weights = subject.box.weights(q, k)[0]
    tolerance = 10 * subject.rtol
    if _near_one(weights.sum(-1), tolerance):
        return None
    sums = {
        "softmax-over-batch": weights,
        "softmax-over-queries": weights.sum(-2),
        "softmax-over-heads": weights.sum(0) if len(weights) > 1 else np.zeros(1),
    }
    for slug, total in sums.items():
        if _near_one(total, tolerance):
            mean = float(weights.sum(-1).mean())
            return Finding("axis", "", "mismatch", _WRONG_AXIS[slug], slug, 1.0, mean, tolerance)
    return None


def _near_one(x: Array, tolerance: float) -> bool:
    return bool((np.abs(x - 1) <= tolerance).all())


def row_sums(subject: Subject) -> Finding:
    """Whether weights sum to 1; a sink, keys of padding and a scaled output are told apart.

    Rows without any key, of zeros or nan, are reported and not judged: conventions differ.
    """
    q, k = subject.draw(subject.d_k)
    seen = seen_in_range(subject.box, q, k)
    weights = subject.box.weights(seen.q, k)[0]
    mass, tolerance = weights.sum(-1), 10 * subject.rtol
    empty = ~np.isfinite(mass) | (weights == 0).all(-1)
    mass = mass[~empty]
    mean = float(mass.mean())

    def found(verdict: Verdict, said: str = "", cause: str | None = None) -> Finding:
        where = f"{k.shape[1]} keys"
        return Finding("row sums", where, verdict, said, cause, 1.0, mean, tolerance)

    if _near_one(mass, tolerance):
        said = f"{int(empty.sum())} rows without any key are 0 or nan; conventions differ."
        return found("match", said if empty.any() else "")
    if np.ptp(mass) <= tolerance * mean:
        said = f"Every row sums to {mean:.6g}: the output is multiplied by it."
        return found("mismatch", said, "output-scaled")
    if (mass < 1).all() and (odds := _sink_odds(subject, seen)) is not None:
        return found(*_missing(odds))
    said = "The weights of a row do not sum to 1, by amounts that no sink explains."
    return found("mismatch", said, "row-sums")


_SINK_ALLOWED = 1e-3  # of the odds of a key against a sink


def _sink_odds(subject: Subject, seen: SeenLogits) -> Array | None:
    """exp(bias - sink) of each key (head, query, key); None where no sink explains what is missing.

    The odds of a key against a sink are exp(l + bias - s) with l odd in q, so that those for q
    times those for -q are exp(2 (bias - s)), whatever q is.
    """
    products = []
    for q in (seen.q, seen.q[:, ::-1]):
        plus, minus = (subject.box.weights(sign * q, seen.k)[0] for sign in (1, -1))
        odds = [p / (1 - p.sum(-1, keepdims=True)) for p in (plus, minus)]
        seen_both = (plus > 1e-4) & (minus > 1e-4)
        products.append(np.where(seen_both, np.sqrt(odds[0] * odds[1]), np.nan))
    ratio = products[0] / products[1]
    ratio = ratio[np.isfinite(ratio)]
    allowed = max(_SINK_ALLOWED, 10 * subject.rtol)
    if not ratio.size or np.abs(ratio - 1).max() > allowed:
        return None
    return products[0]


def _missing(odds: Array) -> tuple[Verdict, str, str]:
    """What the odds of keys against keys that are not there stand for."""
    rooms = [1 / x[np.isfinite(x)] for x in odds]
    if any(np.ptp(room) > _SINK_ALLOWED * room.mean() for room in rooms if room.size):
        return "measured", "Rows have a sink besides the keys, and a bias of their own.", "sink"
    each = [float(room.mean()) for room in rooms if room.size]
    low, high = min(each), max(each)
    if high > low * (1 + _SINK_ALLOWED):
        said = (
            f"Each head has a sink of its own, of logits {np.log(low):.4g} to {np.log(high):.4g}."
        )
        return "measured", said, "sink"
    room, whole = sum(each) / len(each), round(sum(each) / len(each))
    if whole == 1 and abs(room - 1) < 1e-3:
        return "measured", "Rows have one more key for nothing, of logit 0 (softmax1).", "softmax1"
    if whole > 1 and abs(room / whole - 1) < 1e-3:
        said = f"Rows count {whole} keys of logit 0 that are not there: padding that is not masked?"
        return "mismatch", said, "padding-counted"
    return "measured", f"Rows have a sink of logit {np.log(room):.4g} besides the keys.", "sink"


def values_through(subject: Subject) -> Finding:
    """Whether the output is linear in the values, so that one-hot ones show the weights."""
    q, k = subject.draw(subject.d_k)
    weights = subject.box.weights(q, k)[0]
    rng = np.random.default_rng((subject.options.chosen_seed, 1))
    values = subject.box.shared(rng.standard_normal((*k.shape[:2], max(subject.d_k, 16))))
    out = subject.box.call(q, k, values).out
    wanted = weights @ values[: len(weights)]
    there = np.isfinite(wanted).all(-1)  # rows without any key may be nan in both
    there |= np.isfinite(out).all(-1)
    out, wanted = out[there], wanted[there]
    ratio = float((out * wanted).sum() / (wanted * wanted).sum())
    left = float(np.sqrt(np.mean((out - ratio * wanted) ** 2) / np.mean(wanted**2)))
    linear, allowed = left <= 100 * subject.rtol, 10 * subject.rtol
    said = "The output is not the sum of the weights times the values: are values normalised?"
    right = linear and abs(ratio - 1) <= allowed
    numbers = {"expected": 1.0, "measured": ratio, "allowed": allowed}
    return judged("values", "", right, said, "values-not-linear", **numbers)


def other_width(subject: Subject) -> list[Finding]:
    """A finding where values of another width than d_k change the weights."""
    q, k = subject.draw(subject.d_k)
    values = np.zeros((*k.shape[:2], 2 * max(subject.d_k, k.shape[1])))
    values[:, np.arange(k.shape[1]), np.arange(k.shape[1])] = 1.0
    try:
        out = subject.box.call(q, k, values).out[..., : k.shape[1]]
    except (Exception, SystemExit):  # many kernels want values as wide as the keys
        return []
    found = compared(out, subject.box.weights(q, k)[0])
    if found.off <= 10 * subject.rtol:
        return []
    wide = values.shape[-1]
    said = f"With values {wide} wide the weights are others than with values as wide as the keys"
    if found.scaled(10 * subject.rtol):
        said += f": logits are multiplied by {found.slope:.6g}, as if by the width of the values"
    where, slug = f"d_v = {wide}", "factor-by-dv"
    return [Finding("values", where, "measured", f"{said}. Not judged.", slug, 1.0, found.slope)]


def leaves_arguments(subject: Subject) -> list[Finding]:
    """A finding where the function writes into q or k."""
    q, k = subject.draw(subject.d_k)
    if not subject.box.call(q, k, k[..., :1].repeat(max(subject.d_k, 16), -1)).changed:
        return []
    said = "It writes into its arguments: q or k are not the same after the call."
    return [Finding("arguments", "q, k", "measured", said, "writes-arguments")]


def batch_of_two(subject: Subject) -> list[Finding]:
    """Whether each element of a batch comes out as it does alone."""
    box = subject.box
    if not box.layout.startswith("b"):
        return []
    q, k = subject.draw(subject.d_k)
    rng = np.random.default_rng((subject.options.chosen_seed, 4))
    v = box.shared(rng.standard_normal(k.shape))
    two = [np.stack([x, x[:, ::-1]]) for x in (q, k, v)]
    alone = np.stack([box.call(*(x[i] for x in two)).out for i in (0, 1)])
    try:
        together = box.call_two(*two)
    except (Exception, SystemExit):  # it may be made for one at a time
        return []
    kept = np.isfinite(alone)
    off = float(np.abs(np.where(kept, together - alone, 0.0)).max())
    said = f"In a batch of two, outputs are off by {off:.3g} from those of each alone."
    allowed = 100 * subject.rtol * float(np.abs(alone[kept]).max())
    numbers = {"expected": 0.0, "measured": off, "allowed": allowed}
    return [judged("batch", "2", off <= allowed, said, "batch-mixed", **numbers)]
