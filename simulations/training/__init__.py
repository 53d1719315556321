"""A small Transformer trained with one attention scale or another, everything else the same."""
