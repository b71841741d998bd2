"""The language of `where=`: what `DataFrame.query` accepts, as far as a declared domain can answer it.

The text is parsed with `ast` and translated by an explicit list of what is allowed. Nothing is ever evaluated, and
whatever is not on the list is refused with a hint what to write.
"""

from __future__ import annotations

import ast
import copy
import datetime
import re
import unicodedata
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NoReturn, cast

import numpy as np

from dpnotebook.domain import Categories, Dates, Domain, Times
from dpnotebook.domain.attribute import OPERATORS
from dpnotebook.domain.calendar import span_of
from dpnotebook.domain.dates import WEEKDAYS, YEAR_MONTHS
from dpnotebook.errors import PredicateError, shorten
from dpnotebook.predicate.expression import And, Compare, Expression, IsNull, Not, OneOf, Or, column_text

MAX_TEXT = 2_000_000
MAX_NESTING = 100

TOKENS = re.compile(
    r"""(?P<text>'''.*?'''|\"{3}.*?\"{3}|'(?:[^'\\\n]|\\.)*'|"(?:[^"\\\n]|\\.)*")"""
    r"""|(?P<column>`[^`]*`)|(?P<comment>\#[^\n]*)|(?P<break>\s*\n\s*)|(?P<sign>&&|\|\||<>|[&|@`!](?!=))""",
    re.DOTALL,
)
SIGNS = {"&": " and ", "|": " or "}
COMPARISONS: dict[type[ast.cmpop], str] = {
    ast.Eq: "==",
    ast.NotEq: "!=",
    ast.Lt: "<",
    ast.LtE: "<=",
    ast.Gt: ">",
    ast.GtE: ">=",
}
FLIPPED = {"==": "==", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
SIDES = {"both": (">=", "<="), "left": (">=", "<"), "right": (">", "<="), "neither": (">", "<")}
WORDS = {"true", "false", "none", "null", "nan", "na"}
DATES = {"Timestamp", "to_datetime", "date", "datetime", "Timedelta", "to_timedelta", "Period"}

TEXTS: dict[str, Callable[[str, str], bool]] = {
    "contains": lambda text, part: part in text,
    "startswith": str.startswith,
    "endswith": str.endswith,
    "match": str.startswith,
    "fullmatch": str.__eq__,
}
PATTERNS = ("contains", "match", "fullmatch")  # whose text pandas takes for a regular expression
ENDS = ("startswith", "endswith")  # which take several texts as well
NAMED = {"eq": "==", "ne": "!=", "lt": "<", "le": "<=", "gt": ">", "ge": ">="}
PATTERN = re.compile(r"[.^$*+?{}\[\]\\|()]")

SIGN_HINTS = {
    "&&": "write 'and' for &&",
    "||": "write 'or' for ||",
    "<>": "write != for <>",
    "!": "write 'not' for !",
    "@": "@ cannot be followed, since the text is read without your variables; write the value itself, for example by "
    'an f-string: f"age >= {limit}"',
    "`": "there is a backtick without its partner; write `column name`",
}
# In the order in which they are looked for; text processors make such of what is typed.
SLIPS = {
    "===": "==",
    "=>": ">=",
    "=<": "<=",
    "≥": ">=",
    "≤": "<=",
    "≠": "!=",
    "“": 'straight quotes, "',
    "”": 'straight quotes, "',
    "„": 'straight quotes, "',
    "‘": "straight quotes, '",
    "’": "straight quotes, '",
}
# Methods of pandas' .dt that name a part, the part, the number of each name.
NAMES_OF_PARTS: dict[str, tuple[str, dict[str, int]]] = {
    "day_name": ("dayofweek", {name: i for i, name in enumerate(WEEKDAYS)}),
    "month_name": ("month", {name: i for i, name in enumerate(YEAR_MONTHS, 1)}),
}
LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
REFUSED: list[tuple[type[ast.AST] | tuple[type[ast.AST], ...], str]] = [
    (ast.BinOp, "arithmetic is not supported; compare a column with a number worked out beforehand"),
    (ast.Subscript, "square brackets after a name are not supported; write the name alone, `in backticks` if odd"),
    (
        ast.Attribute,
        "a name after a dot is not supported, except .isna(), .notna(), .between(a, b), .isin([...]), .dt and .str",
    ),
    (ast.IfExp, "'if' is not supported; use and, or and not"),
    (ast.NamedExpr, "a condition assigns nothing; write == to compare"),
    (ast.Lambda, "lambda is not supported; write a condition on columns"),
    (LOOPS, "a loop is not supported; write the values themselves"),
    (ast.JoinedStr, "an f-string inside the text is not supported; write the value itself"),
    (ast.Starred, "* is not supported; write the values themselves"),
    ((ast.List, ast.Tuple, ast.Set, ast.Dict), "a list alone is no condition; write column in [...]"),
]


def parse_where(text: str, domain: Domain) -> Expression:
    """Return the expression that a `where=` text means.

    Parameters
    ----------
    text
        A condition such as "age >= 65 and sex in ['F', 'X']"; column names that are no Python names in backticks.
    domain
        The declared columns.

    Raises
    ------
    PredicateError
        If the text is not such a condition.
    """
    if not isinstance(text, str):
        raise PredicateError(f"where= is a text such as \"age >= 65 and sex == 'F'\", not a {type(text).__name__}")
    if not text.strip():
        raise PredicateError("where= is empty; leave it out to count every row")
    if len(text) > MAX_TEXT:
        raise PredicateError(f"where= has {len(text):,} characters, and at most {MAX_TEXT:,} are read")
    if "\0" in text:
        raise PredicateError("where= has a null character in it; delete it")
    source, columns = _rewrite(text)
    try:
        tree = ast.parse(source, mode="eval")
    except (RecursionError, MemoryError):
        raise PredicateError("the condition is nested too deeply; write it flatter") from None
    except (SyntaxError, ValueError) as error:
        raise PredicateError(unreadable(text, error, domain)) from None
    try:
        return _Translation(source, columns, domain).condition(tree.body, 0)
    except RecursionError:
        raise PredicateError("the condition is nested too deeply; write it flatter") from None


def _rewrite(text: str) -> tuple[str, dict[str, str]]:
    """Return the text as Python reads it, and the column that each stand-in name is for.

    As pandas does, & and | become `and` and `or` and bind as loosely; backticked columns become names.
    """
    prefix = "column_"
    while prefix in text:
        prefix += "_"
    columns: dict[str, str] = {}

    def replace(match: re.Match[str]) -> str:
        found = match.group()
        if match.lastgroup == "text":
            return found
        if match.lastgroup == "column":
            stand_in = f"{prefix}{len(columns)}"
            columns[stand_in] = found[1:-1]
            return f" {stand_in} "
        if match.lastgroup == "sign":
            if found in SIGN_HINTS:
                raise PredicateError(f"where= is not understood: {SIGN_HINTS[found]}")
            return SIGNS[found]
        return " "  # a comment or a line break

    return TOKENS.sub(replace, text).strip(), columns


@dataclass(frozen=True)
class _Translation:
    """One text on its way to an expression."""

    source: str
    columns: dict[str, str]
    domain: Domain

    def condition(self, node: ast.expr, depth: int) -> Expression:
        """Return the expression for a tree that stands where a condition is wanted."""
        if depth > MAX_NESTING:
            raise PredicateError("the condition is nested too deeply; write it flatter")
        match node:
            case ast.BoolOp(op, values):
                parts = [self.condition(value, depth + 1) for value in values]
                return And(*parts) if isinstance(op, ast.And) else Or(*parts)
            case ast.UnaryOp(ast.Not() | ast.Invert(), operand):
                return Not(self.condition(operand, depth + 1))
            case ast.Compare(left, ops, comparators):
                sides = [left, *comparators]
                return And(*(self.comparison(sides[i], op, sides[i + 1]) for i, op in enumerate(ops)))
            case ast.Call():
                return self.call(node)
            case ast.Name():
                name = self.column(node)
                if self.domain[name].holds != "boolean":
                    raise PredicateError(f"{name} alone is no condition, since it is not true or false; compare it")
                return Compare(name, "==", True)
            case ast.Constant():
                raise PredicateError(
                    f"{self.words(node)} alone is no condition; write column == value, or column in [...]"
                )
        self.refuse(node)

    def comparison(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expression:
        """Return the expression for one comparison."""
        if isinstance(op, ast.Is | ast.IsNot):
            raise PredicateError("'is' is not supported; write == to compare, or column.isna() for missing values")
        if isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn):
            left, right = _in_numbers(left, right)
        if _is_part(left) or (_is_part(right) and not isinstance(op, ast.In | ast.NotIn)):
            return self.of_part(left, op, right)
        names = [isinstance(side, ast.Name) for side in (left, right)]
        if all(names):
            for side in (left, right):
                if not self.declares(side) and self.words(side).lower() not in WORDS:
                    raise PredicateError(f"{self.words(side)} is not a declared column; a text stands in quotes")
                self.column(side)
            raise PredicateError(
                f"{self.words(left)} and {self.words(right)} are both columns; a column is compared with values only"
            )
        if not any(names):
            for side in (left, right):
                if not self.is_value(side):
                    self.refuse(side)
            raise PredicateError(
                f"{self.words(left)} and {self.words(right)} are both values; compare a column with one"
            )
        if isinstance(op, ast.In | ast.NotIn):
            if not names[0]:
                raise PredicateError(f"write column in [...], the column first; not {self.words(left)} in a column")
            among = OneOf(self.column(left), self.listed(right))
            return Not(among) if isinstance(op, ast.NotIn) else among
        column, other = (left, right) if names[0] else (right, left)
        sign = COMPARISONS[type(op)] if names[0] else FLIPPED[COMPARISONS[type(op)]]
        if isinstance(other, ast.List | ast.Tuple | ast.Set) and sign in ("==", "!="):
            among = OneOf(self.column(column), self.listed(other))
            return Not(among) if sign == "!=" else among
        return Compare(self.column(column), sign, self.value(other))

    def of_part(self, left: ast.expr, op: ast.cmpop, right: ast.expr) -> Expression:
        """Return the expression for one comparison of a part of dates, such as admitted.dt.month, with numbers."""
        flipped = not _is_part(left)
        part, other = (right, left) if flipped else (left, right)
        sign = {ast.In: "==", ast.NotIn: "!="}.get(type(op)) or COMPARISONS[type(op)]
        sign = FLIPPED[sign] if flipped else sign
        several = isinstance(op, ast.In | ast.NotIn) or isinstance(other, ast.List | ast.Tuple | ast.Set)
        if several and sign not in ("==", "!="):
            self.refuse(other)
        name, numbers = self.parts(part)
        values = self.listed(other) if several else [self.value(other)]
        for value in values:
            if isinstance(value, bool) or not isinstance(value, int | float):
                raise PredicateError(f"{self.words(part)} is a number, and {shorten(value)} is none; write one")
        chosen = np.zeros(len(numbers), dtype=bool)
        for value in values:
            chosen |= OPERATORS["==" if sign == "!=" else sign](numbers, value)
        labels = [level for level, wanted in zip(self.domain[name].levels, chosen.tolist(), strict=True) if wanted]
        return Not(OneOf(name, labels)) if sign == "!=" else OneOf(name, labels)

    def parts(self, node: ast.expr) -> tuple[str, Any]:
        """Return the column of dates that a part such as admitted.dt.month is of, and the number of each level."""
        assert isinstance(node, ast.Attribute)
        assert isinstance(node.value, ast.Attribute)
        if not isinstance(node.value.value, ast.Name):
            self.refuse(node)
        name = self.column(node.value.value)
        attribute = self.domain[name]
        if not isinstance(attribute, Dates | Times):
            raise PredicateError(f"{name} holds no dates, so there is no .dt of it; declare it as Dates, if it does")
        return name, attribute.part(node.attr, name)

    def call(self, node: ast.Call) -> Expression:
        """Return the expression for one of the few methods of a column."""
        function = node.func
        called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
        if called in DATES:
            raise PredicateError(f"{self.words(node)} is no condition; write column >= '2024-05-17'")
        if not isinstance(function, ast.Attribute):
            raise PredicateError(f"the function {self.words(function)} is not supported; write a condition on columns")
        if isinstance(function.value, ast.Attribute) and function.value.attr == "str":
            return self.of_texts(function.value.value, function.attr, node)
        if _is_part(function.value):
            return self.method_of_part(function.value, function.attr, node)
        if not isinstance(function.value, ast.Name):
            self.refuse(function.value)
        name = self.column(function.value)
        if any(keyword.arg is None for keyword in node.keywords):
            raise PredicateError("** is not supported; write the values themselves")
        methods: dict[str, Callable[..., Expression]] = {
            "isna": lambda: IsNull(name),
            "isnull": lambda: IsNull(name),
            "notna": lambda: Not(IsNull(name)),
            "notnull": lambda: Not(IsNull(name)),
            "isin": lambda values: OneOf(name, self.listed(values)),
            "between": lambda left, right, inclusive=None: self.between(name, left, right, inclusive),
        }
        methods |= {called: partial(self.compared, name, sign) for called, sign in NAMED.items()}
        if function.attr not in methods:
            raise PredicateError(
                f".{function.attr}() is not supported; the methods of a column are .isna(), .notna(), .between(a, b) "
                "and .isin([...])"
            )
        try:
            return methods[function.attr](*node.args, **{str(keyword.arg): keyword.value for keyword in node.keywords})
        except TypeError:
            raise PredicateError(
                f"{self.words(node)} does not have the arguments it needs: .isna(), .notna(), .between(a, b), "
                ".between(a, b, inclusive='left'), .isin([...])"
            ) from None

    def compared(self, name: str, sign: str, other: ast.expr) -> Expression:
        """Return the expression for column.ge(65), which compares as a sign does."""
        return Compare(name, sign, self.value(other))

    def of_texts(self, column: ast.expr, method: str, node: ast.Call) -> Expression:
        """Return the levels whose text has another text in it, or begins or ends with it: ward.str.contains('ology').

        The text is taken as it is, not as a regular expression.
        """
        if not isinstance(column, ast.Name):
            self.refuse(column)
        name = self.column(column)
        attribute = self.domain[name]
        if not isinstance(attribute, Categories) or attribute.holds != "text":
            raise PredicateError(f"{name} holds no texts, so there is no .str of it")
        options = {str(keyword.arg): self.value(keyword.value) for keyword in node.keywords}
        several = method in ENDS and len(node.args) == 1 and isinstance(node.args[0], ast.Tuple)
        given = self.listed(node.args[0]) if several else [self.value(argument) for argument in node.args]
        fold = options.pop("case", True) is False
        literal = options.pop("regex", None) is False
        options.pop("na", None)
        texts = given and all(isinstance(one, str) for one in given)
        if method not in TEXTS or options or not texts or (len(given) > 1 and not several):
            raise PredicateError(
                f"{self.words(node)} is not supported; the levels that a text is in are {name}.str.contains('a'), "
                f".startswith('a') and .endswith('a'); others are written out: {name} in [...]"
            )
        if method in PATTERNS and not literal and PATTERN.search(given[0]):
            text = shorten(given[0])
            plain = {"match": f".str.startswith({text})", "fullmatch": f" == {text}"}
            itself = f"{name}{plain.get(method, f'.str.contains({text}, regex=False)')}"
            raise PredicateError(
                f"{text} may be a pattern, and patterns are not supported: for the text itself write {itself}, for "
                "several join conditions by 'or'"
            )
        wanted = [one.casefold() if fold else one for one in given]
        levels = [(level, str(level).casefold() if fold else str(level)) for level in attribute.levels]
        return OneOf(name, [level for level, text in levels if any(TEXTS[method](text, one) for one in wanted)])

    def method_of_part(self, part: ast.expr, method: str, node: ast.Call) -> Expression:
        """Return the expression for admitted.dt.month.isin([...]) or .between(a, b)."""
        match method, node.args, node.keywords:
            case "isin", [values], []:
                return self.of_part(part, ast.In(), values)
            case "between", [left, right], []:
                return And(self.of_part(part, ast.GtE(), left), self.of_part(part, ast.LtE(), right))
        raise PredicateError(
            f"{self.words(node)} is not supported; compare {self.words(part)} with numbers, as in .isin([1, 2]) or "
            ".between(1, 3)"
        )

    def between(self, name: str, left: ast.expr, right: ast.expr, inclusive: ast.expr | None) -> Expression:
        """Return the expression for column.between(left, right, inclusive)."""
        side = "both" if inclusive is None else self.value(inclusive)
        if not isinstance(side, str) or side not in SIDES:
            raise PredicateError(f"inclusive= is one of {', '.join(map(repr, SIDES))}")
        lower, upper = SIDES[side]
        return And(Compare(name, lower, self.value(left)), Compare(name, upper, self.value(right)))

    def declares(self, node: ast.expr) -> str | None:
        """Return the declared column that a name means, if there is one."""
        assert isinstance(node, ast.Name)
        name = self.columns.get(node.id, node.id)
        if name in self.domain:
            return name
        # Python reads names in their compatibility form: the micro sign as the letter mu
        same = [known for known in self.domain if unicodedata.normalize("NFKC", known) == name]
        return same[0] if len(same) == 1 else None

    def column(self, node: ast.expr) -> str:
        """Return the declared column that a name means, or raise the error that says which there are."""
        assert isinstance(node, ast.Name)
        found = self.declares(node)
        if found is not None:
            return found
        name = self.columns.get(node.id, node.id)
        if name.lower() in WORDS:
            raise PredicateError(
                f"{name} is not a value here; write True or False, or column.isna() for missing values"
            )
        raise PredicateError(self.domain.unknown(name))

    def listed(self, node: ast.expr) -> list[Any]:
        """Return the values of a list."""
        if not isinstance(node, ast.List | ast.Tuple | ast.Set):
            raise PredicateError(f"after 'in' stands a list of values, such as ['F', 'M'], not {self.words(node)}")
        return [self.value(item, missing=True) for item in node.elts]

    def is_value(self, node: ast.expr) -> bool:
        """Return whether a tree is a constant, with a sign or without, or a list."""
        if isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub | ast.UAdd):
            return isinstance(node.operand, ast.Constant)
        return isinstance(node, ast.Constant | ast.List | ast.Tuple | ast.Set)

    def value(self, node: ast.expr, *, missing: bool = False) -> Any:
        """Return the constant that a tree writes down."""
        match node:
            case ast.Constant(value) if isinstance(value, str | bool | int | float) or (value is None and missing):
                return value
            case ast.Constant(None):
                raise PredicateError("nothing equals None; write column.isna() or column.notna() for missing values")
            case ast.UnaryOp(ast.USub() | ast.UAdd() as sign, ast.Constant(int() | float() as number)):
                if not isinstance(number, bool):
                    return -number if isinstance(sign, ast.USub) else number
            case ast.Name():
                raise PredicateError(f"{self.words(node)} stands where a value is wanted; texts stand in quotes")
            case ast.Call(ast.Name() | ast.Attribute()):
                if (date := _date_of(node)) is not None:
                    return date
                self.call(node)
            case ast.Constant():
                raise PredicateError(
                    f"{self.words(node)} is no value of a column; write a number, a text, True or False"
                )
        self.refuse(node)

    def refuse(self, node: ast.AST) -> NoReturn:
        """Raise the error for a tree that is not in the language."""
        if isinstance(node, ast.Call):
            self.call(node)
        for kinds, hint in REFUSED:
            if isinstance(node, kinds):
                raise PredicateError(f"{self.words(node)}: {hint}")
        raise PredicateError(f"{self.words(node)} is not supported; write comparisons of columns with values")

    def words(self, node: ast.AST) -> str:
        """Return the piece of the text that a tree was read from."""
        text = ast.get_source_segment(self.source, node) or "this"
        if self.columns:
            text = re.sub(rf"\b({'|'.join(self.columns)})\b", lambda match: f"`{self.columns[match.group()]}`", text)
        return text if len(text) <= 60 else text[:59] + "…"


def _in_numbers(left: ast.expr, right: ast.expr) -> tuple[ast.expr, ast.expr]:
    """Return admitted.dt.day_name() == 'Monday' as admitted.dt.dayofweek == 0, months too; others as they are."""
    for side, other in ((left, right), (right, left)):
        match side:
            case ast.Call(func=ast.Attribute(attr=method) as name, args=[], keywords=[]) if (
                method in NAMES_OF_PARTS and _is_part(name)
            ):
                part, numbers = NAMES_OF_PARTS[method]
                numbered = ast.copy_location(ast.Attribute(name.value, part, ast.Load()), name)
                values = _Numbers(numbers).visit(copy.deepcopy(other))
                return (numbered, values) if side is left else (values, numbered)
    return left, right


class _Numbers(ast.NodeTransformer):
    """Puts the numbers of weekdays or months for their English names.

    Parameters
    ----------
    numbers
        By name.

    Raises
    ------
    PredicateError
        If a value is no such name.
    """

    def __init__(self, numbers: dict[str, int]) -> None:
        self.numbers = numbers

    def visit_Constant(self, node: ast.Constant) -> ast.Constant:
        number = self.numbers.get(node.value) if isinstance(node.value, str) else None
        if number is None:
            raise PredicateError(f"{shorten(node.value)} is none of {', '.join(self.numbers)}")
        return ast.copy_location(ast.Constant(number), node)


def _is_part(node: ast.expr) -> bool:
    """Whether a tree is a part of dates, such as admitted.dt.month."""
    return isinstance(node, ast.Attribute) and isinstance(node.value, ast.Attribute) and node.value.attr == "dt"


def _date_of(node: ast.Call) -> datetime.datetime | None:
    """Return the moment that Timestamp('2023-05-17') or date(2023, 5, 17) writes; None of anything else."""
    function = node.func
    called = function.id if isinstance(function, ast.Name) else getattr(function, "attr", "")
    given = [argument.value for argument in node.args if isinstance(argument, ast.Constant)]
    if called not in DATES or node.keywords or len(given) != len(node.args):
        return None
    try:
        match given:
            case [str(text)] if called in ("Timestamp", "to_datetime"):
                return cast(datetime.datetime, span_of(text)[0].astype(object))
            case [int(year), int(month), int(day)] if called in ("date", "datetime", "Timestamp"):
                return datetime.datetime(year, month, day)
    except ValueError as error:
        raise PredicateError(str(error)) from None
    return None


# What to tell someone whose `where=` text is not understood: what is wrong, and what to write instead.
def unreadable(text: str, error: Exception, domain: Domain) -> str:
    """Say what is wrong with a text that Python cannot read, in the words of someone who writes conditions."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", " ", text)
    quoted = [name for name in domain if column_text(name) != name]
    odd = next((name for name in quoted if re.search(rf"(?<!\w){re.escape(name)}", bare)), None)
    if "nested parentheses" in str(error):
        return "the condition is nested too deeply; write it flatter"
    if "integer string conversion" in str(error):
        return "a number in the condition has thousands of digits; write a smaller one"
    slip = next((sign for sign in SLIPS if sign in bare), None)
    if slip is not None:
        hint = f"write {SLIPS[slip]} for {slip}"
    elif re.search(r"(?<![=<>!:])=(?!=)", bare):
        hint = "write == to compare"
    elif odd is not None:
        hint = f"write the column in backticks, `{odd}`"
    elif re.search(r"(?i)\bis\s+(not\s+)?null\b", bare):
        hint = "write column.isna() or column.notna()"
    elif re.search(r"(?i)\bbetween\b|\blike\b", bare):
        hint = "write column.between(a, b) for a range; patterns of text are not supported"
    elif re.search(r"\b(AND|OR|NOT|IN)\b", bare):
        hint = "write and, or, not and in in small letters"
    elif text.count("'") % 2 or text.count('"') % 2:
        hint = "a quotation mark has no partner"
    else:
        hint = "write it as for DataFrame.query, for example \"age >= 65 and sex == 'F'\""
    return f"where= is not understood: {shorten(text.strip(), 80)}; {hint}"
