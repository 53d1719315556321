"""The doctor's report, for a machine that is fit and for one whose generator is wrong."""

import sys

import jax
import numpy as np
import pytest
from verify_variance.__main__ import main
from verify_variance.simulations import devices, doctor, random
from verify_variance.simulations.doctor import examine, generator_is_right


@pytest.fixture
def quick(monkeypatch):
    """Without timing the machine."""
    monkeypatch.setattr(doctor, "throughput", lambda devices: 123.4)


def facts(report):
    return {line[:11].strip(): line[12:] for line in report.splitlines()}


def test_the_report_of_a_fit_machine(quick):
    report, healthy = examine()
    said = facts(report)
    assert healthy
    assert said["generator"] == "gives its known answers"
    assert said["platform"] == jax.default_backend()
    assert said["devices"] == ", ".join(map(str, jax.local_devices()))
    assert (said["jax"], said["numpy"]) == (jax.__version__, np.__version__)
    assert said["throughput"] == "123 million normals a second"
    assert list(said)[-2:] == ["cache", "optional"]


def test_the_report_names_the_cache_in_use_and_what_is_installed(quick, monkeypatch):
    monkeypatch.setattr(doctor, "find_spec", lambda name: name == "torch" or None)
    said = facts(examine()[0])
    assert said["optional"] == "torch"
    monkeypatch.setattr(doctor, "find_spec", lambda name: None)
    assert facts(examine()[0])["optional"] == "none installed"
    assert said["cache"] == f"{jax.config.jax_compilation_cache_dir} (writable)"


def test_a_cache_that_the_user_has_chosen_is_the_one_that_is_named(quick, tmp_path):
    ours = jax.config.jax_compilation_cache_dir
    try:
        jax.config.update("jax_compilation_cache_dir", str(tmp_path))
        assert facts(examine()[0])["cache"] == f"{tmp_path} (writable)"
    finally:
        jax.config.update("jax_compilation_cache_dir", ours)


def test_a_cache_that_cannot_be_written_is_said_and_is_no_illness(quick, monkeypatch):
    monkeypatch.setattr(doctor.os, "access", lambda folder, mode: False)
    report, healthy = examine()
    assert healthy
    assert "(not writable: every first run compiles anew)" in facts(report)["cache"]


PLANTED = {
    "words swapped": lambda right: lambda *words: right(*words)[::-1],
    "one bit": lambda right: lambda *words: (right(*words)[0] ^ 1, right(*words)[1]),
    "key and counter swapped": lambda right: lambda a, b, c, d: right(c, d, a, b),
}


@pytest.mark.parametrize("name", PLANTED)
def test_a_wrong_generator_is_found(quick, monkeypatch, name):
    assert generator_is_right()
    monkeypatch.setattr(random, "threefry_2x32", PLANTED[name](random.threefry_2x32))
    assert not generator_is_right()
    report, healthy = examine()
    assert not healthy
    assert facts(report)["generator"] == "WRONG: not the known answers"


@pytest.mark.parametrize(("healthy", "code"), [(True, 0), (False, 70)])
def test_the_command_exits_70_on_a_machine_that_is_not_fit(
    quick, monkeypatch, capfd, healthy, code
):
    monkeypatch.setattr(doctor, "generator_is_right", lambda: healthy)
    monkeypatch.setattr(sys, "argv", ["verify-variance", "doctor"])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code == code
    out, err = capfd.readouterr()
    assert ("WRONG" in out) != healthy
    assert err == ""


def test_throughput_is_measured_in_millions_of_normals_a_second():
    speed = doctor.throughput(devices.use_platform("auto"))
    # a millionth of a machine would be slower, and no machine is this fast
    assert 0.1 < speed < 1e7
