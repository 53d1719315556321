"""The attention functions of the libraries come out as 1/sqrt(d_k), and planted scales do not.

Nothing is drawn but the inputs, from a fixed seed: 1e-5 is what float32 leaves of a factor fitted
to hundreds of logits that err by 1e-7, 1e-2 what bfloat16 leaves of logits that err by 4e-3.
"""

import functools
import importlib
import os

import pytest
from verify_variance.simulations.audit.function import audit_function
from verify_variance.stats.audit.options import audit_options

SIZES = [40, 64, 128]


def attention_of(name):
    if name.startswith("keras"):
        os.environ.setdefault("KERAS_BACKEND", "jax")
    module, attribute = name.split(":")
    library = module.partition(".")[0]
    pytest.importorskip(library, reason=f"{library} is not installed")
    return getattr(importlib.import_module(module), attribute)


LIBRARIES = {
    "jax.nn:dot_product_attention": "blhd",
    "torch.nn.functional:scaled_dot_product_attention": "bhld",
    "torch.nn.attention.flex_attention:flex_attention": "bhld",
    "flax.linen:dot_product_attention": "blhd",
    "flax.nnx:dot_product_attention": "blhd",
    "keras.ops:dot_product_attention": "blhd",
    "equinox.nn._attention:dot_product_attention": "ld",
}


@pytest.mark.wide
@pytest.mark.parametrize("name", LIBRARIES)
def test_a_library_divides_by_the_root(name):
    options = audit_options({"dk": SIZES, "dtype": ["float32", "bfloat16"]})
    audit = audit_function(attention_of(name), name, options)
    assert audit.verdict == "match", [f for f in audit.findings if f.verdict != "match"]
    assert audit.facts["layout"].startswith(f"{LIBRARIES[name]} ")
    factors = {f.place["d_k"]: f.measured for f in audit.findings if f.check == "factor"}
    assert factors == {d_k: pytest.approx(d_k**-0.5, rel=1e-5) for d_k in SIZES}
    (half,) = [f for f in audit.findings if f.check == "precision"]
    assert half.measured == pytest.approx(64**-0.5, rel=1e-2)
    assert name.partition(".")[0] in audit.facts


@pytest.mark.parametrize(
    ("name", "options", "cause"),
    [
        ("jax.nn:dot_product_attention", {"scale": 1.0}, "none"),
        ("torch.nn.functional:scaled_dot_product_attention", {"scale": 1.0}, "none"),
        ("torch.nn.functional:scaled_dot_product_attention", {"scale": 0.125}, "constant"),
    ],
)
def test_a_scale_planted_into_a_library_is_named(name, options, cause):
    planted = functools.partial(attention_of(name), **options)
    audit = audit_function(planted, name, audit_options({"dk": [16, 64], "dtype": ["float32"]}))
    assert audit.verdict == "mismatch"
    assert cause in {f.cause for f in audit.findings if f.check == "factor"}
