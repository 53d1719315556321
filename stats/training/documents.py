"""The statements on training of the three articles, by the ids of `claims documents`."""

from __future__ import annotations

import math
from collections.abc import Iterator

from .arms import CONTROL, REFERENCE
from .finals import Table
from .paired import Interval
from .statements import Part, Statement

WIDE, NARROW = "d_k 64", "d_k 16"
DEEP, TOPICS = "two layers", "two topics"
_NONE = "none"


def _final(
    says: str, places: tuple[str, ...], quantity: str, low: float = -math.inf,
    high: float = math.inf, arm: str = _NONE,
) -> Iterator[Part]:  # fmt: skip
    """A quantity of an arm after training."""
    for place in places:

        def measure(table: Table, place: str = place) -> Interval:
            return table.mean(place, arm, quantity)

        yield Part(says, place, measure, low, high, (arm,))


def _against(
    says: str, places: tuple[str, ...], quantity: str, low: float = -math.inf,
    high: float = math.inf, arm: str = _NONE, other: str = "", rates: tuple[bool, ...] = (False,),
    reference: str = REFERENCE,
) -> Iterator[Part]:  # fmt: skip
    """The paired difference of an arm's quantity to the reference's, or to its `other` one."""
    for place in places:
        for tuned in rates:

            def measure(table: Table, place: str = place, tuned: bool = tuned) -> Interval:
                return table.against(
                    place, arm, quantity, tuned=tuned, reference=reference, other=other
                )

            yield Part(says, place, measure, low, high, (arm, reference), tuned)


def _stuck(arm: str, name: str, places: tuple[str, ...]) -> Iterator[Part]:
    """The loss hardly falls, and not below that of a model without attention."""
    for place in places:
        for tuned in _BOTH:

            def falls(table: Table, place: str = place, tuned: bool = tuned) -> Interval:
                return table.share(place, arm, "fall", tuned=tuned)

            says = f"fall of the loss, {name} as a share of scaled"
            yield Part(says, place, falls, high=0.1, arms=(arm,), tuned=tuned)
    says = f"validation loss, {name} minus no-attention"
    yield from _against(
        says, places, "validation_loss", 0.0, arm=arm, rates=_BOTH, reference=CONTROL
    )


_BOTH = (False, True)
_WORSE = "validation loss, {} minus scaled"


def _learnable(start: str) -> Iterator[Part]:
    arm, places = f"learnable:{start}", (WIDE,)
    yield from _against(_WORSE.format(arm), places, "validation_loss", 0.0, arm=arm, rates=_BOTH)
    yield from _against(
        f"loss of {arm} at the end minus scaled at a third of the steps", places,
        "validation_loss", 0.0, arm=arm, other="loss_at_third", rates=_BOTH,
    )  # fmt: skip
    yield from _against(
        f"largest rise of the loss in a step, {arm} minus scaled", places, "largest_rise", 0.0,
        arm=arm,
    )  # fmt: skip


def _powers(power: str) -> Iterator[Part]:
    arm = f"power:{power}"
    yield from _against(f"accuracy, {arm} minus scaled", (TOPICS,), "accuracy", 0.0, arm=arm)
    yield from _against(
        f"largest rise of the loss in a step, {arm} minus scaled", (TOPICS,), "largest_rise", 0.0,
        arm=arm,
    )  # fmt: skip


STATEMENTS: tuple[Statement, ...] = (
    Statement(
        "A19",
        "validation accuracy 52 % unscaled, 87 % scaled after three epochs",
        (
            *_final("accuracy, unscaled", (TOPICS,), "accuracy", high=0.55),
            *_against("accuracy, unscaled minus scaled", (TOPICS,), "accuracy", high=-0.05),
        ),
        "the article's own data and model, which it does not state",
    ),
    Statement(
        "A20",
        "unscaled, all heads come to look at the first token only",
        tuple(_final("weight of the first key, unscaled", (WIDE, NARROW, DEEP), "first_key", 0.5)),
    ),
    Statement(
        "A32",
        "the factor stays right throughout training",
        tuple(
            _final(
                "sd of the logits after training, scaled",
                (WIDE, NARROW, DEEP),
                "logit_std",
                0.5,
                2.0,
                "sqrt-dk",
            )
        ),
        "whether another factor, or one that follows, would train better",
    ),
    Statement(
        "A35",
        "layer norm on the scores costs 12 BLEU and attends to padding",
        tuple(
            _against(
                _WORSE.format("layer norm"),
                (WIDE,),
                "validation_loss",
                0.0,
                arm="score-layernorm",
                rates=_BOTH,
            )
        ),
        "BLEU and padding: nothing is translated or padded here",
    ),
    Statement(
        "A36",
        "a learnable factor is unstable, takes three times as long and ends slightly worse",
        (*_learnable("1"), *_learnable("sqrt-dk")),
    ),
    Statement(
        "A41",
        "d_k^0.6 or d_k^0.8 instead of sqrt(d_k): 0.3 % more accurate, less stable",
        (*_powers("0.6"), *_powers("0.8")),
        "a difference of 0.3 %, far below these intervals",
    ),
    Statement(
        "B09",
        "a run stuck at a loss of 2.3 had logits of sd 15",
        tuple(_stuck("sd-15", "sd 15", (WIDE,))),
        "the run that the anecdote is of",
    ),
    Statement(
        "B12",
        "two unscaled layers: eight heads become alike and look at the last token",
        (
            *_final("overlap of the heads' maps, unscaled", (DEEP,), "head_overlap", 0.5),
            *_against(
                "overlap of the heads' maps, unscaled minus scaled", (DEEP,), "head_overlap", 0.0
            ),
            *_final("weight of the query's own key, the last, unscaled", (DEEP,), "own_key", 0.5),
        ),
    ),
    Statement(
        "B19",
        "scaled, the model converges within 15 epochs to a lower loss",
        tuple(
            _against(
                _WORSE.format("unscaled"),
                (WIDE, NARROW, DEEP),
                "validation_loss",
                0.0,
                rates=_BOTH,
            )
        ),
        "convergence, and 15 epochs of data that are not stated",
        direction=True,
    ),
    Statement(
        "B20",
        "unscaled heat maps show each position looking at one near token",
        (
            *_final("largest weight of a row, unscaled", (WIDE, NARROW), "max_prob", 0.5),
            *_final("weight of the four nearest keys, unscaled", (WIDE, NARROW), "near_keys", 0.5),
        ),
    ),
    Statement(
        "C13",
        "without the factor the loss does not fall and maps are noise",
        tuple(_stuck(_NONE, "unscaled", (WIDE, NARROW))),
        "whether a map is noise: the figure shows them",
    ),
    Statement(
        "C15",
        "growth over several layers pushes softmax into saturation",
        (
            *_final(
                "sd of the logits, unscaled: second layer minus first",
                (DEEP,),
                "logit_std_growth",
                0.0,
            ),
            *_final("saturated rows of the second layer, unscaled", (DEEP,), "saturated_2", 0.5),
        ),
        "more layers than two, and layers without a norm before them",
    ),
)
"""Every claim of the documents that only training can tell of."""
