"""Keys: (seed, SHA-256 of the cell's canonical JSON, block index) -> where randomness starts."""

from __future__ import annotations

import hashlib


def cell_key(seed: int, canonical: str) -> tuple[int, int]:
    """Two 32-bit words from SHA-256 over the seed and a cell's canonical JSON.

    The seed is any non-negative integer. Cells that differ in a single field, or seeds that
    differ by one, get unrelated keys.

    Examples:
        >>> cell_key(0, '{"d_k":64}')
        (5623975, 2898789019)

    """
    if seed < 0:
        raise ValueError(f"seed must be a non-negative integer, got {seed}")
    digest = hashlib.sha256(f"{seed}\n{canonical}".encode()).digest()
    return int.from_bytes(digest[:4], "big"), int.from_bytes(digest[4:8], "big")


def block_words(block: int) -> tuple[int, int]:
    """A block index below 2^64 as its high and low 32-bit word, the counter of the block's key.

    The block's key is threefry(cell key, these words): a bijection, so that two blocks of a cell
    never share one.

    Examples:
        >>> block_words(2**32 + 5)
        (1, 5)

    """
    if not 0 <= block < 2**64:
        raise ValueError(f"block index must be from 0 to 2^64 - 1, got {block}")
    return block >> 32, block & 0xFFFFFFFF
