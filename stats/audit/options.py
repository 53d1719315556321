"""What the command `audit` takes besides its target."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields

from ..arrays import LAYOUTS, ROUNDING
from ..cases import Case
from ..checks import MAX_D_K, InputError, choice, count, integer_range, no_duplicates
from ..conventions import expected_number, parse_scale, scale_factor
from ..request import options_of


@dataclass(frozen=True)
class AuditOptions:
    """What is expected of a target, and how it is called.

    Parameters
    ----------
    expected
        Convention of the scale, as --scale writes it: none, sqrt-dk, dk, constant:C, power:P, ...,
        or the factor as a number (sqrt-dk where neither this nor the target says otherwise).
    dk
        Head dimensions at which a function is probed; one for a checkpoint that has no config.json.
    layout
        Order of a function's axes: bhld, blhd, bld or ld (batch, heads, length, d_k); auto tries
        them.
    dtype
        Precisions at which a function is probed; the first is that of every other check.
    n_heads
        Heads of what is audited (a function gets 4; a checkpoint's config.json says it).
    n_kv_heads
        Heads of k where several heads of q share one: of what a function is given (found out if not
        given), of a checkpoint without config.json.
    d_model
        Width of a layer that is made from its class, such as torch.nn:MultiheadAttention.
    seed
        Seed of what is drawn: an integer.

    """

    expected: str | None = None
    dk: tuple[str, ...] = ("16", "40", "48", "64", "72", "80", "96", "128")
    layout: str = "auto"
    dtype: tuple[str, ...] = ("float32", "bfloat16", "float16")
    n_heads: int | None = None
    n_kv_heads: int | None = None
    d_model: int = 256
    seed: str = "0"

    @property
    def wanted(self) -> str | None:
        """The convention that is expected by name, that of a number too; None where none is."""
        if self.expected is None:
            return None
        number = expected_number(self.expected)
        return str(self.expected) if number is None else f"constant:{1 / number:.15g}"

    @property
    def convention(self) -> str:
        """The convention expected of a target that declares none."""
        return self.wanted or "sqrt-dk"

    @property
    def heads(self) -> int:
        """Heads that a function is given."""
        return 4 if self.n_heads is None else self.n_heads

    @property
    def sharings(self) -> tuple[int, ...]:
        """How many query heads of a function share a key head: what to try, in this order.

        Raises InputError where the key heads cannot be shared out evenly.
        """
        heads, few = self.heads, self.n_kv_heads
        if few is None:
            return tuple(n for n in range(1, heads + 1) if heads % n == 0)
        if heads % few:
            raise InputError(
                f"n_kv_heads must divide the heads of a function, got {few} with {heads}; "
                f"for example n_heads={2 * few}"
            )
        return (heads // few,)

    @property
    def sizes(self) -> tuple[int, ...]:
        """The head dimensions as numbers."""
        return integer_range("d_k", self.dk, most=MAX_D_K)

    @property
    def chosen_seed(self) -> int:
        """The seed as a number."""
        return count("seed", self.seed, least=0)

    def factor(self, d_k: int) -> float:
        """The factor of q.k that the convention gives at this head dimension."""
        return scale_factor(Case(d_k, scale=self.convention))

    def check(self) -> None:
        """Refuse what no audit can use, before anything is imported for it."""
        parse_scale(self.convention)
        for size in self.sizes:
            self.factor(size)
        choice("layout", self.layout, ("auto", *LAYOUTS))
        if not self.dtype:
            raise InputError("dtype needs at least one value, got none; for example float32")
        for dtype in self.dtype:
            choice("dtype", dtype, ROUNDING)
        no_duplicates("dtype", self.dtype)
        for name in ("n_heads", "n_kv_heads"):
            if getattr(self, name) is not None:
                count(name, getattr(self, name), most=1024)
        count("d_model", self.d_model, most=2**16)
        _ = self.chosen_seed


def audit_options(given: Mapping[str, object]) -> AuditOptions:
    """Options from keyword arguments, checked; InputError for a name that there is not.

    Examples:
        >>> audit_options({"dk": [16, 64], "expected": "dk"}).sizes
        (16, 64)

    """
    for name in given:
        choice("option", name, [field.name for field in fields(AuditOptions)])
    options = options_of(AuditOptions, dict(given))
    options.check()
    return options
