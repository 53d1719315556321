"""Functions of others: how they are called, what they return, raise and are named."""

import functools

import numpy as np
import pytest
import verify_variance as vv
from verify_variance.simulations.taps.models import is_factory
from verify_variance.stats.checks import InputError

QUICK = {"dk": [40, 64], "dtype": ["float32"]}


def attention(q, k, v):
    logits = q @ k.swapaxes(-1, -2) * np.float32(q.shape[-1] ** -0.5)
    e = np.exp(logits - logits.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True) @ v


def decorated(*args, **options):  # by a decorator without functools.wraps
    return attention(*args, **options)


def all_default(q=None, k=None, v=None):
    return attention(q, k, v)


def by_name(*, query, key, value, scale=None):
    return attention(query if scale is None else query * np.float32(scale), key, value)


def in_a_dictionary(q, k, v):
    return {"output": attention(q, k, v), "weights": None}


def merged(q, k, v):  # (batch, length, heads d_k)
    out = attention(q, k, v).swapaxes(1, 2)
    return out.reshape(*out.shape[:2], -1)


class Opaque:
    def __getattr__(self, name):
        raise RuntimeError(name)

    def __call__(self, q, k, v):
        return attention(q, k, v)


@pytest.mark.parametrize(
    "target",
    [
        decorated,
        all_default,
        lambda *a: attention(*a),
        attention.__call__,
        functools.partial(attention),
        in_a_dictionary,
        merged,
    ],
)
def test_a_function_is_taken_as_it_is_written(target):
    audit = vv.audit(target, **QUICK)
    assert (audit.verdict, audit.record["kind"]) == ("match", "callable"), audit.text()
    assert "d_k = 64 it divides by 8.0000" in audit.text()


def test_an_object_that_cannot_be_looked_at_is_called_all_the_same():
    audit = vv.audit(Opaque(), **QUICK)
    assert audit.verdict == "match"
    assert audit.record["target"].endswith("test_foreign:Opaque")


def test_arguments_by_name_alone():
    audit = vv.audit(by_name, **QUICK)
    assert audit.record["facts"]["layout"].startswith("bhld")
    causes = {row["cause"] for row in audit.record["rows"] if row["verdict"] == "mismatch"}
    assert causes == {"scale-on-top-of-default"}


def test_factories_are_functions_that_cannot_be_attention():
    assert is_factory(lambda heads=4, width=256, depth=2: None)
    assert is_factory(lambda: None)
    assert not is_factory(all_default)
    assert not is_factory(decorated)


class Outcome(BaseException):
    """As pytest.skip raises it: no Exception."""


class Mute(Exception):
    def __str__(self):
        raise RuntimeError


def raising(error, after=0):
    calls = iter(range(10**9))

    def target(q, k, v):
        if next(calls) >= after:
            raise error
        return attention(q, k, v)

    return target


ERRORS = {
    "an exit": (SystemExit(5), "SystemExit: 5"),
    "no Exception": (Outcome("skipped"), "Outcome: skipped"),
    "no text": (Mute(), "Mute"),
    "lines, colours and a bell": (ValueError("a\n\x1b[31mb\x07"), r"ValueError: a \x1b[31mb\x07"),
}


@pytest.mark.parametrize("name", ERRORS)
@pytest.mark.parametrize("after", [0, 5, 30, 60])
def test_an_error_at_any_call_is_told_and_ends_nothing(name, after):
    error, said = ERRORS[name]
    audit = vv.audit(raising(error, after), **QUICK)
    assert (audit.verdict, audit.exit_code) == ("undecided", 3)
    rows = audit.record["rows"]
    assert rows[-1]["verdict"] == "undecided"
    assert said in rows[-1]["said"]
    assert after == 0 or "takes some calls and fails in others" in rows[-1]["said"]
    assert audit.text().replace("\n", "").isprintable()


def test_an_interrupt_is_no_error_of_the_function():
    with pytest.raises(KeyboardInterrupt):
        vv.audit(raising(KeyboardInterrupt(), 5), **QUICK)


@pytest.mark.parametrize(
    ("target", "said"),
    [
        ("", "target must be pkg.mod:attr, hf:NAME or the path of a checkpoint, got ''"),
        ("./m.py:good", "got './m.py:good'; did you mean m:good"),
        ("a/m.py:good", "did you mean a.m:good"),
        ("math:pi.x", "has no 'x'; did you mean|math has no 'x'"),
        ("math:sqrt:x", "target must be pkg.mod:attr"),
        ("not_there.safetensors", "not_there.safetensors must be an ordinary file"),
    ],
)
def test_a_wrong_target_says_the_way_out(target, said):
    with pytest.raises(InputError, match=said) as raised:
        vv.audit(target)
    assert not str(raised.value).endswith("known:")
