"""Models of transformers, drawn at random from their configurations: offline, one layer.

`hf:NAME` is a model type (gpt2, llama, t5, bert...), with `hf:NAME:key=value,...` over its default
configuration. Vocabulary and feed-forward width, which attention does not see, are cut down.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from ...stats.checkpoints.architecture import Declared, initial_sds, scale_of
from ...stats.checks import InputError, near_names
from .models import Model, seeded_call
from .seen import Seen

BATCH, LENGTH, VOCABULARY = 4, 48, 256
_FIRST = 8  # ids below it are special in some vocabularies
_LAYERS = ("num_hidden_layers", "num_layers", "n_layer", "n_layers", "encoder_layers",
           "decoder_layers", "num_decoder_layers")  # fmt: skip
_NARROW = ("intermediate_size", "ffn_dim", "n_inner", "d_ff", "hidden_dim", "ffn_hidden_size",
           "encoder_ffn_dim", "decoder_ffn_dim", "moe_intermediate_size")  # fmt: skip
_SPECIAL = ("pad_token_id", "bos_token_id", "eos_token_id", "mask_token_id", "sep_token_id")
_ONE_LAYER = {"gpt_neo": {"attention_types": [[["global"], 1]], "num_layers": 1}}


def hub_model(target: str) -> Model:
    """The model that `hf:NAME[:key=value,...]` names.

    Raises InputError without transformers, for an unknown model type, and for settings that its
    configuration refuses.
    """
    try:
        import torch
        import transformers
    except ImportError as error:
        raise InputError(
            f"target {target} needs {error.name}; pip install 'verify-variance[hf]'"
        ) from None
    name, _, settings = target.removeprefix("hf:").partition(":")
    known = list(transformers.models.auto.configuration_auto.CONFIG_MAPPING_NAMES)
    if name not in known:
        near = near_names(name, known).partition("known:")[0].strip()
        raise InputError(
            f"unknown model type {name!r} of transformers {transformers.__version__}; "
            f"{near or 'for example gpt2, llama, t5, bert'}"
        )
    config = _config(transformers, name, _settings(settings))
    declared = config.to_dict()

    def tap(seed: int) -> list[Seen]:
        from .dispatch import tapped_torch

        model = seeded_call(lambda: _model(transformers, config, target), seed)
        generator = torch.Generator().manual_seed(seed)
        return tapped_torch(model, **_inputs(torch, model, config, generator))

    def scale(layer: int, d_k: int) -> tuple[float, str]:
        scale, factor, _ = scale_of(declared, layer, d_k, Declared())
        return factor, scale

    def scheme(width: int, d_k: int, heads: int) -> tuple[float, float]:
        sds = initial_sds(declared, width, d_k)
        assert sds is not None
        return sds[0] ** 2, sds[1] ** 2

    facts = {"transformers": transformers.__version__, "torch": torch.__version__}
    facts |= {"config": ", ".join(filter(None, [f"{name}'s default", settings])) + ", 1 layer"}
    sds = initial_sds(declared, 2, 2)
    recipe = "initializer_range" if sds and sds[0] == sds[1] else "T5's initialisation"
    tokens = f"{BATCH} x {LENGTH} tokens through the model's own embeddings"
    return Model(target, facts, tap, BATCH, True, scale, scheme if sds else None, recipe, tokens)


def _settings(text: str) -> dict[str, Any]:
    """`key=value,...` as a configuration's arguments, numbers as numbers.

    Examples:
        >>> _settings("hidden_size=64,scale_attn_weights=false")
        {'hidden_size': 64, 'scale_attn_weights': False}

    """
    settings: dict[str, Any] = {}
    for part in filter(None, text.split(",")):
        key, equals, value = part.partition("=")
        if not equals or not key.isidentifier():
            raise InputError(f"settings must be key=value,..., got {part!r}")
        try:
            settings[key] = json.loads(value)
        except json.JSONDecodeError:
            settings[key] = value
    return settings


def _config(transformers: Any, name: str, settings: Mapping[str, Any]) -> Any:
    """The configuration with one layer and little that attention does not see."""
    known = transformers.AutoConfig.for_model(name).to_dict()
    for key in settings:
        if key not in known:
            near = near_names(key, known).partition("known:")[0]
            raise InputError(f"{name} has no setting {key!r}; {near or 'see its configuration'}")
    try:
        config = transformers.AutoConfig.for_model(name, **{**_ONE_LAYER.get(name, {}), **settings})
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"transformers refuses this configuration of {name}: {said}") from None
    small = dict.fromkeys(_LAYERS, 1) | dict.fromkeys(_NARROW, 64) | {"vocab_size": VOCABULARY}
    for key, value in small.items():
        if key not in settings and isinstance(getattr(config, key, None), int):
            setattr(config, key, value)
    for key in _SPECIAL:
        if isinstance(getattr(config, key, None), int) and getattr(config, key) >= VOCABULARY:
            setattr(config, key, 0)
    return config


def _model(transformers: Any, config: Any, target: str) -> Any:
    try:
        model = transformers.AutoModel.from_config(config, attn_implementation="eager")
    except Exception as error:
        said = " ".join(str(error).split())[:200]
        raise InputError(f"transformers cannot make {target}: {said}") from None
    return model.get_encoder() if config.is_encoder_decoder else model


def _inputs(torch: Any, model: Any, config: Any, generator: Any) -> dict[str, Any]:
    """Distinct ids in every sequence, or an image of noise."""
    name = getattr(model, "main_input_name", "input_ids")
    if name == "pixel_values":
        size, channels = config.image_size, getattr(config, "num_channels", 3)
        return {name: torch.randn(BATCH, channels, size, size, generator=generator)}
    if name != "input_ids":
        raise InputError(f"{type(model).__name__} wants {name}; write a function of seed that "
                         "returns (module, inputs) and give its name")  # fmt: skip
    ids = [torch.randperm(VOCABULARY - _FIRST, generator=generator)[:LENGTH] for _ in range(BATCH)]
    return {name: torch.stack(ids) + _FIRST}
