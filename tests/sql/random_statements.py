"""Random statements: many are refused, and the rest must be sound whatever they say."""

TABLES = {
    "visits": ["uid", "age", "region", "cost", "n"],
    "users": ["uid", "name", "region", "income", "boss"],
    "clients": ["uid", "x"],
    "people": ["age", "sex"],
    "regions": ["region", "pop", "boss"],
    "days": ["day", "uid"],
}
LITERALS = ["1", "2.5", "'N'", "NULL", "TRUE", "-3"]


class Maker:
    """Writes random statements over the tables of `ownership_data`.

    Parameters
    ----------
    rng
        The numpy generator of choices.
    """

    def __init__(self, rng):
        self.rng = rng
        self.aliases = 0
        self.common = {}

    def choose(self, *values):
        return values[self.rng.integers(len(values))]

    def chance(self, share):
        return self.rng.random() < share

    def statement(self):
        """Return a statement."""
        self.aliases, self.common = 0, {}
        parts = []
        for name in ("a", "visits", "regions"):
            if self.chance(0.15):
                text, columns = self.query(2)
                parts.append(f"{name} AS ({text})")
                self.common[name] = columns
        text, _ = self.select(3, top=True)
        return (f"WITH {', '.join(parts)} " if parts else "") + text

    def query(self, depth):
        left, columns = self.select(depth)
        if not self.chance(0.2):
            return left, columns
        word = self.choose("UNION ALL", "UNION", "EXCEPT", "INTERSECT")
        right, _ = self.select(depth) if self.chance(0.3) else (left, columns)
        return f"{left} {word} {right}", columns

    def select(self, depth, top=False):
        """Return a select, and the names of its columns."""
        text, *first = self.source(depth)
        sources = [first]
        for _ in range(self.choose(0, 0, 1, 1, 2) if depth > 0 else 0):
            right, *more = self.source(depth - 1)
            text += self.join(right, sources, more)
            sources.append(more)
        where = f" WHERE {self.condition(sources, depth)}" if self.chance(0.4) else ""
        if top or self.chance(0.25):
            return self.grouped(text + where, sources, top)
        if self.chance(0.2) and len(sources) == 1:
            return f"SELECT * FROM {text}{where}", first[1]
        unit = f"{sources[0][0]}.uid" if "uid" in sources[0][1] and self.chance(0.9) else self.column(sources)
        items = [(unit, "uid")]
        for _ in range(self.choose(1, 2)):
            plain = self.column(sources)
            shown = self.choose(plain, plain, self.expression(sources))
            items.append((shown, self.choose("age", "region", "uid", "u", "c0", "k") if shown != plain else plain))
        if self.chance(0.2):
            items.reverse()
        listed = [f"{node} AS {name.split('.')[-1]}" for node, name in items]
        distinct = "DISTINCT " if self.chance(0.15) else ""
        tail = " LIMIT 3" if self.chance(0.02) else ""
        names = list(dict.fromkeys(name.split(".")[-1] for _, name in items))
        return f"SELECT {distinct}{', '.join(listed)} FROM {text}{where}{tail}", names

    def grouped(self, text, sources, top):
        keys = [self.column(sources) for _ in range(self.choose(0, 1, 1, 2))]
        if not top and "uid" in sources[0][1]:
            keys.insert(0, f"{sources[0][0]}.uid")
        about = self.column(sources)
        calls = [self.choose("COUNT(*)", f"COUNT({about})", f"SUM({about})", f"MAX({about})") + " AS k"]
        calls += [f"COUNT(DISTINCT {sources[0][0]}.uid) AS units"] if self.chance(0.1) else []
        having = " HAVING COUNT(*) > 1" if self.chance(0.2) else ""
        group = f" GROUP BY {', '.join(keys)}" if keys else ""
        return f"SELECT {', '.join(keys + calls)} FROM {text}{group}{having}", [*(k.split(".")[-1] for k in keys), "k"]

    def source(self, depth):
        """Return something in FROM, what it is called, and its columns."""
        if depth > 0 and self.chance(0.3):
            self.aliases += 1
            text, columns = self.query(depth - 1)
            alias = self.choose(f"q{self.aliases}", f"s{self.aliases - 1}")
            return f"({text}) AS {alias}", alias, columns
        known = TABLES | self.common
        table = self.choose("visits", "visits", "users", "users", *known, *self.common)
        if self.chance(0.6):
            self.aliases += 1
            alias = self.choose(f"t{self.aliases}", f"S{self.aliases}")
            return f"{table} AS {alias}", alias, known[table]
        return table, table, known[table]

    def join(self, right, sources, more):
        alias, columns = more
        word = self.choose("JOIN", "JOIN", "LEFT JOIN", "RIGHT JOIN", "FULL JOIN", "CROSS JOIN")
        if word == "CROSS JOIN":
            return f" CROSS JOIN {right}"
        left, others = self.choose(*sources)
        both = [name for name in columns if name in others]
        if both and self.chance(0.4):
            return f" {word} {right} USING ({self.choose(*both, both[0])})"
        name = self.choose(*both, both[0]) if both and self.chance(0.8) else None
        on = f"{left}.{name or self.choose(*others)} = {alias}.{name or self.choose(*columns)}"
        more = self.choose(
            "", "", f" AND {left}.{self.choose(*others)} = 2", f" AND {alias}.{columns[0]} > 1", " OR TRUE"
        )
        return f" {word} {right} ON {on}{more if self.chance(0.5) else ''}"

    def column(self, sources):
        alias, columns = self.choose(*sources)
        return f"{alias}.{self.choose(*columns)}"

    def expression(self, sources):
        first, second = self.column(sources), self.column(sources)
        return self.choose(
            f"{first} + 1",
            f"{first} / {second}",
            f"COALESCE({first}, {second})",
            f"CASE WHEN {first} IS NULL THEN {second} END",
            f"CAST({first} AS {self.choose('INTEGER', 'TEXT', 'DOUBLE', 'DATE')})",
            f"UPPER({first})",
        )

    def condition(self, sources, depth):
        column = self.column(sources)
        if depth > 0 and self.chance(0.3):
            table = self.choose("regions", "regions", "days", "users")
            name = self.choose(*TABLES[table])
            inner = self.choose(f"r.{name} = {column}", f"r.{name} = {column}", f"{column} IS NULL")
            return self.choose(
                f"EXISTS (SELECT 1 FROM {table} r WHERE {inner})",
                f"{column} IN (SELECT {name} FROM {table} r WHERE {self.choose(inner, 'TRUE')})",
                f"{column} > (SELECT MAX({self.choose(f'r.{name}', column)}) FROM {table} r WHERE {inner})",
            )
        simple = self.choose(
            f"{column} = {self.choose(*LITERALS)}", f"{column} > {self.column(sources)}", f"{column} > 1"
        )
        return simple if self.chance(0.7) else f"({simple} {self.choose('AND', 'OR')} {column} IS NOT NULL)"
