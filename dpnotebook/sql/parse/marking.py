"""Clauses and calls taken out of the tokens of a statement, before a parser that does not know them sees them.

A marker stays in each place. It is no word that a statement can have, so nobody can write one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from fractions import Fraction

from sqlglot import exp
from sqlglot.tokens import Token, TokenType

from dpnotebook.dialect.text import Text
from dpnotebook.sql.aggregates.catalogue import NAMES, PRIVATE, function_of
from dpnotebook.sql.parse.call_arguments import read_call
from dpnotebook.sql.parse.calls import Call
from dpnotebook.sql.parse.clause import WORDS, Clause, read_clause
from dpnotebook.sql.parse.literals import Tokens, is_bare

MARK = "\x00"  # refused in statements
MAX_DEPTH = 100
CONDITIONS = ("COUNTIF", "COUNT_IF")
DISTINCT = ("APPROX_COUNT_DISTINCT", "APPROX_DISTINCT")  # counted exactly but for noise, as COUNT(DISTINCT column)
ANY = "ANY_VALUE"
# Whether a condition holds of some rows, or of all: the greatest and the least of its truth values.
TRUTHS = {
    **dict.fromkeys(("BOOL_OR", "LOGICAL_OR"), "MAX"),
    **dict.fromkeys(("BOOL_AND", "LOGICAL_AND", "EVERY"), "MIN"),
}
PLACES = {"OFFSET": 0, "SAFE_OFFSET": 0, "ORDINAL": 1}  # of one in an array, and the number of the first


@dataclass
class Marking:
    """What was taken out of a statement.

    Parameters
    ----------
    text
        The statement.
    clauses, calls
        What was taken out, in the order of the markers.
    """

    text: Text
    clauses: list[Clause] = field(default_factory=list)
    calls: list[Call] = field(default_factory=list)

    def mark(self, tokens: Sequence[Token]) -> list[Token]:
        """Return tokens with markers in the places of clauses and calls.

        Raises
        ------
        SQLError
            If a clause or a call is not one that can be.
        """
        check_parentheses(tokens, self.text)
        return self._mark(list(tokens))

    def attach(self, tree: exp.Expr) -> exp.Expr:
        """Return the tree with what was taken out attached in the places of the markers.

        Raises
        ------
        SQLError
            If a clause or call stands where none can stand.
        """
        found = 0
        for select in list(tree.find_all(exp.Select)):
            first = select.expressions[0] if select.expressions else None
            if isinstance(first, exp.Column) and first.name.startswith(MARK):
                select.meta["clause"] = self.clauses[int(first.name[1:])]
                select.set("expressions", select.expressions[1:])
                found += 1
        for node in list(tree.find_all(exp.Anonymous)):
            if isinstance(node.this, str) and node.this.startswith(MARK):
                call = self.calls[int(node.this[1:])]
                if len(node.expressions) != call.operands:
                    continue
                made = function_of(call.kind).node(call, *node.expressions)
                made.meta["call"] = call
                made.meta.update({key: node.meta[key] for key in ("line", "col", "start", "end") if key in node.meta})
                if node is tree:
                    break
                node.replace(made)
                found += 1
        if found != len(self.clauses) + len(self.calls):
            raise self._misplaced(tree)
        return tree

    def _misplaced(self, tree: exp.Expr) -> Exception:
        at = next(
            (node for node in tree.find_all(exp.Anonymous, exp.Identifier) if str(node.this).startswith(MARK)), None
        )
        return self.text.error("a private clause or an aggregate function cannot stand here", at)

    def _mark(self, tokens: list[Token]) -> list[Token]:
        out: list[Token] = []
        index = 0
        while index < len(tokens):
            token = tokens[index]
            if token.token_type is TokenType.SELECT and is_bare(_at(tokens, index + 1), "WITH"):
                taken, index = self._clause(tokens, index)
                out += taken
            elif _is_call(tokens, index):
                taken, index = self._call(tokens, index)
                out += taken
            else:
                out.append(token)
                index += 1
        return out

    def _clause(self, tokens: list[Token], index: int) -> tuple[list[Token], int]:
        """Return what stands for SELECT and its clause, the marker as first item of the list, and where to go on."""
        word = _at(tokens, index + 2)
        if word is None or not is_bare(word, *WORDS):
            raise self.text.error(
                "after SELECT WITH stands DIFFERENTIAL_PRIVACY or ANONYMIZATION", word or tokens[index]
            )
        options, after = None, index + 3
        if is_bare(_at(tokens, after), "OPTIONS") and is_bare(_at(tokens, after + 1), "("):
            close = closing(tokens, after + 1)
            options, after = tokens[after + 2 : close], close + 1
        self.clauses.append(read_clause(word, options, self.text))
        marker = _like(word, TokenType.VAR, f"{MARK}{len(self.clauses) - 1}")
        out = [tokens[index]]
        while is_bare(following := _at(tokens, after), "DISTINCT", "ALL") and following is not None:
            out.append(following)
            after += 1
        if is_bare(following, "WITH", "OPTIONS"):
            raise self.text.error("a SELECT has one private clause, and that has OPTIONS once", following)
        return [*out, marker, _like(word, TokenType.COMMA, ",")], after

    def _call(self, tokens: list[Token], index: int) -> tuple[list[Token], int]:
        """Return what stands for a call, and where to go on."""
        name, close = tokens[index], closing(tokens, index + 1)
        inside, after = tokens[index + 2 : close], close + 1
        within, after, descending = self._within_group(tokens, after)
        if within is not None:
            inside = [*within, _like(name, TokenType.COMMA, ","), *inside]
        condition, after = self._filter(tokens, after)
        if is_bare(name, *CONDITIONS):
            if condition is not None or not inside:
                raise self.text.error("write COUNTIF(condition)", name)
            condition, inside, name = inside, [_like(name, TokenType.STAR, "*")], _like(name, TokenType.VAR, "COUNT")
        anyone, of_truth = is_bare(name, ANY), is_bare(name, *TRUTHS)
        if is_bare(name, *DISTINCT):
            inside, name = [_like(name, TokenType.DISTINCT, "DISTINCT"), *inside], _like(name, TokenType.VAR, "COUNT")
        elif anyone:  # of one unit's rows, whichever; the same on every engine
            name = _like(name, TokenType.VAR, "MIN")
        elif of_truth:
            name = _like(name, TokenType.VAR, TRUTHS[name.text.upper()])
        if is_bare(_at(tokens, after), "OVER"):
            return self._windowed(tokens, index, after), after
        place, after = _place_in_array(tokens, after)
        last = tokens[after - 1]
        words = " ".join(self.text.statement[name.start : last.end + 1].split())
        call, arguments = read_call(name, inside, words, self.text)
        if place is not None:
            call = self._one_of(call, place, last)
        if of_truth:
            call = replace(call, of_truth=True)
        if within is not None and call.operands > 1:
            raise self.text.error("WITHIN GROUP is of percentiles; write both columns in the parentheses", name)
        if anyone:
            call = replace(call, anyone=True)
        if descending:
            call = replace(call, fractions=tuple(float(1 - Fraction(str(fraction))) for fraction in call.fractions))
        first, *more = (self._mark(list(argument)) for argument in arguments)
        if condition is not None:
            first = _where(first, self._mark(condition), name, call.star)
            call = replace(call, star=False)
        kept = [*first, *(token for one in more for token in (_like(name, TokenType.COMMA, ","), *one))]
        self.calls.append(call)
        marker = Token(
            TokenType.VAR, f"{MARK}{len(self.calls) - 1}", name.line, name.col, name.start, max(last.end, name.end)
        )
        ends = _like(name, TokenType.L_PAREN, "("), _like(tokens[close], TokenType.R_PAREN, ")")
        return [marker, ends[0], *kept, ends[1]], after

    def _one_of(self, call: Call, place: int, at: Token) -> Call:
        """Return a call of an array of quantiles that is of one of them alone."""
        if not call.array:
            raise self.text.error("one of several is taken of APPROX_QUANTILES, which gives an array", at)
        if not 0 <= place < len(call.fractions):
            raise self.text.error(
                f"APPROX_QUANTILES(column, {len(call.fractions) - 1}) has {len(call.fractions)} quantiles: the first "
                f"is [OFFSET(0)], the last [OFFSET({len(call.fractions) - 1})]",
                at,
            )
        return replace(call, fractions=(call.fractions[place],), array=False)

    def _windowed(self, tokens: list[Token], index: int, after: int) -> list[Token]:
        """Return what stands for a call before OVER: itself, with markers in it for what it is of."""
        name = tokens[index]
        if is_bare(name, *PRIVATE):
            raise self.text.error(f"{name.text.upper()} has no window: put one over the query that it stands in", name)
        if is_bare(name, "MEAN"):
            name = _like(name, TokenType.VAR, "AVG")
        return [name, *self._mark(tokens[index + 1 : after])]

    def _within_group(self, tokens: list[Token], after: int) -> tuple[list[Token] | None, int, bool]:
        """Return the column of WITHIN GROUP (ORDER BY column), where to go on, and whether the order is descending."""
        if not is_bare(_at(tokens, after), "WITHIN"):
            return None, after, False
        start = after + 2
        if not (is_bare(_at(tokens, after + 1), "GROUP") and is_bare(_at(tokens, start), "(")):
            raise self.text.error("write WITHIN GROUP (ORDER BY column)", tokens[after])
        close = closing(tokens, start)
        inside = tokens[start + 1 : close]
        if len(inside) < 2 or not is_bare(inside[0], "ORDER BY"):
            raise self.text.error("write WITHIN GROUP (ORDER BY column)", tokens[after])
        body = inside[1:]
        descending = is_bare(body[-1], "DESC")
        if len(body) > 1 and is_bare(body[-1], "ASC", "DESC"):
            body = body[:-1]
        return body, close + 1, descending

    def _filter(self, tokens: list[Token], after: int) -> tuple[list[Token] | None, int]:
        """Return the condition of FILTER (WHERE condition), in which DuckDB needs no WHERE, and where to go on."""
        if not (is_bare(_at(tokens, after), "FILTER") and is_bare(_at(tokens, after + 1), "(")):
            return None, after
        close = closing(tokens, after + 1)
        inside = tokens[after + 2 : close]
        if inside and is_bare(inside[0], "WHERE"):
            inside = inside[1:]
        if not inside:
            raise self.text.error("write FILTER (WHERE condition)", tokens[after])
        return inside, close + 1


def check_parentheses(tokens: Tokens, text: Text) -> None:
    """Refuse parentheses without a partner, and too many in one another."""
    waiting: list[Token] = []
    for token in tokens:
        if token.token_type is TokenType.L_PAREN:
            waiting.append(token)
        elif token.token_type is TokenType.R_PAREN:
            if not waiting:
                raise text.error("this parenthesis closes nothing", token)
            waiting.pop()
        if len(waiting) > MAX_DEPTH:
            raise text.error("the statement is nested too deeply; write it flatter", token)
    if waiting:
        raise text.error("this parenthesis is never closed", waiting[-1])


def closing(tokens: Tokens, index: int) -> int:
    """Return the index of the parenthesis that closes the one at an index."""
    depth = 0
    for place in range(index, len(tokens)):
        kind = tokens[place].token_type
        depth += (kind is TokenType.L_PAREN) - (kind is TokenType.R_PAREN)
        if depth == 0:
            return place
    raise ValueError("parentheses were checked")


def _at(tokens: Tokens, index: int) -> Token | None:
    return tokens[index] if index < len(tokens) else None


def _is_call(tokens: Tokens, index: int) -> bool:
    following = _at(tokens, index + 1)
    if following is None or following.token_type is not TokenType.L_PAREN:
        return False
    if not is_bare(tokens[index], *NAMES, *CONDITIONS, *DISTINCT, *TRUTHS, ANY):
        return False
    return index == 0 or tokens[index - 1].token_type is not TokenType.DOT


def _place_in_array(tokens: list[Token], after: int) -> tuple[int | None, int]:
    """Return which one of an array is taken, from 0 on, as [OFFSET(95)] says behind it, and where to go on."""
    words = [token.text.upper() for token in tokens[after : after + 6]]
    if len(words) < 6 or words[0] != "[" or words[1] not in PLACES or words[2] != "(" or words[4:] != [")", "]"]:
        return None, after
    if not words[3].isdecimal():
        return None, after
    return int(words[3]) - PLACES[words[1]], after + 6


def _like(token: Token, kind: TokenType, text: str) -> Token:
    """Return a token in the place of another one."""
    return Token(kind, text, token.line, token.col, token.start, token.end)


def _where(argument: list[Token], condition: list[Token], name: Token, star: bool) -> list[Token]:
    """Return CASE WHEN condition THEN argument END: what FILTER leaves out is NULL, which no aggregate counts."""
    value = [_like(name, TokenType.NUMBER, "1")] if star else argument
    words = [(TokenType.CASE, "CASE"), (TokenType.WHEN, "WHEN"), (TokenType.THEN, "THEN"), (TokenType.END, "END")]
    case, when, then, end = (_like(name, kind, word) for kind, word in words)
    return [case, when, *condition, then, *value, end]
