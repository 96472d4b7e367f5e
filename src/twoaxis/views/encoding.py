"""A view as plain values and arrays, and back: what files keep of it.

Reading never runs code from a file: the kind is looked up in a table of the views known here.
A view of somebody's own is kept as the matrix that it became at its points. The blocks of a
system of equations may each have an array; these are laid end to end, and each block says the
shape of its own.
"""

from __future__ import annotations

import dataclasses
import math
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from twoaxis.errors import InputError
from twoaxis.views.blocks import Blocks
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


# Blocks within blocks are allowed; more of them than this is no view but an attack.
_DEEPEST = 8


def view_to_plain(view: View, points: Any) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Return the kind and options of a view, and its array where it has one.

    Examples
    --------
    >>> view = Blocks([Pointwise(), Weighted(loss_weights=[1.0, 3.0])], weights=[1.0, 0.5])
    >>> plain, array = view_to_plain(view, np.arange(2.0))
    >>> plain["views"]
    [{'kind': 'pointwise'}, {'kind': 'weighted', 'shape': [2]}]
    >>> array.tolist()
    [1.0, 3.0]
    """
    for kind, plain in _BY_OPTIONS.items():
        if type(view) is plain:
            assert dataclasses.is_dataclass(view)
            return {"kind": kind, **dataclasses.asdict(view)}, None
    for kind, (known, name) in _BY_ARRAY.items():
        if type(view) is known:
            return {"kind": kind}, np.asarray(getattr(view, name), dtype=float)
    if type(view) is Blocks:
        return _blocks_to_plain(view, points)
    return {"kind": "dense", "was": view.describe()}, view.bind(points).matrix()


def view_from_plain(plain: Any, array: ArrayLike | None = None) -> View:
    """Return the view that `view_to_plain` described."""
    return _from_plain(plain, array, depth=0)


def _from_plain(plain: Any, array: ArrayLike | None, depth: int) -> View:
    options = dict(plain) if isinstance(plain, dict) else {}
    kind = options.pop("kind", None)
    options.pop("was", None)
    try:
        if kind == "blocks" and depth < _DEEPEST:
            return _blocks_from_plain(array=array, depth=depth, **options)
        if isinstance(kind, str) and kind in _BY_OPTIONS:
            if isinstance(options.get("cells"), list):  # JSON has no tuples
                options["cells"] = tuple(options["cells"])
            return _BY_OPTIONS[kind](**options)
        if isinstance(kind, str) and kind in _BY_ARRAY and array is not None:
            known, name = _BY_ARRAY[kind]
            return known(**{name: array}, **options)
    except TypeError:
        pass  # options that the view does not have: the same answer as for an unknown kind
    raise InputError(
        f"a view of the kind {', '.join([*_BY_OPTIONS, *_BY_ARRAY, 'blocks'])}, with its options",
        repr(plain)[:200],
        "the description was changed or damaged, or a newer version wrote it",
    )


def _blocks_to_plain(view: Blocks, points: Any) -> tuple[dict[str, Any], NDArray[Any] | None]:
    """Describe every block; their arrays come end to end in one vector."""
    each = points if isinstance(points, list | tuple) else [points] * len(view.views)
    described, arrays = [], []
    for own, where in zip(view.views, each, strict=True):
        plain, array = view_to_plain(own, where)
        if array is not None:
            plain = {**plain, "shape": list(array.shape)}
            arrays.append(array.ravel())
        described.append(plain)
    plain = {"kind": "blocks", "views": described, "weights": np.asarray(view.weights).tolist()}
    return plain, np.concatenate(arrays) if arrays else None


def _blocks_from_plain(views: Any, weights: Any, array: ArrayLike | None, depth: int) -> Blocks:
    """Deal the vector out to the blocks again."""
    left = np.zeros(0) if array is None else np.asarray(array, dtype=float).ravel()
    found = []
    for plain in views:
        options = dict(plain) if isinstance(plain, dict) else {}
        shape, own = options.pop("shape", None), None
        if shape is not None:
            whole = isinstance(shape, list) and all(type(n) is int and n >= 0 for n in shape)
            count = math.prod(shape) if whole else -1
            if not 0 <= count <= left.size:
                raise InputError(
                    "an array of a block whose values are all there",
                    f"the shape {shape!r:.80} and {left.size} values",
                    "the description was changed or damaged",
                )
            own, left = left[:count].reshape(shape), left[count:]
        found.append(_from_plain(options, own, depth + 1))
    if left.size:
        raise InputError(
            "a block for every value of the view's array",
            f"{left.size} values that belong to none",
            "the description was changed or damaged",
        )
    return Blocks(found, weights=weights)
