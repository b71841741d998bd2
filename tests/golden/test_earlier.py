"""Every ledger that an earlier version wrote opens, is sound, and gives back each release to the bit."""

import pytest
from golden.comparison import DIGITS, first_difference
from golden.everything import ledger_makers
from golden.files import as_read, read

pytestmark = pytest.mark.fresh_noise  # what is random is fixed by `golden.seam`
EARLIER = ledger_makers()


@pytest.mark.parametrize("name", EARLIER)
def test_an_earlier_ledger_says_what_it_said(name):
    """To the last bit for all that is recorded; what is planned from it to the digits of every other plan."""
    frozen, found = read(name), as_read(EARLIER[name]())
    for step in [*frozen, *(step for step in found if step not in frozen)]:
        digits = DIGITS if step.startswith("asked") else None
        said = first_difference(frozen.get(step), found.get(step), f"{name}/{step}", digits)
        assert said is None, said


def test_a_ledger_of_every_feature_is_sound_and_free_again():
    """What is frozen is what one wants: sound, every answer there, and nothing paid twice."""
    for name in ("ledger_before_the_house", "ledger_before_the_house_laplace"):
        frozen = read(name)
        assert frozen["ok"]
        assert frozen["audit"]["ok"]
        assert frozen["audit"]["problems"] == []
        assert [step["release"]["number"] > 0 for name, step in frozen.items() if name.startswith("answered")]
        assert {row["state"] for row in frozen["history"]} >= {"recorded", "lost"}
        assert all(step["release"]["paid"] == 0 for name, step in frozen.items() if name.startswith("retry"))
