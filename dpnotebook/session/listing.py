"""A method that lists what another gives one by one: in brackets it says which one that is."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any, NoReturn

from dpnotebook.errors import UnknownVerb, shorten


class Listing:
    """A method whose result is asked for with parentheses: brackets, as in `session.tables["visits"]`, are refused.

    Parameters
    ----------
    method
        What lists.
    one
        What gives one of them, called with its name, as whoever reads the error writes it.
    """

    def __init__(self, method: Callable[..., Any], one: str) -> None:
        self.method, self.one = method, one

    def __get__(self, owner: Any, kind: type | None = None) -> Any:
        return self.method if owner is None else _Bound(self.method.__get__(owner), self.one)


class _Bound:
    """The method of one owner."""

    def __init__(self, method: Callable[..., Any], one: str) -> None:
        self.__doc__, self.__name__, self.__wrapped__ = method.__doc__, method.__name__, method
        self.__signature__ = inspect.signature(method)
        self._one = one

    def __call__(self, *given: Any, **named: Any) -> Any:
        return self.__wrapped__(*given, **named)

    def __getitem__(self, key: object) -> NoReturn:
        raise UnknownVerb(f"{self.__name__}() lists all of them; one is {self._one}({shorten(key)})")

    def __iter__(self) -> NoReturn:
        raise UnknownVerb(f"what {self.__name__} lists is asked for with parentheses: {self.__name__}()")

    def __repr__(self) -> str:
        return repr(self.__wrapped__)
