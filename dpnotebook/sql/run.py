"""What those who measure are handed to ask the engine."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from numpy.typing import NDArray

Run = Callable[[str], dict[str, NDArray[Any]]]  # executes a query in DuckDB's SQL, and gives its columns by name
