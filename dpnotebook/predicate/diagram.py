"""Multi-valued decision diagrams: the canonical form of a predicate.

A node asks for the level of one attribute and leads, for each set of levels, to another node; attributes are asked in
the order of the domain, sets that lead to the same node are one, and a node that always leads to the same node is left
out. Two predicates mean the same exactly if their diagrams are equal (Srinivasan et al. 1990, after Bryant 1986).
Sets of levels are ints read as bits, so that an edge over 10^5 levels costs one machine instruction per 64 of them.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import NDArray

from dpnotebook.domain.values import Mask
from dpnotebook.errors import PredicateError

MAX_NODES = 100_000
MAX_HEIGHT = 100
LEAF = 2**62
ALL = -1  # as bits: every level

T = TypeVar("T")


class Node:
    """A node; equal nodes have equal digests. Immutable by convention: only this module makes them."""

    __slots__ = ("digest", "edges", "height", "index")

    def __init__(self, index: int, edges: tuple[tuple[int, Node], ...], digest: bytes) -> None:
        self.index = index
        self.edges = edges
        self.digest = digest
        self.height: int = 1 + max((child.height for _, child in edges), default=-1)
        if self.height > MAX_HEIGHT:  # what walks over diagrams is recursive
            raise PredicateError(f"this depends on more than {MAX_HEIGHT} columns at once; ask about fewer")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Node) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)


FEW_LEVELS = 64  # of an attribute
FALSE = Node(LEAF, (), b"0")
TRUE = Node(LEAF, (), b"1")


def pack(mask: NDArray[np.bool_]) -> int:
    """Return a mask of levels as bits."""
    return int.from_bytes(np.packbits(mask, bitorder="little").tobytes(), "little")


def unpack(bits: int, size: int) -> NDArray[np.bool_]:
    """Return bits as a mask of `size` levels."""
    data = np.frombuffer(bits.to_bytes((size + 7) // 8, "little"), dtype=np.uint8)
    return np.unpackbits(data, count=size, bitorder="little").astype(bool)


def node(index: int, edges: Iterable[tuple[int, Node]]) -> Node:
    """Return the node with these disjoint edges, which together cover all levels of attribute `index`."""
    merged: dict[Node, int] = {}
    for bits, child in edges:
        if bits:
            merged[child] = merged.get(child, 0) | bits
    if len(merged) == 1:
        return next(iter(merged))
    # ordered by their lowest level, which is a canonical order of disjoint sets
    ordered = sorted(merged.items(), key=lambda item: item[1] & -item[1])
    digest = hashlib.sha256(index.to_bytes(8, "little"))
    for child, bits in ordered:
        data = bits.to_bytes((bits.bit_length() + 7) // 8, "little")
        digest.update(len(data).to_bytes(8, "little") + data + child.digest.ljust(32))
    return Node(index, tuple((bits, child) for child, bits in ordered), digest.digest())


def choice(index: int, bits: int, size: int) -> Node:
    """Return the diagram of "attribute `index` has one of these levels"."""
    return node(index, ((bits, TRUE), (((1 << size) - 1) ^ bits, FALSE)))


def combine(left: Node, right: Node, conjunction: bool) -> Node:
    """Return the diagram of "left and right", or of "left or right".

    Raises
    ------
    PredicateError
        If the result would pass 10^5 nodes, or depend on more than 100 columns along one path.
    """
    return _combined(left, right, (FALSE, TRUE) if conjunction else (TRUE, FALSE), {})


def _combined(a: Node, b: Node, ends: tuple[Node, Node], memo: dict[tuple[bytes, bytes], Node]) -> Node:
    """Return what `combine` does; `ends` is what settles it, and what leaves it to the other one."""
    stop, skip = ends
    if stop in (a, b):
        return stop
    if a in (skip, b):
        return b
    if b == skip:
        return a
    key = (a.digest, b.digest) if a.digest < b.digest else (b.digest, a.digest)
    found = memo.get(key)
    if found is None:
        index = min(a.index, b.index)
        pairs = _meet(_edges(a, index), _edges(b, index))
        found = memo[key] = node(index, [(bits, _combined(one, two, ends, memo)) for bits, one, two in pairs])
        if len(memo) > MAX_NODES:
            raise PredicateError(
                "this condition ties its columns together in too many ways to keep track of; ask a simpler one, or "
                "ask for its parts one by one"
            )
    return found


def _edges(at: Node, index: int) -> tuple[tuple[int, Node], ...]:
    return at.edges if at.index == index else ((ALL, at),)


def _meet(left: Sequence[tuple[int, Node]], right: Sequence[tuple[int, Node]]) -> Iterator[tuple[int, Node, Node]]:
    """Yield the non-empty intersections of two partitions of the levels."""
    for rest, one in left:
        for bits, two in right:
            common = rest & bits
            if common:
                yield common, one, two
                rest ^= common
                if not rest:
                    break


def combine_all(parts: Sequence[Node], conjunction: bool) -> Node:
    """Return the diagram of all, or of any, of the parts; pairwise, so that a thousand parts stay fast."""
    level = list(parts) or [TRUE if conjunction else FALSE]
    while len(level) > 1:
        pairs = [combine(one, two, conjunction) for one, two in zip(level[::2], level[1::2], strict=False)]
        level = pairs + level[2 * len(pairs) :]
    return level[0]


def negate(root: Node) -> Node:
    """Return the diagram of "not root"."""
    return fold(root, FALSE, TRUE, lambda at, below: node(at.index, [(bits, below(child)) for bits, child in at.edges]))


def fold(root: Node, true: T, false: T, step: Callable[[Node, Callable[[Node], T]], T]) -> T:
    """Return a value computed from the leaves up, each node once."""
    return _Fold(true, false, step)(root)


class _Fold(Generic[T]):
    """What `fold` works out: no function that refers to itself, which would be garbage that Python has to look for."""

    __slots__ = ("_memo", "_step")

    def __init__(self, true: T, false: T, step: Callable[[Node, Callable[[Node], T]], T]) -> None:
        self._memo: dict[bytes, T] = {TRUE.digest: true, FALSE.digest: false}
        self._step = step

    def __call__(self, at: Node) -> T:
        found = self._memo.get(at.digest)
        if found is None:
            found = self._memo[at.digest] = self._step(at, self)
        return found


def nodes(root: Node) -> list[Node]:
    """Return the inner nodes, each before those that lead to it, in an order that depends on the diagram only."""
    found: dict[bytes, Node] = {}
    _note(root, found)
    return list(found.values())


def _note(at: Node, found: dict[bytes, Node]) -> None:
    """Add the inner nodes that a node leads to, and then itself."""
    if not at.edges or at.digest in found:
        return
    for _, child in at.edges:
        _note(child, found)
    found[at.digest] = at


def count_paths(root: Node) -> int:
    """Return the number of paths that lead to TRUE."""
    return fold(root, 1, 0, lambda at, below: sum(below(child) for _, child in at.edges))


def paths(root: Node) -> Iterator[dict[int, int]]:
    """Yield the paths that lead to TRUE, as levels (bits) by attribute; their boxes are disjoint."""

    def go(at: Node, taken: dict[int, int]) -> Iterator[dict[int, int]]:
        if at == TRUE:
            yield taken
        for bits, child in at.edges:
            if child != FALSE:
                yield from go(child, {**taken, at.index: bits})

    return go(root, {})


def boxes(root: Node, shape: Sequence[int]) -> Iterator[dict[int, Mask]]:
    """Yield the disjoint boxes of what leads to TRUE, as masks of levels by attribute; boxes share masks."""
    masks: dict[tuple[int, int], Mask] = {}

    def mask(index: int, bits: int) -> Mask:
        found = masks.get((index, bits))
        if found is None:
            found = masks[index, bits] = unpack(bits, shape[index])
            found.setflags(write=False)
        return found

    for path in paths(root):
        yield {index: mask(index, bits) for index, bits in path.items()}


def cells(root: Node, place_of: Mapping[int, int], shape: Sequence[int]) -> Mask:
    """Return whether each cell leads to TRUE.

    Parameters
    ----------
    root
        A diagram.
    place_of
        The axis of each attribute that it asks for, ascending.
    shape
        The number of levels along every axis.
    """

    def widen(below: Mask, place: int) -> Mask:
        missing_axes = len(shape) - place - below.ndim
        return np.broadcast_to(below.reshape((1,) * missing_axes + below.shape), tuple(shape[place:]))

    def step(at: Node, below: Callable[[Node], Mask]) -> Mask:
        place = place_of[at.index]
        found = np.empty(tuple(shape[place:]), dtype=bool)
        for bits, child in at.edges:
            found[unpack(bits, shape[place])] = widen(below(child), place + 1)
        return found

    return widen(fold(root, np.array(True), np.array(False), step), 0)


def box(sides: dict[int, int], shape: Sequence[int]) -> Node:
    """Return the diagram of a box: levels (bits) by attribute, all of them at once."""
    found = TRUE
    for index in sorted(sides, reverse=True):
        found = node(index, ((sides[index], found), (((1 << shape[index]) - 1) ^ sides[index], FALSE)))
    return found


def levels_at(root: Node, index: int, every: int) -> int:
    """Return the levels (bits) that attribute `index` can have in the diagram; `every` is all of them."""

    def step(at: Node, below: Callable[[Node], int]) -> int:
        if at.index > index:
            return every
        found = 0
        for bits, child in at.edges:
            if at.index < index:
                found |= below(child)
            elif child != FALSE:
                found |= bits
        return found

    return fold(root, every, 0, step)


# Decision diagrams as JSON values: `nodes` are [column, [[child, [[start, stop], ...]], ...]].
#
# Child 0 is "no", 1 is "yes", and 2 and up are the nodes in order; the sets of levels that lead to a child are runs.
def write(root: Node, names: Sequence[str], shape: Sequence[int]) -> dict[str, Any]:
    """Return a diagram as JSON values, the same for equal diagrams."""
    number = {FALSE: 0, TRUE: 1}
    found = []
    for at in nodes(root):
        edges = [[number[child], _runs(bits, shape[at.index])] for bits, child in at.edges]
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


def _runs(bits: int, size: int) -> list[list[int]]:
    """Return the maximal runs of some of so many levels, each as its first level and the one after its last."""
    if size <= FEW_LEVELS:  # a handful of cuts: sooner than numpy begins
        cuts, ends = [], bits ^ (bits << 1)
        while ends:
            cuts.append((ends & -ends).bit_length() - 1)
            ends &= ends - 1
    else:
        inside = np.concatenate([[False], unpack(bits, size), [False]])
        cuts = np.flatnonzero(inside[1:] != inside[:-1]).tolist()
    return [list(run) for run in zip(cuts[::2], cuts[1::2], strict=True)]


def _child(known: list[Node], number: int) -> Node:
    if number < 0:
        raise ValueError("nodes are counted from 0")
    return known[number]


def _node(index: int, size: int, edges: list[tuple[Node, list[list[int]]]]) -> Node:
    """Return a recorded node, checked: its sets of levels are disjoint and complete, and columns keep their order."""
    covered, found = 0, []
    for child, runs in edges:
        bits = 0
        for start, stop in runs:
            if not 0 <= start < stop <= size:
                raise ValueError("levels out of range")
            bits |= (1 << stop) - (1 << start)
        if child.index <= index:
            raise ValueError("columns out of order")
        if covered & bits:
            raise ValueError("levels twice")
        covered |= bits
        found.append((bits, child))
    if covered != (1 << size) - 1:
        raise ValueError("levels missing")
    return node(index, found)
