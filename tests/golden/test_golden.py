"""What is planned, charged, asked of databases, shown and refused is what it was when the golden files were made.

`python tests/golden/remake.py` makes them again where a change of behaviour is wanted; the diff shows what changed.
"""

import pytest
from golden.comparison import first_difference
from golden.everything import SERVERS, ledger_makers, makers
from golden.files import DATA, as_read, read

pytestmark = pytest.mark.fresh_noise  # what is random is fixed by `golden.seam`
MAKERS = makers()


@pytest.mark.parametrize("name", MAKERS)
def test_behaviour_is_what_it_was(name):
    said = first_difference(read(name), as_read(MAKERS[name]()), name)
    assert said is None, said


def test_every_golden_file_is_compared():
    assert {path.stem for path in DATA.glob("*.json")} == {*MAKERS, *ledger_makers(), *SERVERS}
