"""Audit a module at initialisation: which part is scale, and which the initialisation."""

from __future__ import annotations

import math

from ...stats.audit.findings import Audit, Finding
from ...stats.audit.options import AuditOptions
from ...stats.cases import Case
from ...stats.causes import factor_causes, written
from ...stats.conventions import scale_factor
from ...stats.failures import suspects
from .draws import Draws
from .heads import Layer, layer_of
from .models import Model
from .rows import rows_of
from .variances import figures, variances

REPLICATES = 32  # key heads times draws of the weights: their mean is known to 1 or 2 %
_LEAST_DRAWS, _MOST_DRAWS = 3, 32
_FINE, _COARSE = 1e-5, 1e-2  # relative error of a factor of float32, and of half precision


def audit_model(model: Model, options: AuditOptions) -> Audit:
    """The findings about a module: its factor of q.k, and the variance that its weights make."""
    drawn = _drawn(model, options)
    facts = dict(model.facts)
    if not drawn:
        said = "No attention softmax was found: compiled and fused kernels keep their logits to "
        said += "themselves; audit the function of (q, k, v) that they compute, as pkg.mod:attr."
        nothing = Finding("softmax", "module", "undecided", said, "not-found")
        return Audit(model.name, "module", (nothing,), facts, options.wanted)
    draws = len(drawn[0].layers)
    facts["weights"] = f"{draws} draws" if draws > 1 else "one draw, as they are"
    facts["tokens"] = model.tokens
    tests = 2 * len(drawn)
    findings: list[Finding] = []
    for layer in drawn:
        findings += [_scale(layer, model, options), *variances(layer, model, tests)]
    for layer in drawn:
        findings += figures(layer)
    return Audit(model.name, "module", tuple(findings), facts, options.wanted)


def _drawn(model: Model, options: AuditOptions) -> list[Draws]:
    """The layers of as many draws as the rates ask for; one, if another seed changes nothing."""
    start = options.chosen_seed

    def layers(seed: int) -> list[Layer]:
        rows = [rows_of(seen, model.batch) for seen in model.tap(seed)]
        return [layer_of(each) for each in rows if len(each.logits)]

    found = [layers(start)]
    if not found[0] or not model.redrawn:
        return [Draws(i, each) for i, each in enumerate(zip(*found, strict=True))]
    groups = min(int(layer.groups.max()) + 1 for layer in found[0])
    wanted = min(max(math.ceil(REPLICATES / groups), _LEAST_DRAWS), _MOST_DRAWS)
    for seed in range(start + 1, start + wanted):
        found.append(layers(seed))
        if found[-1][0].signature == found[0][0].signature:
            found.pop()
            break
    return [Draws(i, each) for i, each in enumerate(zip(*found, strict=True))]


def _expected(model: Model, options: AuditOptions, layer: int, d_k: int) -> tuple[float, str]:
    if options.wanted is None and model.scale is not None:
        return model.scale(layer, d_k)
    return scale_factor(Case(d_k, scale=options.convention)), options.convention


def _scale(drawn: Draws, model: Model, options: AuditOptions) -> Finding:
    """What multiplies q.k: exact, since nothing but rounding errs."""
    fit, d_k, where = drawn.first.fit, drawn.first.d_k, drawn.where
    place = {"d_k": d_k, "layer": drawn.index, "heads": drawn.heads}
    if fit is None and not drawn.first.measured["dot_variance"].any():
        said = (
            f"q.k is the same for all of {where}: no scale can be read off it. Draw q and k anew."
        )
        return Finding("scale", where, "undecided", said, "zero", place=place)
    if fit is None or d_k is None:
        said = f"The logits of {where} come from no product of two computed arrays that can be "
        said += "followed: their scale cannot be told."
        return Finding("scale", where, "undecided", said, "no-product", place=place)
    expected, name = _expected(model, options, drawn.index, d_k)
    allowed = _FINE if drawn.first.fine else _COARSE
    numbers = expected, fit.factor, allowed, place
    ratio = fit.factor / expected
    cap = "" if fit.softcap is None else f", then capped by tanh at {fit.softcap:.4g}"
    if not fit.plain:
        said = f"The logits of {where} are no plain multiple of q.k: {fit.residual:.2g} of them "
        said += "(rms) is something else."
        return Finding("scale", where, "undecided", said, "not-plain", *numbers)
    form = written(fit.factor)
    factor = f"{fit.factor:.5g}" + (f" = {form}" if "/" in form else "")
    if abs(ratio - 1) <= allowed:
        said = f"q.k is multiplied by {factor}{cap}: scale {name} at d_k = {d_k}, as expected."
        return Finding("scale", where, "match", said, None, *numbers)
    said = f"q.k is multiplied by {factor}{cap} where {expected:.5g} (scale {name}) was expected "
    causes = factor_causes(ratio, d_k, scale=name, n_heads=drawn.heads)
    said += f"at d_k = {d_k}: {suspects(causes) or 'the cause is not known.'}"
    return Finding("scale", where, "mismatch", said, None, *numbers)
