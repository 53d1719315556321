"""Where a run happens: the compilation cache, JAX's settings left alone, provenance."""

import json
import os
import re
import subprocess
import sys
from datetime import datetime, timedelta
from types import SimpleNamespace

import jax
import jaxlib
import numpy as np
import pytest
import verify_variance as vv
from verify_variance.reports.record import PROVENANCE
from verify_variance.simulations import devices
from verify_variance.simulations.devices import cache_folder, use_platform


class Config:
    """What JAX's configuration is asked to change."""

    def __init__(self, chosen=None):
        self.jax_compilation_cache_dir, self.changed = chosen, {}

    def update(self, name, value):
        self.changed[name] = value


@pytest.fixture
def config(monkeypatch, tmp_path):
    """A JAX that only has a configuration, and a cache folder of the test's own."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    made = Config()
    stand_in = SimpleNamespace(config=made, local_devices=lambda backend=None: ["a device"])
    monkeypatch.setitem(sys.modules, "jax", stand_in)
    return made


def test_compilations_are_kept_in_a_folder_of_our_own(config, tmp_path):
    folder = tmp_path / "cache" / "verify-variance" / "jax"
    assert use_platform("auto") == ["a device"]
    assert cache_folder() == folder
    assert folder.is_dir()
    # every kernel is kept, however small and quickly compiled
    assert config.changed == {
        "jax_compilation_cache_dir": str(folder),
        "jax_persistent_cache_min_compile_time_secs": 0,
        "jax_persistent_cache_min_entry_size_bytes": -1,
    }


def test_a_cache_that_the_user_has_chosen_is_left_alone(config, tmp_path):
    config.jax_compilation_cache_dir = "/their/own"
    use_platform("auto")
    assert config.changed == {}
    assert os.listdir(tmp_path) == []


def test_without_the_variable_the_cache_is_in_the_home_folder(monkeypatch, tmp_path):
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("XDG_CACHE_HOME", "")
    assert cache_folder() == tmp_path / ".cache" / "verify-variance" / "jax"


def test_a_cache_folder_that_cannot_be_made_is_no_error(config, monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    assert use_platform("auto") == ["a device"]
    assert config.changed == {}


def test_a_cache_folder_that_may_not_be_written_is_no_error(config, monkeypatch):
    monkeypatch.setattr(devices.os, "access", lambda folder, mode: False)
    assert use_platform("auto") == ["a device"]
    assert config.changed == {}


def test_a_platform_is_asked_for_by_its_name(config, monkeypatch):
    asked = []
    sys.modules["jax"].local_devices = lambda backend=None: asked.append(backend) or ["it"]
    use_platform("auto")
    use_platform("gpu")
    assert asked == [None, "gpu"]
    with pytest.raises(vv.InputError, match=r"^unknown platform 'cuda'; "):
        use_platform("cuda")


def test_a_platform_that_is_not_there_is_named_with_those_that_are(config):
    def local_devices(backend=None):
        if backend == "tpu":
            raise RuntimeError("Unknown backend tpu")
        return [SimpleNamespace(platform="cpu"), SimpleNamespace(platform="cpu")]

    sys.modules["jax"].local_devices = local_devices
    with pytest.raises(vv.InputError) as caught:
        use_platform("tpu")
    assert str(caught.value) == (
        "platform tpu is not on this machine, which has cpu; use --platform auto, or install JAX "
        "for it"
    )


IN_ONE_PROCESS = """
import json, os, pkgutil, importlib, sys
import jax
settings, surroundings = dict(jax.config.values), dict(os.environ)
import verify_variance as vv
for found in pkgutil.walk_packages(vv.__path__, "verify_variance."):
    ours = ".simulations" in found.name or ".stats" in found.name
    if ours and not found.name.endswith((".taps.dispatch", ".taps.tensors")):  # these need torch
        importlib.import_module(found.name)
at_import = {n for n, v in jax.config.values.items() if settings[n] != v}
result = vv.verify(dk=4, samples=3000, dtype="float64")
in_a_run = {n for n, v in jax.config.values.items() if settings[n] != v}
print(json.dumps([sorted(at_import), sorted(in_a_run), surroundings == dict(os.environ),
                  result.verdict]))
"""


def run_alone(folder):
    surroundings = os.environ | {"XDG_CACHE_HOME": str(folder), "JAX_PLATFORMS": "cpu"}
    surroundings.pop("JAX_COMPILATION_CACHE_DIR", None)
    done = subprocess.run(
        [sys.executable, "-c", IN_ONE_PROCESS], env=surroundings, capture_output=True, text=True
    )
    assert done.returncode == 0, done.stderr
    assert done.stderr == ""
    return json.loads(done.stdout)


def test_importing_changes_no_setting_and_a_run_only_those_of_the_cache(tmp_path):
    """In a process of its own; and the second run finds all that the first has compiled."""
    at_import, in_a_run, same_surroundings, verdict = run_alone(tmp_path)
    assert at_import == []
    assert in_a_run == [
        "jax_compilation_cache_dir",
        "jax_persistent_cache_min_compile_time_secs",
        "jax_persistent_cache_min_entry_size_bytes",
    ]
    assert same_surroundings
    assert verdict == "match"
    kept = sorted(p.name for p in (tmp_path / "verify-variance" / "jax").glob("*-cache"))
    assert kept
    run_alone(tmp_path)
    assert kept == sorted(p.name for p in (tmp_path / "verify-variance" / "jax").glob("*-cache"))


def test_in_a_run_an_unwritable_cache_is_no_error(tmp_path):
    (tmp_path / "file").touch()
    assert run_alone(tmp_path / "file")[1:] == [[], True, "match"]


def test_provenance_says_what_drew_the_numbers_and_when():
    before = datetime.now().astimezone()
    said = vv.verify(dk=4, samples=3000, seed=7).record["provenance"]
    assert list(said) == list(PROVENANCE)
    assert None not in said.values()
    assert (said["seed"], said["prng"], said["resumed_blocks"]) == (7, "threefry2x32", 0)
    versions = (vv.__version__, jax.__version__, jaxlib.__version__, np.__version__)
    assert tuple(said[n] for n in ("version", "jax", "jaxlib", "numpy")) == versions
    assert said["python"] == ".".join(map(str, sys.version_info[:3]))
    assert said["platform"] == jax.default_backend()
    assert said["devices"] == [str(device) for device in jax.local_devices()]
    started = datetime.fromisoformat(said["started"])
    assert started.utcoffset() == timedelta(0)
    assert abs(started - before) < timedelta(seconds=5)
    assert 0 < said["wall_seconds"] < 600
    json.dumps(said)


def test_a_platform_of_this_machine_gives_the_numbers_of_auto():
    here = jax.default_backend()
    rows = [
        vv.verify(dk=4, samples=3000, platform=platform).record["rows"]
        for platform in ("auto", {"cuda": "gpu", "rocm": "gpu"}.get(here, here))
    ]
    assert rows[0] == rows[1]


def test_random_seeds_are_32_bits_of_entropy_and_are_recorded():
    seeds = {devices.random_seed() for _ in range(100)}
    assert len(seeds) >= 99  # two pairs agree once in 1e12 runs of this test
    assert all(0 <= seed < 2**32 for seed in seeds)
    record = vv.verify(dk=4, samples=300, seed="random").record
    assert record["provenance"]["seed"] == record["request"]["seed"]
    assert re.fullmatch(r"\d+", str(record["request"]["seed"]))
