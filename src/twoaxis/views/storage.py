"""A view as plain values and arrays, and back: what files keep of it.

Reading never runs code from a file: the kind is looked up in a table of the views known here.
A view of somebody's own is kept as the matrix that it became at its points.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.views.dense import Dense
from twoaxis.views.gaussian import Gaussian
from twoaxis.views.patch import Patch
from twoaxis.views.pointwise import Pointwise
from twoaxis.views.view import View
from twoaxis.views.weighted import Weighted

_BY_OPTIONS: dict[str, type[View]] = {
    "pointwise": Pointwise,
    "patch": Patch,
    "gaussian": Gaussian,
}
# Views whose one option is an array: the name of that option.
_BY_ARRAY: dict[str, tuple[type[View], str]] = {
    "weighted": (Weighted, "loss_weights"),
    "dense": (Dense, "matrix"),
}


def view_to_plain(view: View, points: ArrayLike) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Return the kind and options of a view, and its array where it has one."""
    for kind, plain in _BY_OPTIONS.items():
        if type(view) is plain:
            assert dataclasses.is_dataclass(view)
            return {"kind": kind, **dataclasses.asdict(view)}, None
    for kind, (known, name) in _BY_ARRAY.items():
        if type(view) is known:
            return {"kind": kind}, np.asarray(getattr(view, name), dtype=float)
    return {"kind": "dense", "was": view.describe()}, view.bind(points).matrix()


def view_from_plain(plain: Any, array: ArrayLike | None = None) -> View:
    """Return the view that `view_to_plain` described."""
    options = dict(plain) if isinstance(plain, dict) else {}
    kind = options.pop("kind", None)
    options.pop("was", None)
    try:
        if kind in _BY_OPTIONS:
            if isinstance(options.get("cells"), list):  # JSON has no tuples
                options["cells"] = tuple(options["cells"])
            return _BY_OPTIONS[kind](**options)
        if kind in _BY_ARRAY and array is not None:
            known, name = _BY_ARRAY[kind]
            return known(**{name: array}, **options)
    except TypeError:
        pass  # options that the view does not have: the same answer as for an unknown kind
    raise InputError(
        f"a view of the kind {', '.join([*_BY_OPTIONS, *_BY_ARRAY])}, with its options",
        repr(plain)[:200],
        "the description was changed or damaged, or a newer version wrote it",
    )
