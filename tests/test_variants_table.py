"""README's table of what each variant of attention does, held by a test.

`python tests/test_variants_table.py` writes the table into the README.
"""

import math
import re
from pathlib import Path

import verify_variance as vv
from verify_variance.reports.numbers import with_error
from verify_variance.stats.transforms.stacks import canonical_transform, with_length

README = Path(__file__).resolve().parent.parent / "README.md"
TABLE = re.compile(r"^\| transform \| scale \|.*\n(?:\|.*\n)+", re.MULTILINE)
D, N, DRAWS = 64, 32, 100_000
ROOT_OF_8 = f"constant:{math.sqrt(8)!r}"

WORDS = {
    ("none", "sqrt-dk"): "scaled dot products",
    ("v-compensation", "sqrt-dk"): "V / sqrt(d), logits unscaled: the rows of scale none",
    ("rope:1", "sqrt-dk"): "turned normal vectors are normal vectors: nothing changes",
    ("qk-rmsnorm", "sqrt-dk"): "variance d exactly; tails end at the cosine's 1",
    ("qk-layernorm", "sqrt-dk"): "the same in d - 1 dimensions: d^2/(d-1)",
    ("l2norm:10", "none"): "10 cos: variance 100/d",
    ("locality:8", "sqrt-dk"): "8 local keys divided by sqrt(d/2) get twice the variance",
    ("score-layernorm", "sqrt-dk"): "a temperature for each row: the same whatever scale and d",
    ("softcap:2", "sqrt-dk"): "a bounded logit: max p below e^4/(e^4 + n - 1)",
    ("clip:2", "sqrt-dk"): "bounded too, and capped keys tie",
    ("alibi:0.5", "sqrt-dk"): "added after the scale: far keys vanish",
    ("row-constant:-1", "sqrt-dk"): "exp(x - 1) is plain softmax: nothing changes",
    ("causal", "sqrt-dk"): "rows of 1 to n keys: early queries have few",
    ("top-k-position:8", "sqrt-dk"): "a row of 8 keys: variance as before",
    ("top-k:8", "sqrt-dk"): "the 8 largest vary less (14.98 of 64 where n = 64)",
    ("top-k:8", ROOT_OF_8): "divided by sqrt(k): sharper, not flatter",
    ("softmax1", "sqrt-dk"): "one more key for nothing, logit 0",
    ("gqa:8", "sqrt-dk"): "shared keys: the same means, 1 + 7/(d+3) the variance of mean x^2",
    ("linear-attention", "sqrt-dk"): "no softmax: sum_j x_j v_j has variance n, not 1",
}
ROWS = ("max_prob", "entropy", "jacobian_frobenius_sq")
UNIT = {"entropy": math.exp, "jacobian_frobenius_sq": math.sqrt}


def case_of(text, scale, rows):
    stack = with_length(canonical_transform(text), N, rows)
    return vv.Case(d_k=D, n_keys=N if rows else None, scale=scale, transform=stack)


def measured():
    """Estimates of the row statistics that have no theory, by (transform, scale, quantity)."""
    wanted = [
        (text, scale)
        for text, scale in WORDS
        if text != "linear-attention"
        and any(vv.predict(case_of(text, scale, True), name).kind == "none" for name in ROWS)
    ]
    rows = [
        row
        for scale in dict.fromkeys(scale for _, scale in wanted)
        for row in vv.verify(
            dk=D,
            n_keys=N,
            scale=scale,
            transform=[text for text, of in wanted if of == scale],
            quantities=ROWS,
            samples=DRAWS,
        ).record["rows"]
    ]
    return {(row["transform"], row["scale"], row["quantity"]): row for row in rows}


def cell(text, scale, quantity, estimates):
    """A statistic in the unit that people know: exact, or measured with its error in brackets."""
    turn = UNIT.get(quantity, float)
    theory = vv.predict(case_of(text, scale, True), quantity).value
    if theory is not None:
        return f"{turn(theory):.3f}"
    row = estimates["+".join(canonical_transform(text)), scale, quantity]
    x, error = row["estimate"], row["mcse"]
    slope = {"entropy": math.exp(x), "jacobian_frobenius_sq": 0.5 / math.sqrt(x)}.get(quantity, 1.0)
    return with_error(turn(x), slope * error)


def variants_table():
    """Every variant on rows of 32 keys at d = 64."""
    heads = ["transform", "scale", "logit variance", "max probability", "effective keys"]
    heads += ["rms Jacobian", "what it does"]
    lines = ["| " + " | ".join(heads) + " |", "|---|---|" + "---:|" * 4 + "---|"]
    estimates = measured()
    for (text, scale), words in WORDS.items():
        variance = vv.predict(case_of(text, scale, False), "variance").value
        said = [""] * 3
        if text != "linear-attention":
            said = [cell(text, scale, name, estimates) for name in ROWS]
        shown = "sqrt(8)" if scale == ROOT_OF_8 else scale
        lines.append("| " + " | ".join([text, shown, f"{variance:.4g}", *said, words]) + " |")
    return "\n".join(lines) + "\n"


def test_the_readme_shows_what_each_variant_does():
    assert TABLE.search(README.read_text())[0] == variants_table()


if __name__ == "__main__":
    README.write_text(TABLE.sub(lambda _: variants_table(), README.read_text()))
