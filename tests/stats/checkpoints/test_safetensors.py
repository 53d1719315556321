"""The header of a safetensors file is believed in nothing that can be checked."""

import json
import re

import pytest
from verify_variance.stats.checkpoints.safetensors import Entry, header_length, parse_header
from verify_variance.stats.checks import InputError


def parsed(header, data_bytes, path="f"):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    return parse_header(text, 8 + len(text) + data_bytes, path)


def tensor(dtype="F32", shape=(2,), offsets=(0, 8)):
    return {"dtype": dtype, "shape": list(shape), "data_offsets": list(offsets)}


def test_names_types_shapes_and_places():
    header = {"__metadata__": {"format": "pt"}, "a": tensor(), "b": tensor("BF16", (2, 3), (8, 20))}
    begin = 8 + len(json.dumps(header))
    assert parsed(header, 20) == {
        "a": Entry("F32", (2,), begin),
        "b": Entry("BF16", (2, 3), begin + 8),
    }


def test_what_torch_and_numpy_write_is_read(tmp_path):
    saving = pytest.importorskip("safetensors.numpy", reason="the extra hf is not installed")
    import numpy as np

    file = tmp_path / "model.safetensors"
    saving.save_file({"w": np.arange(6.0).reshape(2, 3)}, file)
    data = file.read_bytes()
    length = header_length(data[:8], len(data), "f")
    entry = parse_header(data[8 : 8 + length], len(data), "f")["w"]
    assert np.frombuffer(data, "<f8", offset=entry.offset).tolist() == [0, 1, 2, 3, 4, 5]


@pytest.mark.parametrize(
    ("header", "said"),
    [
        ({"a": tensor(offsets=(0, 9))}, "within the 8 bytes of data"),
        ({"a": tensor(offsets=(4, 2**60))}, "within the 8 bytes of data"),
        ({"a": tensor(offsets=(-8, 0))}, "within the 8 bytes of data"),
        ({"a": tensor(offsets=(8, 0))}, "within the 8 bytes of data"),
        ({"a": tensor(offsets=(0, 8, 8))}, "within the 8 bytes of data"),
        ({"a": tensor(offsets=(0.0, 8.0))}, "within the 8 bytes of data"),
        ({"a": tensor(shape=(-2,))}, "sizes of at least 0"),
        ({"a": tensor(shape=(True, 2))}, "sizes of at least 0"),
        ({"a": tensor(shape=[2**63])}, "sizes of at least 0"),
        ({"a": tensor(shape=[1] * 40)}, "sizes of at least 0"),
        ({"a": {**tensor(), "shape": "2"}}, "sizes of at least 0"),
        ({"a": tensor(shape=(3,))}, "F32 x [3] bytes, got 8"),
        ({"a": tensor("F64")}, "F64 x [2] bytes, got 8"),
        ({"a": tensor(shape=(2**40, 2**40, 0), offsets=(0, 8))}, "bytes, got 8"),
        ({"a": tensor(dtype=7)}, "must name its type"),
        ({"a": [1]}, "must be a table"),
        ({"a": tensor(), "b": tensor(shape=(1,), offsets=(4, 8))}, "'a' and 'b' overlap"),
        ([1], "a table as its header"),
        (b"{", "JSON header"),
        (b"\xff\xfe", "JSON header"),
        (b"[" * 100_000, "JSON header"),
        (b'{"a": 1' + b"0" * 5000 + b"}", "JSON header"),
        (b'{"a": 1, "a": 2}', "'a' stands twice"),
    ],
)
def test_a_header_that_lies_is_refused_in_one_line(header, said):
    with pytest.raises(InputError, match=re.escape(said)) as raised:
        parsed(header, 8)
    assert "\n" not in str(raised.value)
    assert len(str(raised.value)) < 300


def test_names_cannot_write_to_the_terminal():
    evil = "w\n\x1b[31mDefect\u202e" + "x" * 10_000
    with pytest.raises(InputError, match="within") as raised:
        parsed({evil: tensor(offsets=(0, 99))}, 8)
    assert str(raised.value).isprintable()
    assert len(str(raised.value)) < 300


@pytest.mark.parametrize("length", [2**60, 2**63, 2**64 - 1, 100_000_001, 93])
def test_a_header_longer_than_its_file_is_not_read(length):
    with pytest.raises(InputError, match="no whole safetensors file"):
        header_length(length.to_bytes(8, "little"), 100, "f")
    assert header_length((92).to_bytes(8, "little"), 100, "f") == 92


def test_a_file_shorter_than_its_length_is_refused():
    with pytest.raises(InputError, match="begin with 8 bytes"):
        header_length(b"1234567", 7, "f")


def test_a_hundred_thousand_tensors_are_read_in_seconds():
    from time import process_time

    header = {f"t{i}": tensor("U8", (1,), (i, i + 1)) for i in range(100_000)}
    begun = process_time()
    assert len(parsed(header, 100_000)) == 100_000
    assert process_time() - begun < 10
