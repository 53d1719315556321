"""Fewer queries than keys, as in cross-attention and in decoding with a cache, and more of them.

A query must weigh the keys as it does among as many queries as keys: at its own place counted from
the first key, or from the last one, as in a cache. Without masks and positions both are the same;
with them it shows to which end queries are aligned.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ...stats.audit.findings import Finding
from .black_box import Array
from .compared import compared
from .scaling import first_line
from .subject import N_KEYS, Subject

_FEW = (1, 5)  # queries: decoding, and cross-attention


def length_findings(subject: Subject, factor: float, given: str = "") -> list[Finding]:
    """What 1 and 5 queries on 16 keys make of the factor, and where masks and positions put them.

    What both say the same way is said of 1 query alone. `given` names an argument that was given.
    """
    one, several = (list(_of_length(subject, queries, factor, given)) for queries in _FEW)
    said = {finding.cause for finding in one}
    return one + [f for f in several if f.verdict == "match" or f.cause not in said]


def _of_length(subject: Subject, queries: int, factor: float, given: str) -> Iterator[Finding]:
    counted = "1 query" if queries == 1 else f"{queries} queries"
    place = ", ".join(filter(None, (counted, f"{N_KEYS} keys", given)))
    met = ", ".join(filter(None, (given, f"{counted} and {N_KEYS} keys")))
    few, k = subject.draw(subject.d_k)
    few = few[:, :queries]
    try:
        seen = subject.box.weights(few, k)[0]
    except (Exception, SystemExit) as error:
        said = f"With {met} it fails: {first_line(error)}."
        yield Finding("lengths", place, "measured", said, "equal-lengths")
        return
    wanted = [_among_all(subject, few, k, end) for end in (False, True)]
    first, last = (compared(seen, weights) for weights in wanted)
    room = 10 * subject.rtol
    best = min(first, last, key=lambda one: one.off)
    scaled = next((one for one in (first, last) if one.scaled(room)), None)
    measured = (scaled or best).times(factor)
    if best.off <= room:
        yield Finding("lengths", place, "match", "", None, factor, measured, room)
        if max(first.off, last.off) > room:
            keys = int((np.nan_to_num(seen) > 0).any((0, 1)).sum())
            yield _aligned(place, met, keys, last.off <= room)
    elif scaled is not None and not _fewer(seen, wanted[0]):
        said = (
            f"The factor depends on the number of queries: {factor:.6g} with {N_KEYS} of them, "
            f"{measured:.6g} with {met}."
        )
        slug = "factor-by-queries"
        yield Finding("lengths", place, "mismatch", said, slug, factor, measured, room)
    elif compared(*wanted).off <= room:  # places do not matter, so that lengths should not
        yield _wrong(place, met, seen)
    else:
        said = (
            f"With {met}, weights are not those of the same queries among as many as keys: is it "
            "made for equal lengths? Not judged."
        )
        yield Finding("lengths", place, "measured", said, "other-lengths")


def _fewer(seen: Array, wanted: Array) -> bool:
    """Whether keys have no weight in any row that have some among as many queries as keys."""
    return bool(((seen <= 0).all((0, 1)) & (wanted > 0).any((0, 1))).any())


def _wrong(place: str, met: str, seen: Array) -> Finding:
    """Weights that change with the number of queries, where nothing depends on places."""
    used = int((seen > 0).any((0, 1)).sum())
    if used < N_KEYS:
        said = f"With {met}, only {used} keys have any weight."
        return Finding(
            "lengths", place, "mismatch", said, "keys-dropped", float(N_KEYS), float(used)
        )
    said = f"With {met}, weights are not those of the same queries among as many as keys."
    return Finding("lengths", place, "mismatch", said, "other-lengths")


def _among_all(subject: Subject, few: Array, k: Array, at_end: bool) -> Array:
    """The weights of a few queries among as many queries as keys, at the first or last places."""
    q = subject.draw(subject.d_k)[0]
    rows = slice(-few.shape[1], None) if at_end else slice(few.shape[1])
    q[:, rows] = few
    return subject.box.weights(q, k)[0][:, rows]


def _aligned(place: str, met: str, keys: int, at_end: bool) -> Finding:
    """To which end queries are aligned; conventions differ, so that it is not judged."""
    if at_end:
        said = f"With {met}, queries stand at the last keys, as decoding with a cache wants."
        return Finding("alignment", place, "measured", said, "aligned-to-end")
    seen = f" and see {keys} of them" if keys < N_KEYS else ""
    said = (
        f"With {met}, queries stand at the first keys{seen}: not what decoding with a cache wants."
    )
    return Finding("alignment", place, "measured", said, "aligned-to-start")
