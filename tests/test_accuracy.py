"""What a person may write for how accurate an answer must be, and what is said to them where that cannot be."""

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from dpnotebook.errors import AccuracyError
from dpnotebook.query.question import Accuracy


def read(text):
    """Return what code with this text of an accuracy means."""
    return eval(f"Accuracy({text})", {"Accuracy": Accuracy})


@pytest.mark.parametrize(
    ("written", "fraction"),
    [("5%", 0.05), ("5 %", 0.05), (" 5% ", 0.05), ("0.1%", 0.001), (".5%", 0.005), ("12.5%", 0.125), ("250%", 2.5)],
)
def test_a_relative_error_is_kept_as_a_fraction(written, fraction):
    accuracy = Accuracy(error=written)
    assert accuracy.relative == fraction
    assert accuracy.error is accuracy.epsilon is accuracy.variance is None


@pytest.mark.parametrize(
    "wrong",
    [
        "five%",
        "5%%",
        "%",
        "-5%",
        "5",
        "5 percent",
        "",
        "nan%",
        "inf%",
        "1e3%",
        "0%",
        "5%" + " " * 50,
        "\u0665%",
        "5,5%",
    ],
)
def test_what_is_no_percentage_is_refused_with_what_to_write(wrong):
    with pytest.raises(AccuracyError, match=r"5%|number above 0"):
        Accuracy(error=wrong)


def test_a_number_in_quotation_marks_is_told_so():
    with pytest.raises(AccuracyError, match=r"write error=5, without quotation marks"):
        Accuracy(error="5")


@pytest.mark.parametrize("name", ["epsilon", "variance", "confidence"])
def test_only_an_error_can_be_relative(name):
    with pytest.raises(AccuracyError, match=f"{name} must be a number above 0, not '5%'"):
        Accuracy(**({"epsilon": 1.0} if name == "confidence" else {}), **{name: "5%"})


def test_a_relative_error_is_one_of_three_like_any_other():
    with pytest.raises(AccuracyError, match=r"got epsilon= and error="):
        Accuracy(epsilon=1.0, error="5%")
    with pytest.raises(AccuracyError, match=r"got error= and error=\"…%\""):
        Accuracy(error=5.0, relative=0.05)
    with pytest.raises(AccuracyError, match="got none of them"):
        Accuracy()


def test_it_becomes_an_error_once_the_answers_are_known():
    accuracy = Accuracy(error="5%", confidence=0.9)
    assert accuracy.percent == "5%"
    assert accuracy.resolved(31.0) == Accuracy(error=31.0, confidence=0.9)
    assert replace(accuracy, confidence=0.95).relative == 0.05


@pytest.mark.parametrize(
    ("accuracy", "text"),
    [
        (Accuracy(error=25), "error=25"),
        (Accuracy(error="5 %"), "error='5%'"),
        (Accuracy(error="0.25%", confidence=0.9), "error='0.25%', confidence=0.9"),
        (Accuracy(epsilon=np.float32(0.5)), "epsilon=0.5"),
        (Accuracy(variance=1234567), "variance=1234567"),
    ],
)
def test_the_text_is_how_it_would_be_written(accuracy, text):
    assert accuracy.text == text


numbers = st.floats(min_value=1e-12, max_value=1e12)


@given(st.sampled_from(["epsilon", "error", "variance", "relative"]), numbers, st.floats(0.01, 0.999))
def test_the_text_means_the_same_accuracy(name, amount, confidence):
    accuracy = Accuracy(**{name: amount}, confidence=confidence)
    assert read(accuracy.text) == accuracy
