"""What to tell someone whose `where=` text is not understood: what is wrong, and what to write instead."""

from __future__ import annotations

import ast
import re

from dpnotebook.domain import Domain
from dpnotebook.errors import shorten
from dpnotebook.predicate.expression import column_text

SIGN_HINTS = {
    "&&": "write 'and' for &&",
    "||": "write 'or' for ||",
    "<>": "write != for <>",
    "!": "write 'not' for !",
    "@": "@ cannot be followed, since the text is read without your variables; write the value itself, for example by "
    'an f-string: f"age >= {limit}"',
    "`": "there is a backtick without its partner; write `column name`",
}
LOOPS = (ast.ListComp, ast.SetComp, ast.DictComp, ast.GeneratorExp)
REFUSED: list[tuple[type[ast.AST] | tuple[type[ast.AST], ...], str]] = [
    (ast.BinOp, "arithmetic is not supported; compare a column with a number worked out beforehand"),
    (ast.Subscript, "square brackets after a name are not supported; write the name alone, `in backticks` if odd"),
    (ast.Attribute, "a name after a dot is not supported, except .isna(), .notna(), .between(a, b) and .isin([...])"),
    (ast.IfExp, "'if' is not supported; use and, or and not"),
    (ast.NamedExpr, "a condition assigns nothing; write == to compare"),
    (ast.Lambda, "lambda is not supported; write a condition on columns"),
    (LOOPS, "a loop is not supported; write the values themselves"),
    (ast.JoinedStr, "an f-string inside the text is not supported; write the value itself"),
    (ast.Starred, "* is not supported; write the values themselves"),
    ((ast.List, ast.Tuple, ast.Set, ast.Dict), "a list alone is no condition; write column in [...]"),
]


def unreadable(text: str, error: Exception, domain: Domain) -> str:
    """Say what is wrong with a text that Python cannot read, in the words of someone who writes conditions."""
    bare = re.sub(r"'[^']*'|\"[^\"]*\"|`[^`]*`", " ", text)
    quoted = [name for name in domain if column_text(name) != name]
    odd = next((name for name in quoted if re.search(rf"(?<!\w){re.escape(name)}", bare)), None)
    if "nested parentheses" in str(error):
        return "the condition is nested too deeply; write it flatter"
    if "integer string conversion" in str(error):
        return "a number in the condition has thousands of digits; write a smaller one"
    if re.search(r"(?<![=<>!:])=(?!=)", bare):
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
