"""SQL that draws a uniform sample of a unit's rows or groups.

What is drawn depends on nothing but what the unit itself has and a secret that is fresh in every query: when another
unit leaves, the sample stays. Places in a fixed order are drawn, or groups, by the order of their keyed digests.

Source: Wilson et al., section 4.2.3 (stability bounding: a uniform sample of the partitions of each user).
"""

from __future__ import annotations

from collections.abc import Sequence

from dpnotebook.dialect.attributes import secret
from dpnotebook.sql.bounded_sums import value_column
from dpnotebook.sql.rewrite.contribution_bounding import Parts
from dpnotebook.sql.select import Key

PLAIN = ("integer", "number", "boolean", "time")  # kinds whose texts have no vertical bar and are never empty

LISTED = 32


def digest(key: str, parts: Sequence[str], unit: str = "u") -> str:
    """Return a keyed digest of texts and of a unit, as SQL; different parts make different texts."""
    return f"md5(concat({secret(key + '|')}, {''.join(f'{part}, ' for part in parts)}CAST({unit} AS VARCHAR)))"


def text_of(column: str, key: Key | None = None) -> str:
    """Return the text of one column of a group, as SQL; what follows it cannot be mistaken for a part of it."""
    text = f"CAST({column} AS VARCHAR)"
    if key is not None and key.levels is None and key.kind not in PLAIN:
        text = f"md5({text})"  # without a bar in it, and short: a database has no room for many long texts in a row
    return f"coalesce({text}, ''), '|'"


def turn(order: str, partition: Sequence[str] = ("u",)) -> str:
    """Return the number of a row in an order within its unit."""
    return f"row_number() OVER (PARTITION BY {', '.join(partition)} ORDER BY {order})"


def first(column: str, most: int) -> str:
    """Return the condition that a number counted from one is at most `most`.

    Both ends are given: for `<=` alone DuckDB keeps lists of the least rows, which takes twice as long.
    """
    return f"{column} BETWEEN 1 AND {int(most)}"


def group_texts(parts: Parts) -> list[str]:
    """Return the texts of the group of a row, as SQL."""
    return [text_of(name, key) for name, key in zip(parts.keys, parts.select.keys, strict=True)]


def draw_rows(parts: Parts, columns: Sequence[str], most: int) -> None:
    """Keep a uniform sample of each unit's rows: places in a fixed order, by the order of their digests."""
    if parts.read_sample(columns):
        return
    parts.keep_listed(columns)
    if parts.select.single:
        return
    every, many, chosen = _place(parts, columns, most)
    parts.choose("drawn", [*columns, f"{turn(_drawn_by(parts))} AS turn"])
    _keep_first(parts, chosen, most, every, many)


def place_rows(parts: Parts, columns: Sequence[str], most: int) -> None:
    """Number the rows of units with more than so many, in a fixed order: `place`, NULL of others."""
    parts.keep_listed(columns)
    every, many, chosen = _place(parts, columns, most)
    others = f"SELECT {chosen}, NULL AS place FROM {_others(every, many)}"
    parts.add("all_rows", f"SELECT {chosen}, place FROM {parts.last} UNION ALL {others}")


def draw_placed(parts: Parts, placed: str, columns: Sequence[str], most: int) -> None:
    """Keep the sample that `draw_rows` keeps, of rows that have their places, in DuckDB.

    Its MD5 is a number too, with the first byte lowest. Its first eight bytes, turned around, are in the order of the
    texts, and are sorted in half the time. Two of a unit are alike once in 2^64; the whole texts would tell then.
    """
    chosen = ", ".join(["u", *parts.keys, *columns])
    number = _drawn_by(parts).replace("md5(", "md5_number(", 1)
    low = f"CAST({number} & CAST({(1 << 64) - 1} AS UHUGEINT) AS UBIGINT)"
    parts.add("digested", f"SELECT {chosen}, {low} AS low FROM {placed} WHERE place IS NOT NULL")
    parts.choose("drawn", [*columns, f"{turn(_turned_around('low'))} AS turn"])
    # Lists of the least numbers of a unit are faster than putting all in order, where they are short.
    few = f"turn <= {int(most)}" if most <= LISTED else first("turn", most)
    some = f"SELECT {chosen} FROM {parts.last} WHERE {few}"
    parts.add("kept", f"{some} UNION ALL SELECT {chosen} FROM {placed} WHERE place IS NULL")


def _place(parts: Parts, columns: Sequence[str], most: int) -> tuple[str, str, str]:
    """Add a part with the places of the rows of units that have more than so many; return what all others are in."""
    # Rows that are equal in all that is used of them can change places: the sample is the same.
    order = ", ".join([*parts.keys, *columns]) or "u"
    every = parts.hold()
    many = _with_more(parts, most)
    chosen = ", ".join(["u", *parts.keys, *columns])
    parts.add("placed", f"SELECT {chosen}, {turn(order)} AS place FROM {every} JOIN {many} ON u = many_u")
    return every, many, chosen


def _drawn_by(parts: Parts) -> str:
    return digest(parts.key, [text_of("place")])


def _turned_around(number: str) -> str:
    """Return SQL of a number of 64 bits whose bytes stand in the opposite order."""
    for bits, kept in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        mask = f"CAST({kept} AS UBIGINT)"
        number = f"((({number} & {mask}) << {bits}) | (({number} >> {bits}) & {mask}))"
    return number


def draw_within_groups(parts: Parts, columns: Sequence[str], inputs: Sequence[int]) -> list[str]:
    """Number the rows of each unit and group that have a value, or a pair of values, in a random order.

    Parameters
    ----------
    parts
        The query; a part is added.
    columns
        The columns of its last part.
    inputs
        Numbers of one input or of a pair, as a component has them.

    Returns
    -------
    The columns with the number.
    """
    name, first, last = "_".join(map(str, inputs)), inputs[0], inputs[-1]
    values = [f"y{name}"] if len(inputs) == 1 else [value_column(first, last), value_column(last, first)]
    place, number = f"place{name}", f"turn{name}"
    numbered = [*columns, number]
    if parts.select.single:
        parts.choose("drawn", [*columns, f"1 AS {number}"])
        return numbered
    by = ["u", *parts.keys]
    in_order = ", ".join(f"{value} NULLS LAST" for value in values)
    parts.choose("placed", [*columns, f"{turn(in_order, by)} AS {place}"])
    drawn_by = digest(parts.key, [*group_texts(parts), text_of(place), f"'{name}|'"])
    order = f"CASE WHEN {values[0]} IS NOT NULL THEN {drawn_by} END NULLS LAST"
    parts.choose("drawn", [*columns, f"{turn(order, by)} AS {number}"])
    return numbered


def draw_groups(parts: Parts, columns: Sequence[str], most: int) -> None:
    """Keep a uniform sample of each unit's groups; there is one row for each."""
    if parts.select.single or not parts.keys:
        return
    drawn_by = digest(parts.key, group_texts(parts))
    if most == 1:  # most units have more
        parts.choose("drawn", [*columns, f"{turn(drawn_by)} AS turn"])
        parts.choose("kept", columns, "turn = 1")
        return
    every = parts.hold()
    many = _with_more(parts, most)
    chosen = ", ".join(["u", *parts.keys, *columns])
    parts.add("drawn", f"SELECT {chosen}, {turn(drawn_by)} AS turn FROM {every} JOIN {many} ON u = many_u")
    _keep_first(parts, chosen, most, every, many)


def draw_values(parts: Parts, value: str, most: int) -> None:
    """Keep a uniform sample of the different values of each unit, in whatever groups it has them."""
    if parts.select.single:
        return
    chosen = ", ".join(["u", *parts.keys, value])
    parts.add("different", f"SELECT DISTINCT {chosen} FROM {parts.last} WHERE {value} IS NOT NULL")
    every = parts.hold()
    many = _with_more(parts, most)
    drawn_by = digest(parts.key, [*group_texts(parts), text_of(value, Key(value))])
    parts.add("drawn", f"SELECT {chosen}, {turn(drawn_by)} AS turn FROM {every} JOIN {many} ON u = many_u")
    _keep_first(parts, chosen, most, every, many)


def _with_more(parts: Parts, most: int) -> str:
    """Add a part with the units that have more than so many rows in the last one, and return its name.

    Usually these are few, and only they are looked at closer: putting rows in an order takes most of the time.
    """
    parts.add("many", f"SELECT u AS many_u FROM {parts.last} GROUP BY u HAVING count(*) > {int(most)}")
    return parts.last


def _keep_first(parts: Parts, chosen: str, most: int, every: str, many: str) -> None:
    """Add a part with the first rows of the units in the last one, and all rows of the others."""
    some = f"SELECT {chosen} FROM {parts.last} WHERE {first('turn', most)}"
    parts.add("kept", f"{some} UNION ALL SELECT {chosen} FROM {_others(every, many)}")


def _others(every: str, many: str) -> str:
    """Return what stands behind FROM for the rows of units that have no more than count."""
    return f"{every} LEFT JOIN {many} ON u = many_u WHERE many_u IS NULL"
