"""Checkpoints on disk: whole, sharded, torch's; hostile ones; larger than memory may grow."""

import json
import re
import struct
import subprocess
import sys

import numpy as np
import pytest
from verify_variance.reports.audit.checkpoints import is_checkpoint, open_checkpoint
from verify_variance.stats.checks import InputError

TYPES = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
TYPES |= {"float8_e4m3fn": "F8_E4M3", "float8_e5m2": "F8_E5M2", "int8": "I8"}


def written(path, tensors, header=None):
    """A safetensors file, written from the format's description alone."""
    table, data = {}, b""
    for name, array in tensors.items():
        offsets = [len(data), len(data) + array.nbytes]
        shape = list(array.shape)
        table[name] = {"dtype": TYPES[array.dtype.name], "shape": shape, "data_offsets": offsets}
        data += np.ascontiguousarray(array).tobytes()
    text = json.dumps(table | (header or {})).encode()
    path.write_bytes(struct.pack("<Q", len(text)) + text + data)
    return path


def weights(seed=0, n=2, d=8, dtype=np.float32):
    rng = np.random.default_rng(seed)
    names = [f"layers.{i}.{x}_proj.weight" for i in range(n) for x in "qk"]
    return {name: rng.normal(size=(d, d)).astype(dtype) for name in names}


@pytest.mark.parametrize("dtype", [name for name in TYPES if "float" in name])
def test_every_float_type_is_read_as_it_was_written(tmp_path, dtype):
    import ml_dtypes

    array = np.arange(-8, 8).reshape(4, 4).astype(getattr(ml_dtypes, dtype, dtype))
    checkpoint = open_checkpoint(str(written(tmp_path / "a.safetensors", {"w": array})))
    assert checkpoint.tensors["w"].dtype == dtype
    assert checkpoint.part("w", slice(1, 3)).tolist() == [[-4, -3, -2, -1], [0, 1, 2, 3]]
    assert checkpoint.part("w").dtype == np.float64


def test_shards_are_one_checkpoint(tmp_path):
    tensors = weights()
    files = {"model-1-of-2.safetensors": [*tensors][:2], "model-2-of-2.safetensors": [*tensors][2:]}
    for file, names in files.items():
        written(tmp_path / file, {name: tensors[name] for name in names})
    index = {"weight_map": {name: file for file, names in files.items() for name in names}}
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    (tmp_path / "config.json").write_text('{"model_type": "llama", "num_attention_heads": 2}')
    for path in (tmp_path, tmp_path / "model.safetensors.index.json"):
        checkpoint = open_checkpoint(str(path))
        assert checkpoint.config["num_attention_heads"] == 2
        for name, array in tensors.items():
            assert (checkpoint.part(name) == array).all()


@pytest.mark.parametrize(
    "shard",
    ["../m.safetensors", "/etc/m.safetensors", "a/m.safetensors", "..", "", "m.bin",
     "a\\m.safetensors", "m\0.safetensors", "\n.safetensors/", "./m.safetensors"],
)  # fmt: skip
def test_an_index_reaches_no_other_folder(tmp_path, shard):
    written(tmp_path / "m.safetensors", weights())
    folder = tmp_path / "inner"
    folder.mkdir()
    index = folder / "model.safetensors.index.json"
    index.write_text(json.dumps({"weight_map": {"w": shard}}))
    with pytest.raises(InputError, match="must name") as raised:
        open_checkpoint(str(folder))
    assert str(raised.value).isprintable()


@pytest.mark.parametrize(
    ("index", "said"),
    [
        ({"weight_map": {"w": "m.safetensors"}}, "promises 'w'"),
        ({"weight_map": {"w": "gone.safetensors"}}, "must be an ordinary file"),
        ({"weight_map": ["m.safetensors"]}, "must have a weight_map"),
        ({"weight_map": {"w": 7}}, "must have a weight_map"),
        ([], "must hold a JSON table"),
        ("not json", "must hold a JSON table"),
    ],
)
def test_an_index_that_lies_is_refused(tmp_path, index, said):
    written(tmp_path / "m.safetensors", weights())
    (tmp_path / "model.safetensors.index.json").write_text(json.dumps(index))
    with pytest.raises(InputError, match=said):
        open_checkpoint(str(tmp_path / "model.safetensors.index.json"))


@pytest.mark.parametrize(
    ("data", "said"),
    [
        (b"", "begin with 8 bytes"),
        (struct.pack("<Q", 2**60) + b"{}", "no whole safetensors file"),
        (struct.pack("<Q", 2) + b"{", "no whole safetensors file"),
        (struct.pack("<Q", 3) + b"{} ", None),
        (b"PK\x03\x04" + b"\0" * 40, "no whole safetensors file"),
        (b"\x80\x02}q\0." + b"\0" * 40, "no whole safetensors file"),
    ],
)
def test_what_is_no_safetensors_file_is_refused(tmp_path, data, said):
    (tmp_path / "m.safetensors").write_bytes(data)
    if said is None:
        assert open_checkpoint(str(tmp_path / "m.safetensors")).tensors == {}
        return
    with pytest.raises(InputError, match=said):
        open_checkpoint(str(tmp_path / "m.safetensors"))


def test_every_truncation_of_a_file_is_refused(tmp_path):
    whole = written(tmp_path / "m.safetensors", weights(n=1, d=2)).read_bytes()
    for length in range(len(whole)):
        (tmp_path / "m.safetensors").write_bytes(whole[:length])
        with pytest.raises(InputError):
            open_checkpoint(str(tmp_path / "m.safetensors"))


def test_a_folder_must_hold_one_checkpoint(tmp_path):
    with pytest.raises(InputError, match="must hold one checkpoint, got none"):
        open_checkpoint(str(tmp_path))
    written(tmp_path / "a.safetensors", weights())
    assert len(open_checkpoint(str(tmp_path)).tensors) == 4
    written(tmp_path / "b.safetensors", weights())
    with pytest.raises(InputError, match=r"'a.safetensors', 'b.safetensors'; name"):
        open_checkpoint(str(tmp_path))
    for gone in ("gone.safetensors", str(tmp_path / "x.safetensors" / "y.safetensors"), "\0.pt"):
        with pytest.raises(InputError, match=r"ordinary file|cannot be read"):
            open_checkpoint(gone)


def test_a_config_that_is_none_is_refused(tmp_path):
    written(tmp_path / "m.safetensors", weights())
    for text in ("[1]", "{", "[" * 100_000, '"' + "x" * 10):
        (tmp_path / "config.json").write_text(text)
        with pytest.raises(InputError, match=re.escape("config.json")):
            open_checkpoint(str(tmp_path))


def test_quantised_weights_are_refused_when_they_are_read(tmp_path):
    file = written(tmp_path / "m.safetensors", {"w": np.ones((2, 2), np.int8)})
    with pytest.raises(InputError, match="floating-point numbers, got 'I8'"):
        open_checkpoint(str(file)).part("w")


@pytest.mark.parametrize("dtype", ["float\x1b[2J", "float128", "F4", "object", "str"])
def test_a_type_that_is_none_is_refused_when_it_is_read(tmp_path, dtype):
    entry = {"dtype": dtype, "shape": [1], "data_offsets": [0, 0]}
    file = written(tmp_path / "m.safetensors", {}, {"w": entry})
    with pytest.raises(InputError, match="floating-point numbers") as raised:
        open_checkpoint(str(file)).part("w")
    assert str(raised.value).isprintable()


@pytest.mark.parametrize("shape", [(0, 8), (8, 0)])
def test_empty_matrices_are_refused(tmp_path, shape):
    from verify_variance import audit

    names = [f"layers.0.{x}_proj.weight" for x in "qk"]
    file = written(tmp_path / "m.safetensors", {name: np.ones(shape, "f4") for name in names})
    with pytest.raises(InputError, match="no query and key projections"):
        audit(file, n_heads=2)


def test_targets_are_told_apart(tmp_path):
    for name in ("a.safetensors", "b/c.index.json", "d.pt", "e.bin", str(tmp_path)):
        assert is_checkpoint(name)
    for name in ("jax.nn:dot_product_attention", "hf:gpt2", "torch.nn.bin:x", "config.json"):
        assert not is_checkpoint(name)


GROWTH = """
import resource, sys
sys.path.insert(0, "")
from verify_variance import audit
def peak():
    with open("/proc/self/status") as status:
        return next(int(line.split()[1]) for line in status if line.startswith("VmHWM")) // 1024
audit(sys.argv[1])
before = peak()
audit(sys.argv[2])
print(before, peak())
"""


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="reads /proc")
def test_memory_does_not_grow_with_the_file(tmp_path):
    """A sparse file of 40 GB, of which 4 heads of 4 MB each are queries and keys."""
    small, large = tmp_path / "small", tmp_path / "large"
    for folder, rows, layers in ((small, 64, 1), (large, 2**30, 2)):
        folder.mkdir()
        (folder / "config.json").write_text('{"num_attention_heads": 4}')
        table, end = {}, 0
        for i in range(layers):
            sizes = {"mlp": (rows, 4 + i), "q_proj": (512, 2048), "k_proj": (512, 2048)}
            for name, shape in sizes.items():
                begin, end = end, end + 4 * shape[0] * shape[1]
                entry = {"dtype": "F32", "shape": shape, "data_offsets": [begin, end]}
                table[f"layers.{i}.{name}.weight"] = entry
        text = json.dumps(table).encode()
        with open(folder / "model.safetensors", "wb") as stream:
            stream.write(struct.pack("<Q", len(text)) + text)
            for name, entry in table.items():
                if "proj" in name:
                    stream.seek(8 + len(text) + entry["data_offsets"][0])
                    stream.write(np.random.default_rng(0).bytes(4096))
            stream.truncate(8 + len(text) + end)
    line = [sys.executable, "-c", GROWTH, str(small), str(large)]
    said = subprocess.run(line, capture_output=True, text=True)
    assert not said.stderr, said.stderr
    before, after = map(int, said.stdout.split())
    assert after - before < 64


class TestTorch:
    torch = None

    @pytest.fixture(autouse=True)
    def _torch(self):
        self.torch = pytest.importorskip("torch", reason="the extra torch is not installed")

    @pytest.mark.parametrize("dtype", ["float32", "bfloat16", "float16", "float64"])
    @pytest.mark.parametrize("under", [None, "state_dict", "model"])
    def test_a_state_dict_is_read(self, tmp_path, dtype, under):
        tensors = {
            n: self.torch.tensor(a).to(getattr(self.torch, dtype)) for n, a in weights().items()
        }
        self.torch.save({under: tensors} if under else tensors, tmp_path / "m.pt")
        checkpoint = open_checkpoint(str(tmp_path / "m.pt"))
        for name, tensor in tensors.items():
            assert (checkpoint.part(name, slice(2, 5)) == tensor[2:5].double().numpy()).all()

    def test_a_pickle_that_runs_code_is_refused(self, tmp_path):
        mark = tmp_path / "ran"

        class Evil:
            def __reduce__(self):
                import pathlib

                return (pathlib.Path.touch, (mark,))

        self.torch.save({"w": Evil()}, tmp_path / "m.bin")
        with pytest.raises(InputError, match="weights alone"):
            open_checkpoint(str(tmp_path / "m.bin"))
        assert not mark.exists()

    @pytest.mark.parametrize("data", [b"", b"junk", b"PK\x03\x04junk", b"\x80\x02c"])
    def test_junk_is_refused(self, tmp_path, data):
        (tmp_path / "m.pt").write_bytes(data)
        with pytest.raises(InputError, match="cannot be read as weights alone"):
            open_checkpoint(str(tmp_path / "m.pt"))

    def test_other_things_than_state_dicts_are_refused(self, tmp_path):
        self.torch.save([1, 2], tmp_path / "m.pt")
        with pytest.raises(InputError, match="must hold a state dict, got list"):
            open_checkpoint(str(tmp_path / "m.pt"))


def test_without_torch_its_files_say_what_to_install(tmp_path, monkeypatch):
    monkeypatch.setitem(sys.modules, "torch", None)
    (tmp_path / "m.pt").write_bytes(b"")
    with pytest.raises(InputError, match=re.escape("pip install 'verify-variance[torch]'")):
        open_checkpoint(str(tmp_path / "m.pt"))
