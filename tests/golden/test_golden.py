"""What is planned, charged, asked of databases, shown and refused is what it was when the golden files were made.

`python tests/golden/remake.py` makes them again where a change of behaviour is wanted; the diff shows what changed.
"""

import pytest
from golden.comparison import DIGITS, first_difference
from golden.everything import SERVERS, ledger_makers, makers
from golden.files import DATA, as_read, read

MAKERS, EARLIER = makers(), ledger_makers()


@pytest.mark.parametrize("name", MAKERS)
def test_behaviour_is_what_it_was(name):
    said = first_difference(read(name), as_read(MAKERS[name]()), name)
    assert said is None, said


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_ledger_says_what_it_said(name):
    """To the last bit for all that is recorded; what is planned from it to the digits of every other plan."""
    frozen, found = read(name), as_read(EARLIER[name]())
    for step in [*frozen, *(step for step in found if step not in frozen)]:
        digits = DIGITS if step.startswith("asked") else None
        said = first_difference(frozen.get(step), found.get(step), f"{name}/{step}", digits)
        assert said is None, said


@pytest.mark.parametrize("name", SERVERS)
def test_what_is_sent_to_servers_is_what_it_was(name, request):
    said = first_difference(read(name), as_read(SERVERS[name](request.getfixturevalue(name))), name)
    assert said is None, said


def test_every_golden_file_is_compared():
    assert {path.stem for path in DATA.glob("*.json")} == {*MAKERS, *EARLIER, *SERVERS}
