"""Other precisions, products that overflow before they are scaled, and large logits."""

from __future__ import annotations

import math
from dataclasses import replace

import numpy as np

from ...stats.audit.findings import Finding, judged
from ...stats.audit.known import Point
from .form import Form
from .scaling import first_line
from .subject import Subject, opened

_LARGEST = {"float16": 65504.0, "float32": 3.4028234663852886e38}
_ALLOWED = 1e-2  # of a factor whose logits err by 4e-3 in bfloat16


def precision_findings(subject: Subject, form: Form, base: Point) -> list[Finding]:
    """Findings about large logits, the place of the scale, and each further precision."""
    found = [*_large_logits(subject, form, base)]
    for dtype in subject.options.dtype[1:]:
        found += _of_dtype(subject, dtype, form, base)
    return found


def _of_dtype(subject: Subject, dtype: str, form: Form, base: Point) -> list[Finding]:
    try:
        box = subject.box
        other = opened(subject.attention, subject.options, dtype, box.layout, box.kind)
        other = replace(other, d_k=subject.d_k)
        factor = form.factor(other.box, *subject.draw(subject.d_k))
    except (Exception, SystemExit) as error:  # many kernels take some precisions alone
        said = f"It refuses {dtype}: {first_line(error)}."
        return [Finding("precision", dtype, "measured", said)]
    right = abs(factor - base.factor) <= _ALLOWED * abs(base.factor)
    said = f"In {dtype} the factor is {factor:.4g}, not {base.factor:.4g}."
    numbers = {"expected": base.factor, "measured": factor, "allowed": _ALLOWED}
    finding = judged("precision", dtype, right, said, "factor-by-dtype", **numbers)
    return [finding, *_overflow(other, dtype, base, declared=False)]


def _large_logits(subject: Subject, form: Form, base: Point) -> list[Finding]:
    """Whether rows of logits of 200 are finite; if so, where the scale is applied."""
    dtype = subject.options.dtype[0]
    if form.slug != "plain" or dtype not in _LARGEST or base.factor <= 0:
        return []
    if not _finite(subject, 200 / base.factor):
        said = "Logits of 200 give inf or nan: a row's maximum is not subtracted before exp."
        return [Finding("large logits", "200", "measured", said, "no-max-subtraction")]
    finite = Finding("large logits", "200", "match")
    return [finite, *_overflow(subject, dtype, base, declared=True)]


def _overflow(subject: Subject, dtype: str, base: Point, declared: bool) -> list[Finding]:
    """Whether a product above the largest number of a type comes out finite, once scaled."""
    if dtype not in _LARGEST or not 0 < base.factor < 0.3:
        return []
    product = _LARGEST[dtype] / math.sqrt(base.factor)  # too large itself, and scaled it is not
    if _finite(subject, product):
        said = (
            f"Products beyond the largest {dtype} do no harm: q or k is scaled before the "
            "product, or it is made in a wider type; the same scale, no defect."
        )
        return [Finding("overflow", dtype, "match", said if declared else "")]
    said = (
        f"In {dtype} a product above {_LARGEST[dtype]:.5g} is inf or nan: q.k is scaled afterwards."
    )
    slug = "overflow-before-scale"
    if declared and dtype == "float16":
        return [Finding("overflow", dtype, "mismatch", said, slug)]
    return [Finding("overflow", dtype, "measured", said, slug)]


def _finite(subject: Subject, product: float) -> bool:
    """Whether rows of equal logits, made of this product, come out as finite weights.

    Rows that are not for products near 0 either, such as those without any key, are left out.
    """
    size = math.sqrt(product / subject.d_k)
    q = np.full((subject.options.heads, 16, subject.d_k), size)
    large, small = (np.isfinite(subject.box.weights(x, x)[0]) for x in (q, q / (16 * size)))
    return bool(large[small.all(-1)].all())
