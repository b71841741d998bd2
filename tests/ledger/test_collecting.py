"""Garbage collection is put off while much is read, and is then what it was."""

import gc

import pytest

from dpnotebook.ledger.collecting import collecting_later


def test_it_is_off_inside_and_as_before_after_whatever_happens():
    assert gc.isenabled()
    with collecting_later(), collecting_later():
        assert not gc.isenabled()
    assert gc.isenabled()
    with pytest.raises(ValueError, match="read"), collecting_later():
        raise ValueError("read")
    assert gc.isenabled()


def test_whoever_has_turned_it_off_keeps_it_off():
    gc.disable()
    try:
        with collecting_later():
            assert not gc.isenabled()
        assert not gc.isenabled()
    finally:
        gc.enable()
