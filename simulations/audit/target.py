"""What a target names: a function, a module, a model of a library, or a checkpoint.

A module is imported only because the user named it. Nothing of a checkpoint is executed.
"""

from __future__ import annotations

import importlib
import os
import pkgutil
import sys
from functools import partial
from typing import Any

from ...stats.audit.findings import Audit
from ...stats.audit.options import AuditOptions
from ...stats.checks import InputError, near_names
from ...stats.shown import error_said, shortened
from ..taps.audit import audit_model
from ..taps.hub import hub_model
from ..taps.library import is_layer, library_model
from ..taps.models import Model, as_function, framework_of, is_factory, made_by
from .guard import guarded

EXTRAS = ("torch", "flax", "keras", "equinox", "transformers")


def audit_target(target: Any, options: AuditOptions) -> Audit:
    """Audit what `target` is or names.

    Raises InputError where it names nothing that can be found, imported or audited.
    """
    if not isinstance(target, str):
        return _audit_object(target, _name_of(target), options)
    if target.startswith("hf:"):
        return _audit_model(hub_model(target), options)
    return _audit_object(imported(target), target, options)


def _audit_object(found: Any, name: str, options: AuditOptions) -> Audit:
    if framework_of(found):
        if is_layer(found) or (called := as_function(found)) is None:
            return _audit_model(library_model(found, name, options), options)
        found = called
    if is_factory(found):
        return _audit_model(made_by(found, name), options)
    if not callable(found):
        raise InputError(
            f"target {name} must be a function of (q, k, v) or a module, got {type(found).__name__}"
        )
    from .function import audit_function

    return audit_function(found, name, options)


def _audit_model(model: Model, options: AuditOptions) -> Audit:
    with guarded():
        return audit_model(model, options)


def imported(target: str) -> Any:
    """The object that `pkg.mod:attr` names, the current folder being importable.

    Raises InputError, with the near names, where there is none or its import fails.
    """
    module, colon, attribute = target.partition(":")
    names = [*module.split("."), *attribute.split(".")]
    if not colon or not all(map(str.isidentifier, names)):
        file = module.removeprefix("./").removesuffix(".py").replace("/", ".")
        meant = f"{file}:{attribute}"
        way = f"; did you mean {meant}?" if colon and module.endswith(".py") else ""
        raise InputError(
            "target must be pkg.mod:attr, hf:NAME or the path of a checkpoint, got "
            f"{shortened(target)}{way}"
        )
    found: Any = _module(module)
    for name in attribute.split("."):
        try:
            found = getattr(found, name)
        except AttributeError:
            public = [known for known in dir(found) if not known.startswith("_")]
            near = near_names(name, public)
            near = near if public and len(near) < 200 else near.partition("known:")[0].strip()
            raise InputError(
                f"target {target}: {module} has no {name!r}; {near or 'check its name'}"
            ) from None
    return found


def _module(name: str) -> Any:
    folder = os.getcwd()
    if folder not in sys.path and "" not in sys.path:
        sys.path.insert(0, folder)
    if name.partition(".")[0] == "keras":
        os.environ.setdefault("KERAS_BACKEND", "jax")  # the one backend that is always there
    try:
        with guarded():
            return importlib.import_module(name)
    except ModuleNotFoundError as error:
        missing = error.name or name
        if not (name == missing or name.startswith(f"{missing}.")):
            raise InputError(f"import of {name} failed: no module {missing!r}") from None
        raise InputError(f"no module {missing!r}; {_near_modules(missing)}") from None
    except KeyboardInterrupt:
        raise
    except BaseException as error:  # whatever a foreign module raises ends its import alone
        raise InputError(f"import of {name} failed: {error_said(error)}") from None


def _near_modules(missing: str) -> str:
    """The way to a module that is not there: the extra that has it, or the near names."""
    if missing in EXTRAS:
        return f"pip install 'verify-variance[{'hf' if missing == 'transformers' else missing}]'"
    parent, _, name = missing.rpartition(".")
    paths = getattr(sys.modules.get(parent), "__path__", None) if parent else [os.getcwd()]
    names = sorted(found.name for found in pkgutil.iter_modules(paths))
    near = near_names(name, names).partition("known:")[0].strip()
    return near or f"looked in {'the current folder and ' if not parent else ''}sys.path"


def _name_of(target: Any) -> str:
    inner = target.func if isinstance(target, partial) else target
    try:
        return f"{inner.__module__}:{inner.__qualname__}"
    except Exception:  # a foreign object may raise anything when it is looked at
        return f"{type(inner).__module__}:{type(inner).__qualname__}"
