"""What the arguments of attention functions are called, and what a value of each should do."""

from __future__ import annotations

import re
from typing import Literal

Role = Literal[
    "scale", "divisor", "softcap", "bias", "mask", "causal", "window", "learned", "values"
]

ROLES: dict[Role, str] = {
    "values": r"(value|attention_value|v|out|output)_scale",
    "divisor": r"(softmax_)?(temperature|temp|tau)|norm_factor",
    "scale": r"(softmax|sm|qk|attn|attention)?_?(scale|scaling)(_factor|_value)?|multiplier"
    r"|attention_multiplier|logits?_scale|query_scale",
    "softcap": r".*(soft_?cap|softclamp|logit_cap|logits_cap).*",
    "mask": r"(attn|attention|key_padding)?_?mask",
    "causal": r"(is|use)?_?causal",
    "window": r"(sliding|local|attention|attn)?_?window(_size)?",
    "bias": r"(attn|attention|position|rel_pos|relative|alibi)?_?bias|alibi",
    "learned": r"(q|k|qk|query|key)_?(norm)?_?(scale|gain|gamma|weight|scales)|gain|gamma",
}
"""Names by role, the first that matches the whole name wins; compared without case."""


def role_of(name: str) -> Role | None:
    """The role that an argument's name says, None where it says none.

    Examples:
        >>> role_of("softmax_scale"), role_of("logits_soft_cap"), role_of("dropout_p")
        ('scale', 'softcap', None)

    """
    return next((role for role, form in ROLES.items() if re.fullmatch(form, name.lower())), None)
