"""Where the query and key projections of known models stand in their files, as plain data.

Every arrangement keeps the d_k rows of a head together, so that a layout only says at which row
each head begins. What can go wrong: one name stands for several arrangements (`c_attn` of gpt2,
of gpt_bigcode and of qwen 1), told apart by the model type of config.json.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Literal

from ..checks import InputError
from ..shown import shortened

Arrangement = Literal["separate", "stacked", "grouped"]


@dataclass(frozen=True, slots=True)
class Layout:
    """One way to name and to arrange the projections.

    The query's tensor is named `SITE.{query}{tensor}`, `query` a regular expression; the key's
    `SITE.{key}{tensor}`. Fused ones have no key: `stacked` is [q; k; v] of all heads, `grouped`
    has for each head of k its queries, k and v, which is q, k, v of each head in turn without
    shared keys, and [q; k; v] with one key for all. `inputs_first` is a Conv1D, transposed against
    a Linear. A layout with `model_types` is for those alone and goes before one without.
    """

    models: str
    query: str
    key: str = ""
    arrangement: Arrangement = "separate"
    inputs_first: bool = False
    model_types: tuple[str, ...] = ()
    tensor: str = ".weight"

    @property
    def bias(self) -> str:
        """How the name of a bias ends where that of its matrix ends in `tensor`."""
        return self.tensor.replace("weight", "bias")


# (?:self_attn.)q_proj and so on: the path before is free
LAYOUTS: tuple[Layout, ...] = (
    Layout("llama, mistral, qwen, gemma, opt, clip, whisper, gptj, vit", "q_proj", "k_proj"),
    Layout("bert, roberta, esm; vit before transformers 5", "query", "key"),
    Layout("deberta_v2", "query_proj", "key_proj"),
    Layout("distilbert, xlm", "q_lin", "k_lin"),
    Layout("t5, mpnet", "q", "k"),
    Layout("llama as Meta released it", "wq", "wk"),
    Layout("diffusers", "to_q", "to_k"),
    Layout("gpt_bigcode", "c_attn", "", "grouped", model_types=("gpt_bigcode",)),
    Layout("qwen 1", "c_attn", "", "stacked", model_types=("qwen",)),
    Layout("gpt2 (Conv1D)", "c_attn", "", "stacked", inputs_first=True),
    Layout("phi3", "qkv_proj", "", "stacked"),
    Layout("mpt, dbrx, modernbert", "Wqkv", "", "stacked"),
    Layout("timm", "qkv", "", "stacked"),
    Layout("torch.nn.MultiheadAttention", "", "", "stacked", tensor="in_proj_weight"),
    Layout("chatglm", "query_key_value", "", "stacked", model_types=("chatglm",)),
    Layout("gpt_neox, bloom, falcon, persimmon", "query_key_value", "", "grouped"),
)

_PATH = r"(?P<site>(?:[A-Za-z0-9_-]+\.)*)"
UNSUPPORTED = {
    r"(kv_a_proj|kv_b_proj|q_a_proj|q_b_proj)": "multi-head latent attention (deepseek) has "
    "factorised keys, which are not read",
    r"\.(qweight|weight_scale|weight_scale_inv|weight_packed|SCB)$": "quantised weights are not "
    "read; give the checkpoint that they were made from",
}
_UNREAD_TYPES = {"codegen": "codegen splits q, v, k over 4 devices of its own, which is not read"}


@dataclass(frozen=True, slots=True)
class Site:
    """One attention: the path before its tensors, its layout, and the names of its matrices."""

    path: str
    layout: Layout
    query: str
    key: str

    @property
    def layer(self) -> int:
        """The number of its layer, as its path says; 0 where it has none."""
        found = re.search(r"\.(\d{1,9})\.", f".{self.path}.")
        return int(found[1]) if found else 0


def find_sites(shapes: Mapping[str, tuple[int, ...]], model_type: str = "") -> list[Site]:
    """Every attention whose projections are there, in the order of the layers.

    Raises InputError where there is none, with the names that were seen.

    Examples:
        >>> shapes = {"h.0.q_proj.weight": (8, 8), "h.0.k_proj.weight": (4, 8)}
        >>> [(site.path, site.layer, site.key) for site in find_sites(shapes)]
        [('h.0', 0, 'h.0.k_proj.weight')]

    """
    if why := _unread(shapes, model_type):
        raise InputError(f"this checkpoint cannot be audited: {why}")
    found: dict[str, Site] = {}
    matchers = [
        (layout, re.compile(rf"{_PATH}{layout.query}{re.escape(layout.tensor)}"))
        for layout in sorted(LAYOUTS, key=lambda layout: not layout.model_types)
        if not layout.model_types or model_type in layout.model_types
    ]
    for name, shape in shapes.items():
        for layout, matcher in matchers:
            match = matcher.fullmatch(name) if _is_matrix(shape) else None
            if match is None:
                continue
            key = f"{match['site']}{layout.key}{layout.tensor}" if layout.key else name
            if _is_matrix(shapes.get(key, ())):
                found.setdefault(name, Site(match["site"].rstrip("."), layout, name, key))
            break
    if not found:
        raise InputError(
            "no query and key projections of a known layout, got "
            f"{_listed(shapes)}; known: {', '.join(layout.models for layout in LAYOUTS)}"
        )
    return sorted(found.values(), key=lambda site: _natural(site.path))


def _is_matrix(shape: tuple[int, ...]) -> bool:
    return len(shape) == 2 and min(shape) > 0


def _unread(names: Iterable[str], model_type: str) -> str:
    """Why a checkpoint is one that is known and not supported, or ""."""
    if model_type in _UNREAD_TYPES:
        return _UNREAD_TYPES[model_type]
    for pattern, why in UNSUPPORTED.items():
        for name in names:
            if re.search(pattern, name):
                return f"{why} (seen: {shortened(name)})"
    return ""


def _listed(names: Iterable[str], most: int = 8) -> str:
    """The first names of weights, numbers of layers left out."""
    plain = dict.fromkeys(re.sub(r"\.\d+\.", ".*.", name[:200]) for name in names)
    said = [shortened(name) for name in plain][: most + 1]
    more = f" and {len(plain) - most} more" if len(plain) > most else ""
    return ", ".join(said[:most]) + more if said else "no tensors"


def _natural(path: str) -> list[tuple[int, str]]:
    """A key that sorts layer 10 after layer 9."""
    parts = path.split(".")
    return [(int(p), "") if p.isdecimal() and len(p) < 10 else (-1, p) for p in parts]


def head_starts(
    layout: Layout, n_heads: int, n_kv_heads: int, d_k: int
) -> tuple[list[int], list[int]]:
    """First row of each head's queries, and of the keys that it attends to.

    Examples:
        >>> grouped = Layout("", "", arrangement="grouped")
        >>> head_starts(grouped, 4, 2, 10)  # q q k v, q q k v
        ([0, 10, 40, 50], [20, 20, 60, 60])

    """
    shared = n_heads // n_kv_heads
    groups = [head // shared for head in range(n_heads)]
    if layout.arrangement == "grouped":
        sizes = shared + 2
        queries = [(group * sizes + head % shared) * d_k for head, group in enumerate(groups)]
        return queries, [(group * sizes + shared) * d_k for group in groups]
    first = n_heads if layout.arrangement == "stacked" else 0
    return [head * d_k for head in range(n_heads)], [(first + group) * d_k for group in groups]
