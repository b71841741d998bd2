"""Bugs in the order of things and in what fails: charge, measure, record, reveal."""

from mutant import Mutant

PIPELINE, QUESTIONS, STATEMENT_ANSWERS = "session/pipeline.py", "session/questions.py", "session/statement_answers.py"

PLANTED = (
    Mutant(
        "a retry draws fresh noise",
        "interrupting a query again and again averages the noise out, for one charge",
        PIPELINE,
        "return self._recorded(mechanism, charge, randomness, report)",
        "return self._recorded(mechanism, charge, Randomness(), report)",
        ("test_after_charge.py::test_trying_again_draws_nothing_again",),
    ),
    Mutant(
        "all measurements of a charge share their noise",
        "differences of answers are exact",
        QUESTIONS,
        'randomness.source("noise", i)',
        'randomness.source("noise", 0)',
        ("test_fresh_randomness.py::test_every_measure_of_a_question_has_noise_of_its_own",),
    ),
    Mutant(
        "the queries of a statement share their noise",
        "differences of their answers are exact",
        STATEMENT_ANSWERS,
        'source = randomness.source("noise", i)\n',
        'source = randomness.source("noise", 0)\n',
        ("test_fresh_randomness.py::test_every_measurement_of_a_charge_has_noise_of_its_own",),
    ),
    Mutant(
        "a sample is drawn by a secret that everybody knows",
        "whose rows count can be worked out beforehand, and arranged",
        STATEMENT_ANSWERS,
        'secret = randomness.secret("sample", i) if own or kept is None else kept(select)',
        'secret = "0" * 32',
        ("test_fresh_randomness.py::test_every_charge_samples_anew",),
    ),
    Mutant(
        "an answer is shown that could not be recorded",
        "the next draw for the same charge is shown too: two draws for one charge",
        PIPELINE,
        "        return self.ledger.record(charge.number, noisy, details)\n",
        "        try:\n"
        "            return self.ledger.record(charge.number, noisy, details)\n"
        "        except LedgerError:\n"
        "            from dpnotebook.ledger.releases import record_from\n\n"
        "            return record_from(charge, tuple(noisy), details)\n",
        ("test_privacy.py::test_nothing_is_returned_when_recording_fails",),
    ),
    Mutant(
        "the rows are read before they are paid for",
        "whether a refused query fails tells of the rows, for nothing",
        QUESTIONS,
        "        return plan_to_json(plan)\n",
        "        self._table(plan.table).engine.totals(plan.measurements[0].measurement)\n"
        "        return plan_to_json(plan)\n",
        ("test_after_charge.py::test_what_is_refused_reads_no_row",),
    ),
    Mutant(
        "what fails after a charge says what failed",
        "errors of databases quote values, and tell whether a person is there",
        PIPELINE,
        '        except Exception:\n            said = ""\n',
        '        except Exception as failure:\n            said = f" {failure}"\n',
        ("test_after_charge.py::test_whatever_fails_after_a_charge_says_one_thing",),
    ),
    Mutant(
        "what failed stays reachable from the error",
        "true counts are found in the frames of __context__",
        "errors.py",
        "failure.__cause__ = failure.__context__ = None",
        "failure.__cause__ = None",
        ("test_bare_errors.py::test_nothing_but_its_text_leaves",),
    ),
    Mutant(
        "a database's own message is shown",
        "it quotes the value that could not be converted",
        "engine/executor.py",
        "({words}). Its own message is not shown because it may hold values of the data",
        "({words}): {failure}",
        ("engine/test_workspace.py::test_a_failure_never_quotes_a_value",),
    ),
    Mutant(
        "a retry reads other rows than were charged for",
        "the same noise hides two tables: their difference is exact",
        PIPELINE,
        "        mechanism.check_same(charge)\n        return self.measure(mechanism, charge, report)",
        "        return self.measure(mechanism, charge, report)",
        ("test_after_charge.py::test_a_retry_needs_the_very_same_columns",),
    ),
    Mutant(
        "the delta of a statement's thresholds is not charged",
        "groups of one person show with a probability that nobody paid for",
        PIPELINE,
        "plan.refines, plan.threshold_delta",
        "plan.refines",
        ("test_statements.py::TestUnknownGroups::test_their_delta_adds_up_and_never_passes_what_is_kept",),
    ),
)
