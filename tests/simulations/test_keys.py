"""Keys depend on every part of (seed, cell, block), and block indices never wrap."""

import hashlib

import jax
import numpy as np
import pytest
from verify_variance.simulations.keys import block_words, cell_key
from verify_variance.simulations.recipes import block_key, cell_words
from verify_variance.stats.cases import Case


def test_cell_key_is_the_head_of_a_sha_256():
    digest = hashlib.sha256(b'7\n{"d_k":64}').hexdigest()
    assert cell_key(7, '{"d_k":64}') == (int(digest[:8], 16), int(digest[8:16], 16))


def test_every_field_but_the_scale_changes_the_key():
    cases = [
        Case(),
        Case(d_k=65),
        Case(elements_k="uniform"),
        Case(sigma_q=2.0),
        Case(mean_k=0.5),
        Case(dtype="float64"),
        Case(n_keys=10),
    ]
    keys = {cell_words(case, seed) for case in cases for seed in (0, 1, 2**70)}
    assert len(keys) == 3 * len(cases)
    assert cell_words(Case(scale="sqrt-dk"), 0) == cell_words(Case(), 0)


@pytest.mark.parametrize("block", [0, 1, 2**32 - 1, 2**32, 2**64 - 1])
def test_block_words_hold_the_index(block):
    high, low = block_words(block)
    assert high << 32 | low == block


@pytest.mark.parametrize("block", [-1, 2**64])
def test_a_block_index_that_would_wrap_is_refused(block):
    with pytest.raises(ValueError, match=r"block index must be from 0 to 2\^64 - 1, got"):
        block_words(block)


def test_a_negative_seed_is_refused():
    with pytest.raises(ValueError, match="seed must be a non-negative integer, got -1"):
        cell_key(-1, "{}")


def test_blocks_of_a_cell_have_different_keys():
    index = np.arange(100_000, dtype=np.uint32)
    high, low = np.divmod(index, np.uint32(1000))
    first, second = jax.jit(block_key)(cell_words(Case(), 0), high, low)
    assert len(set(zip(np.asarray(first), np.asarray(second), strict=True))) == index.size
