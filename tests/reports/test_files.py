"""One file reads and writes: whole or not at all, and nothing in a file is ever executed."""

import os
import stat

import numpy as np
import pytest
from verify_variance.reports import files
from verify_variance.reports.files import read_logits
from verify_variance.stats.checks import InputError


def test_writing_replaces_the_whole_file(tmp_path):
    path = tmp_path / "table.md"
    path.write_text("something longer that was there before")
    path.chmod(0o640)
    files.write_text(str(path), "d_k ✓\n")
    assert path.read_bytes() == "d_k ✓\n".encode()
    assert stat.S_IMODE(path.stat().st_mode) == 0o640
    assert os.listdir(tmp_path) == ["table.md"]


def test_a_new_file_has_the_permissions_of_any_new_file(tmp_path):
    files.write_text(str(tmp_path / "ours"), "")
    (tmp_path / "any").touch()
    assert (tmp_path / "ours").stat().st_mode == (tmp_path / "any").stat().st_mode


def test_a_link_stays_a_link(tmp_path):
    (tmp_path / "target").touch()
    (tmp_path / "link").symlink_to("target")
    files.write_text(str(tmp_path / "link"), "new")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "target").read_text() == "new"


@pytest.mark.parametrize("existed", [False, True])
@pytest.mark.parametrize("step", ["fsync", "replace", "chmod"])
@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit, OSError(28, "No space left")])
def test_an_interruption_leaves_nothing_half_written(tmp_path, monkeypatch, step, error, existed):
    path = tmp_path / "table.md"
    if existed:
        path.write_text("before")

    def interrupted(*args, **kwargs):
        raise error

    monkeypatch.setattr(files.os, step, interrupted)
    with pytest.raises((KeyboardInterrupt, SystemExit, InputError)) as raised:
        files.write_text(str(path), "after")
    if isinstance(error, OSError):
        assert str(raised.value) == f"output could not be written to {path}: No space left"
    assert os.listdir(tmp_path) == (["table.md"] if existed else [])
    assert not existed or path.read_text() == "before"


def test_unwritable_outputs_are_refused_first(tmp_path, monkeypatch):
    for path, rule in (
        (tmp_path, "must be a file"),
        (tmp_path / "no" / "x", "folder must exist"),
        ("/dev/null", "must be an ordinary file"),
        ("", "must be a file"),
    ):
        with pytest.raises(InputError, match=rule) as raised:
            files.check_writable(str(path))
        assert "\n" not in str(raised.value)
    monkeypatch.setattr(files.os, "access", lambda *args: False)
    with pytest.raises(InputError, match="must be writable"):
        files.check_writable(str(tmp_path / "x"))


class Trap:
    """Unpickled, it would leave a file behind."""

    def __reduce__(self):
        return os.mkdir, ("unpickled",)


def test_logits_are_read(tmp_path):
    values = np.array([1.5, -2.0, 3.0])
    np.save(tmp_path / "a.npy", values)
    np.savez(tmp_path / "a.npz", values)
    np.savez(tmp_path / "b.npz", q=values, k=-values)
    np.savetxt(tmp_path / "a.csv", values)
    for name, array in (("a.npy", None), ("a.npz", None), ("b.npz", "q"), ("a.csv", None)):
        assert files.read_logits(str(tmp_path / name), array).tolist() == values.tolist()


def test_what_cannot_be_read_is_refused_in_one_line(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    np.save("objects.npy", np.array([Trap(), None], dtype=object), allow_pickle=True)
    np.savez("two.npz", logits=np.ones(3), k=np.ones(3))
    np.savez("none.npz")
    np.savez("objects.npz", q=np.array([Trap()], dtype=object))
    for name, content in {
        "words.csv": "1\nlogit\n",
        "empty.csv": "",
        "ragged.csv": "1,2\n3\n",
        "empty.npy": "",
        "text.npy": "1\n2\n",
        "broken.npz": "PK but no zip",
        "latin.csv": "\xe4",
        "what.txt": "1\n",
    }.items():
        (tmp_path / name).write_text(content, encoding="latin-1")
    (tmp_path / "folder.npy").mkdir()
    refused = {
        "objects.npy": "cannot be read as numbers",
        "objects.npz": "cannot be read as numbers",
        "two.npz": r"has 2 arrays \(logits, k\); name one with --array",
        "none.npz": "has 0 arrays",
        "words.csv": "cannot be read as numbers",
        "empty.csv": "is empty",
        "ragged.csv": "cannot be read as numbers",
        "latin.csv": "must be UTF-8 text",
        "empty.npy": "cannot be read as numbers",
        "text.npy": "cannot be read as numbers",
        "broken.npz": "cannot be read as numbers",
        "what.txt": "must end in .npy, .npz or .csv",
        "folder.npy": "must exist",
        "missing.npy": "must exist",
    }
    for name, rule in refused.items():
        with pytest.raises(InputError, match=rule) as raised:
            files.read_logits(name)
        assert name in str(raised.value)
        assert "\n" not in str(raised.value)
    assert not (tmp_path / "unpickled").exists()
    with pytest.raises(InputError, match="unknown array 'logit'; did you mean logits"):
        files.read_logits("two.npz", "logit")


def test_settings_are_read(tmp_path):
    path = tmp_path / "pyproject.toml"
    assert files.read_settings(str(path), "tool", "verify-variance") == {}
    path.write_text("[tool.verify-variance]\ndk = [16, 32]\n")
    assert files.read_settings(str(path), "tool", "verify-variance") == {"dk": [16, 32]}
    assert files.read_settings(str(path), "tool", "other") == {}
    for wrong, rule in (("tool = 3", "must be a table"), ("a = = 3", "cannot be read as TOML")):
        path.write_text(wrong)
        with pytest.raises(InputError, match=rule):
            files.read_settings(str(path), "tool", "verify-variance")


def test_a_csv_file_may_name_its_column(tmp_path):
    for name, text in (("named", "\ufefflogit\n1\n2.5\n"), ("quoted", '"q.k"\n1\n2.5\n')):
        (tmp_path / f"{name}.csv").write_text(text)
        assert read_logits(str(tmp_path / f"{name}.csv")).tolist() == [1.0, 2.5]
    (tmp_path / "nan.csv").write_text("nan\n1\n")
    assert len(read_logits(str(tmp_path / "nan.csv"))) == 2  # a number, not the name of one


def test_an_archive_that_would_fill_the_memory_is_refused_unread(tmp_path):
    path = tmp_path / "bomb.npz"
    np.savez_compressed(path, a=np.zeros(1000))
    data = bytearray(path.read_bytes())
    listed = data.index(b"PK\1\2")  # the entry of its directory, which holds the size at 24
    data[listed + 24 : listed + 28] = (2_000_000_000).to_bytes(4, "little")
    path.write_bytes(data)
    with pytest.raises(InputError, match=r"would expand from .* to 2 GB; save its array"):
        read_logits(str(path))
