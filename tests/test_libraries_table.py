"""README's table of what libraries do at initialisation, and the figures it must agree with.

`python tests/test_libraries_table.py` writes the table into the README; it needs all extras.
"""

import importlib.metadata
import importlib.util
import os
import re
from pathlib import Path

import pytest
import verify_variance as vv
from verify_variance.reports.numbers import with_error

os.environ.setdefault("KERAS_BACKEND", "jax")
README = Path(__file__).resolve().parent.parent / "README.md"
TABLE = re.compile(r"^\| module or model \|.*\n(?:\|.*\n)+", re.MULTILINE)
NEO = "hf:gpt_neo:hidden_size=768,num_heads=12"
QWEN = "hf:qwen3:hidden_size=1024,num_attention_heads=8,num_key_value_heads=8"

# target: the extra, its name in the table, how it is initialised, variance on unit tokens by
# arithmetic from that, and the share of it that the model's own tokens leave
EPSILON = (8e-4 / 8.1e-4) ** 2  # layer norms divide by sqrt(var + eps): two embeddings, 1e-5
RMS_EPSILON = (4e-4 / 4.01e-4) ** 2  # one embedding, eps 1e-6
ROWS = {
    "torch.nn:MultiheadAttention": ("torch", "MultiheadAttention", "Xavier of 3D rows", 1 / 4, 1),
    "equinox.nn:MultiheadAttention": ("equinox", "MultiheadAttention", "U(±1/sqrt(D))", 1 / 9, 1),
    "flax.nnx:MultiHeadAttention": ("flax", "nnx.MultiHeadAttention", "LeCun normal", 1, 1),
    "flax.linen:MultiHeadDotProductAttention": (
        *("flax", "linen.MultiHeadDotProductAttention", "LeCun normal", 1, 1),
    ),
    "keras.layers:MultiHeadAttention": ("keras", "MultiHeadAttention", "Xavier uniform", 1, 1),
    # BERT adds one embedding to all its tokens, a third of their variance that no row sees
    "hf:gpt2": ("transformers", "GPT-2, D = 768", "N(0, 0.02²)", 0.3072**2, EPSILON),
    "hf:bert": ("transformers", "BERT, D = 768", "N(0, 0.02²)", 0.3072**2, 2 / 3),
    "hf:llama": ("transformers", "Llama, D = 4096", "N(0, 0.02²)", 1.6384**2, RMS_EPSILON),
    NEO: ("transformers", "GPT-Neo, D = 768", "N(0, 0.02²), no divisor", 64 * 0.3072**2, EPSILON),
    "hf:t5": ("transformers", "T5, D = 512", "1/sqrt(d_k) in W_q, no divisor", 1, 1),
    QWEN: ("transformers", "Qwen3, D = 1024", "q and k normed", 1, 1),
}  # fmt: skip
HEADS = ["module or model", "version", "scale", "initialisation of q and k"]
HEADS += ["Var on unit tokens", "Var measured"]


def needs(target):
    extra = ROWS[target][0]
    return (extra, "torch") if extra == "transformers" else (extra,)


def missing(target):
    return [name for name in needs(target) if importlib.util.find_spec(name) is None]


def table_row(target, result=None):
    extra, name, made, unit, _ = ROWS[target]
    rows = (result or vv.audit(target)).record["rows"]
    scale = next(row for row in rows if row["check"] == "scale")
    measured = next(row for row in rows if row["check"] == "logit variance")
    said = re.search(r"scale (\S+) at", scale["said"])[1]
    variance = with_error(measured["estimate"], measured["mcse"])
    cells = [f"{extra}: {name}", version_of(extra), said, made, f"{unit:.3g}", variance]
    return "| " + " | ".join(cells) + " |\n"


def version_of(extra):
    return importlib.metadata.version(extra).partition("+")[0]


def libraries_table():
    rules = "|---|---|---|---|---:|---:|\n"
    return "| " + " | ".join(HEADS) + " |\n" + rules + "".join(map(table_row, ROWS))


@pytest.mark.parametrize("target", ROWS)
def test_a_library_initialises_as_theory_says(target):
    if absent := missing(target):
        pytest.skip(f"this row needs {', '.join(absent)}")
    extra, name, _, unit, share = ROWS[target]
    result = vv.audit(target)
    rows = [row for row in result.record["rows"] if row["verdict"] != "measured"]
    assert result.exit_code == 0
    assert [row["verdict"] for row in rows] == ["match"] * len(rows)
    # the last row's theory is the scheme's on the tokens that were drawn, and its estimate is
    # judged against it at 1e-6; unit normal tokens move it by 1.6 % a draw, 0.6 % over 8 draws
    assert rows[-1]["theory"] == pytest.approx(unit * share, rel=0.05)
    listed = next(
        line
        for line in TABLE.search(README.read_text())[0].splitlines()
        if line.startswith(f"| {extra}: {name} |")
    )
    if f"| {version_of(extra)} |" in listed:  # the README's figures are those of its versions
        assert f"{listed}\n" == table_row(target, result)


if __name__ == "__main__":
    README.write_text(TABLE.sub(lambda _: libraries_table(), README.read_text()))
