"""Decision diagrams as JSON values: `nodes` are [column, [[child, [[start, stop], ...]], ...]].

Child 0 is "no", 1 is "yes", and 2 and up are the nodes in order; the sets of levels that lead to a child are runs.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from dpnotebook.domain.values import Mask
from dpnotebook.errors import PredicateError
from dpnotebook.predicate import diagram
from dpnotebook.predicate.diagram import FALSE, TRUE, Node


def write(root: Node, names: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
    """Return a diagram as JSON values, the same for equal diagrams."""
    number = {FALSE: 0, TRUE: 1}
    found = []
    for at in diagram.nodes(root):
        edges = [[number[child], _runs(diagram.unpack(bits, shape[at.index]))] for bits, child in at.edges]
        found.append([names[at.index], edges])
        number[at] = len(number)
    return {"root": number[root], "nodes": found}


def read(obj: Mapping[str, Any], names: Sequence[str], shape: Sequence[int]) -> Node:
    """Return the diagram that `write` wrote.

    Raises
    ------
    PredicateError
        If the object is no diagram over columns with these names and numbers of levels.
    """
    known = [FALSE, TRUE]
    places = {name: place for place, name in enumerate(names)}
    try:
        for name, edges in obj["nodes"]:
            below = [(_child(known, child), runs) for child, runs in edges]
            known.append(_node(places[name], shape[places[name]], below))
        return _child(known, obj["root"])
    except (KeyError, IndexError, TypeError, ValueError, AttributeError) as error:
        raise PredicateError("this is not a recorded condition over this domain") from error


def _runs(mask: Mask) -> list[list[int]]:
    cuts = [0, *(np.flatnonzero(mask[1:] != mask[:-1]) + 1).tolist(), mask.size]
    first = 0 if mask[:1].any() else 1
    return [list(run) for run in zip(cuts[first::2], cuts[first + 1 :: 2], strict=False)]


def _child(known: list[Node], number: int) -> Node:
    if number < 0:
        raise ValueError("nodes are counted from 0")
    return known[number]


def _node(index: int, size: int, edges: list[tuple[Node, list[list[int]]]]) -> Node:
    """Return a recorded node, checked: its sets of levels are disjoint and complete, and columns keep their order."""
    covered = np.zeros(size, dtype=np.int64)
    found = []
    for child, runs in edges:
        mask = np.zeros(size, dtype=bool)
        for start, stop in runs:
            if not 0 <= start < stop <= size:
                raise ValueError("levels out of range")
            mask[start:stop] = True
        if child.index <= index:
            raise ValueError("columns out of order")
        covered += mask
        found.append((diagram.pack(mask), child))
    if not (covered == 1).all():
        raise ValueError("levels missing or twice")
    return diagram.node(index, found)
