"""The audit of a checkpoint: planted defects get their names, sound weights pass, none is excused.

Drawn weights are judged at a false alarm of 1e-6 a checkpoint, whatever the seed.
"""

import json
import math

import numpy as np
import pytest
from verify_variance.stats.audit.options import audit_options
from verify_variance.stats.checkpoints.audit import audit_checkpoint
from verify_variance.stats.checkpoints.checkpoint import Checkpoint, Stored
from verify_variance.stats.checks import InputError

D, HEADS, D_K, LAYERS = 64, 4, 16, 3
LLAMA = {"model_type": "llama", "num_attention_heads": HEADS, "initializer_range": 0.02}


def drawn(sd_q=0.02, sd_k=0.02, seed=None, heads=HEADS, d=D):
    rng = np.random.default_rng(seed)
    return {
        f"layers.{i}.self_attn.{x}_proj.weight": rng.normal(0, sd, (heads * D_K, d))
        for i in range(LAYERS)
        for x, sd in (("q", sd_q), ("k", sd_k))
    }


def audited(tensors, config=LLAMA, **options):
    stored = {n: Stored(a.dtype.name, a.shape, lambda a=a: a) for n, a in tensors.items()}
    return audit_checkpoint(Checkpoint("m", stored, config), audit_options(options))


def causes(found):
    return {f.cause for f in found.findings if f.verdict == "mismatch"}


def name(layer, x):
    return f"layers.{layer}.self_attn.{x}_proj.weight"


def test_a_checkpoint_at_its_initialisation_matches():
    found = audited(drawn())
    assert found.verdict == "match"
    assert {f.check for f in found.findings} >= {"initial W_q", "initial W_k", "logit std"}
    rows = [f.row for f in found.findings if f.row]
    assert len(rows) == 2
    assert all(row.p_value > 1e-7 for row in rows)
    stds = [f for f in found.findings if f.check == "logit std"]
    expected = D * 0.02**2  # d_model sigma^2, whatever d_k
    for finding in stds:
        assert finding.expected == pytest.approx(expected, rel=1e-12)
        assert finding.measured == pytest.approx(expected, rel=0.3)
        assert len(finding.place["sd_q"]) == HEADS


def planted(case):
    tensors, config, options = drawn(), LLAMA, {}
    rows = slice(D_K, 2 * D_K)
    match case:
        case "nan":
            tensors[name(1, "q")][3, 5] = np.nan
        case "inf in k":
            tensors[name(1, "k")][3, 5] = np.inf
        case "zero head":
            tensors[name(2, "k")][rows] = 0
        case "q is k":
            tensors[name(1, "k")][rows] = tensors[name(1, "q")][rows]
        case "one key for all layers":
            tensors[name(2, "q")] = tensors[name(0, "q")]
        case "one key for all heads":
            tensors[name(0, "q")] = np.tile(tensors[name(0, "q")][:D_K], (HEADS, 1))
        case "huge":
            tensors[name(0, "q")][0, 0] = 1e200
        case "folded and divided":
            tensors = drawn(sd_q=0.02 / math.sqrt(D_K))
        case "t5 not folded":
            config = {"model_type": "t5", "num_heads": HEADS, "d_kv": D_K}
            tensors = {n.replace("self_attn.", "SelfAttention.").replace("_proj", ""): a * 0
                       + np.random.default_rng().normal(0, D**-0.5, a.shape)
                       for n, a in tensors.items()}  # fmt: skip
        case "q of another fan":
            tensors = drawn(sd_q=0.03)
        case "k of another fan":
            tensors = drawn(sd_k=0.01)
        case "declared scale":
            config = LLAMA | {"model_type": "gpt_neo"}
            options = {"expected": "sqrt-dk"}
        case "muP":
            options = {"expected": "dk"}
    return tensors, config, options


PLANTED = {
    "nan": "not-finite",
    "inf in k": "not-finite",
    "zero head": "zero",
    "q is k": "tied",
    "one key for all layers": "copies",
    "one key for all heads": "copies",
    "huge": "overflow",
    "folded and divided": "scale-twice",
    "t5 not folded": "scale-not-folded",
    "q of another fan": "init-std",
    "k of another fan": "init-std",
    "declared scale": "declared-scale",
    "muP": "declared-scale",
}


@pytest.mark.parametrize("case", PLANTED)
def test_a_planted_defect_is_named(case):
    tensors, config, options = planted(case)
    found = audited(tensors, config, **options)
    assert causes(found) == {PLANTED[case]}
    assert found.verdict == "mismatch"
    assert all(f.said.isprintable() for f in found.findings)


def t5(q, k):
    config = {"model_type": "t5", "num_heads": HEADS, "d_kv": D_K}
    return {n.replace("self_attn.", "SelfAttention.").replace("_proj", ""): a
            for n, a in drawn(q, k).items()}, config  # fmt: skip


NOT_DEFECTS = {
    "t5, folded as declared": lambda: (*t5((D * D_K) ** -0.5, D**-0.5), {}),
    "gpt_neo, not scaled by design": lambda: (drawn(), LLAMA | {"model_type": "gpt_neo"}, {}),
    "trained": lambda: (drawn(0.08, 0.09), LLAMA, {}),
    "trained, q and k unlike": lambda: (drawn(0.3, 0.004), LLAMA, {}),
    "saturated": lambda: (drawn(1.5, 1.5), LLAMA, {}),
    "no config": lambda: (drawn(), {}, {"n_heads": HEADS}),
    "no config, by d_k": lambda: (drawn(), {}, {"dk": D_K, "expected": "dk"}),
    "unknown model": lambda: (drawn(), LLAMA | {"model_type": "new"}, {}),
    "expected as declared": lambda: (drawn(), LLAMA, {"expected": "sqrt-dk"}),
    "heads of k shared": lambda: (
        drawn() | {n: a[: 2 * D_K] for n, a in drawn().items() if "k_proj" in n},
        LLAMA,
        {},
    ),
    "heads of k repeated": lambda: (
        {
            n: np.tile(a[:D_K], (HEADS, 1)) if "k_proj" in n else a
            for n, a in drawn(0.08, 0.08).items()
        },
        LLAMA,
        {},
    ),
}


@pytest.mark.parametrize("case", NOT_DEFECTS)
def test_what_is_no_defect_is_not_called_one(case):
    tensors, config, options = NOT_DEFECTS[case]()
    assert audited(tensors, config, **options).verdict == "match"


def test_trained_weights_are_measured_and_the_sentence_says_so():
    found = audited(drawn(0.08, 0.08))
    (spread,) = [f for f in found.findings if f.check == "spread"]
    assert spread.verdict == "measured"
    assert spread.measured == pytest.approx(4, rel=0.05)
    assert "trained weights" in spread.said
    assert any("not judged" in f.said for f in found.findings)


def test_constant_weights_are_copies_of_one_another():
    assert causes(audited({n: np.ones_like(a) for n, a in drawn().items()})) == {"copies", "tied"}


def test_weights_that_no_training_leaves_are_not_called_trained():
    found = audited(drawn(1e-37, 1e-37))
    (spread,) = [f for f in found.findings if f.check == "spread"]
    assert "no training does that, and the logits are all but constant" in spread.said


def test_saturated_heads_come_worst_first():
    tensors = drawn(0.02, 0.02)
    for layer, head, times in ((0, 1, 1e4), (2, 3, 1e5), (1, 0, 1e3)):
        tensors[name(layer, "q")][head * D_K : (head + 1) * D_K] *= times
    found = audited(tensors, LLAMA | {"max_position_embeddings": 512})
    suspects = [f for f in found.findings if f.check == "saturated"]
    assert [f.where.partition(".self")[0] for f in suspects] == ["layers.2", "layers.0", "layers.1"]
    assert suspects[0].expected == pytest.approx(math.sqrt(2 * math.log(512)))
    assert "head 3" in suspects[0].where


def test_an_expectation_of_an_unknown_model_cannot_be_told():
    found = audited(drawn(), LLAMA | {"model_type": "new"}, expected="dk")
    assert found.verdict == "undecided"
    assert audited(drawn(), LLAMA | {"model_type": "new"}, expected="sqrt-dk").verdict == "match"


HOSTILE = (
    1e308,
    *(None, "x", -1, 0, 1e400, float("nan"), [], {}, True, 10**40, "1" * 5000, {"a": 1}, [1, None]),
    *(10**400, "llama\x1b[2J\n", "x" * 10_000),
)
FIELDS = (
    *("model_type", "num_attention_heads", "num_key_value_heads", "head_dim", "hidden_size"),
    *("initializer_range", "rope_scaling", "rope_parameters", "attn_config", "pos_att_type"),
    *("query_pre_attn_scalar", "attention_multiplier", "scale_attn_weights", "text_config"),
    *("max_position_embeddings", "initializer_factor", "global_head_dim", "do_layer_norm_before"),
)


def refused(config):
    """The complaint about a configuration, one printable line; "" where there is none."""
    try:
        assert audited(drawn(), config).findings
    except InputError as error:
        return str(error)
    return ""


@pytest.mark.parametrize("model", ["llama", "gemma2", "granite", "mpt", "deberta-v2", "gpt2", "t5"])
def test_a_hostile_config_is_refused_or_harmless(model):
    said = [
        refused(LLAMA | {"model_type": model, field: value})
        for field in FIELDS
        for value in HOSTILE
    ]
    assert all(line.isprintable() for line in said)
    assert any(said)


def test_names_with_endless_numbers_are_sorted_as_words():
    tensors = {n.replace("1", "1" * 5000): a for n, a in drawn().items()}
    assert audited(tensors).verdict == "match"


@pytest.mark.parametrize("kind", ["yarn", "longrope"])
def test_hostile_rotations_are_refused_or_harmless(kind):
    base = {"rope_type": kind, "factor": 4.0, "mscale": 1.0, "mscale_all_dim": 1.0}
    fields = (*base, "attention_factor", "original_max_position_embeddings")
    said = [
        refused(LLAMA | {"rope_scaling": base | {field: value}})
        for field in fields
        for value in HOSTILE
    ]
    assert all(line.isprintable() for line in said)
    assert any(said)


def test_the_record_holds_every_head():
    from verify_variance.reports.audit.records import audit_record

    record = audit_record(audited(drawn()))
    text = json.dumps(record, allow_nan=False)
    rows = [row for row in json.loads(text)["rows"] if row["check"] == "logit std"]
    assert [len(row["parameters"]["alignment"]) for row in rows] == [HEADS] * LAYERS
    tensors = drawn()
    tensors[name(0, "q")][0, 0] = np.nan
    json.dumps(audit_record(audited(tensors)), allow_nan=False)
