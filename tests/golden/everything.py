"""What there are golden files of."""

import contextlib
import sys
from functools import partial
from pathlib import Path

from golden.earlier import BEFORE, opened
from golden.house import LEDGERS
from golden.play import played
from golden.servers_stories import in_postgres, in_spark
from golden.stories import all_stories

SERVERS = {"postgres": in_postgres, "spark": in_spark}


def makers():
    """Return by name of the file what makes its content again, of what needs no server."""
    return {name: partial(played, story) for name, story in all_stories().items()}


def ledger_makers():
    """Return the same of the ledgers that earlier versions wrote."""
    return {ledger.name: partial(opened, ledger) for ledger in (*BEFORE, *LEDGERS)}


def server_makers():
    """Return the same of what needs a server, which is started; None where it is not installed."""
    return {name: partial(_with_server, name) for name in SERVERS}


def _with_server(name):
    import pytest

    sys.path.append(str(Path(__file__).parents[1] / "engine"))
    import servers

    with contextlib.suppress(pytest.skip.Exception), getattr(servers, f"running_{name}")() as there:
        return SERVERS[name](there)
