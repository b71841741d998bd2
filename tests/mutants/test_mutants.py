"""Bugs are planted one at a time into a copy of the package: the quick privacy part of the tests must catch each."""

import ast
import shutil
import tempfile
from pathlib import Path

import pytest
from mutant import PACKAGE, TESTS, Copy, verdict
from planted import PLANTED
from privacy_part import is_part

NAMES = [mutant.name for mutant in PLANTED]


@pytest.fixture(scope="module")
def copy(tmp_path_factory):
    """Return a copy of the package and its tests, in memory where there is room."""
    memory = Path("/dev/shm")
    if memory.is_dir() and shutil.disk_usage(memory).free > 1 << 28:
        with tempfile.TemporaryDirectory(dir=memory) as folder:
            yield Copy(Path(folder))
    else:
        yield Copy(tmp_path_factory.mktemp("copy"))


def test_there_are_sixty_different_bugs():
    assert len(PLANTED) >= 60
    assert len(set(NAMES)) == len({(mutant.file, mutant.before, mutant.after) for mutant in PLANTED}) == len(PLANTED)


@pytest.mark.parametrize("mutant", PLANTED, ids=NAMES)
def test_a_bug_can_still_be_planted(mutant):
    """What is to be changed stands once in the source of today, and what comes out is Python."""
    before = (PACKAGE / mutant.file).read_text(encoding="utf-8")
    after = mutant.planted(before)
    assert ast.dump(ast.parse(after)) != ast.dump(ast.parse(before))
    assert mutant.harm


def test_the_tests_that_should_catch_them_are_there():
    for test in (test for mutant in PLANTED for test in mutant.caught_by):
        file, _, name = test.partition("::")
        assert is_part(file, name), f"{test} is not in the quick privacy part"
        text = (TESTS / file).read_text(encoding="utf-8")
        assert f"def {name.rpartition('::')[2]}(" in text if name else "def test_" in text


def test_it_is_the_copy_that_is_tested(copy):
    """Without a bug the tests of a mutant pass there, with it they fail: its bug is what they find."""
    mutant = next(one for one in PLANTED if one.name == "mu^2 of k rows is k times that of one")
    code, output = copy.pytest([f"tests/{test}" for test in mutant.caught_by])
    assert code == 0, output
    found = verdict(mutant, copy)
    assert found.caught == mutant.caught_by[0], found.said
    assert (copy.folder / "dpnotebook" / mutant.file).read_bytes() == (PACKAGE / mutant.file).read_bytes()


@pytest.mark.slow
def test_without_a_bug_everything_passes(copy):
    code, output = copy.pytest(["-m", "privacy", "tests"])
    assert code == 0, output


@pytest.mark.slow
@pytest.mark.parametrize("mutant", PLANTED, ids=NAMES)
def test_a_planted_bug_is_caught(mutant, copy, record_property):
    found = verdict(mutant, copy)
    record_property("planted", [mutant.name, mutant.harm, found.caught or "SURVIVED", f"{found.seconds:.0f}"])
    assert found.caught, found.said
