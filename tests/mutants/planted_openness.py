"""Bugs in what is public: what a plan, a refusal or another name for a table lets out."""

from mutant import Mutant

PLANTED = (
    Mutant(
        "the number of rows stands on a card",
        "a plan tells whether one more person is there, for nothing",
        "session/session.py",
        "            self._statements.relations.protect(protected)\n            self._tables[name] = protected\n",
        "            protected.table = replace(table, rows=len(data)) if hasattr(data, 'columns') else table\n"
        "            self._statements.relations.protect(protected)\n            self._tables[name] = protected\n",
        ("test_privacy.py::test_plans_do_not_depend_on_the_rows",),
    ),
    Mutant(
        "planning looks at the rows",
        "previews are free, and what they show depends on a person",
        "session/session.py",
        "        return self._plan(query)\n",
        "        self.table(query.question.table).engine._columns('SELECT 1 AS one')\n"
        "        return self._plan(query)\n",
        ("test_privacy.py::test_no_card_and_no_plan_reads_the_data",),
    ),
    Mutant(
        "a protected table can be registered as a public one",
        "statements show its rows",
        "session/relations.py",
        "        if name in self.protected:\n            raise DomainError(",
        "        if name is None:\n            raise DomainError(",
        ("test_statements.py::TestTables::test_what_is_registered_must_be_said_to_be_public",),
    ),
    Mutant(
        "a protected table is fetched whole where a public one is asked for",
        "the outer part of a statement shows exact rows",
        "engine/workspace.py",
        "        if table.private:\n            raise EngineError(f",
        "        if table is None:\n            raise EngineError(f",
        ("engine/test_workspace.py::test_only_a_public_table_is_shown_whole",),
    ),
    Mutant(
        "a frame is registered as public that nobody said is",
        "rows of people are joined and shown without protection",
        "session/session.py",
        "        if public is not True:\n",
        "        if public is None:\n",
        ("test_statements.py::TestTables::test_what_is_registered_must_be_said_to_be_public",),
    ),
    Mutant(
        "another table is taken under a name that the ledger knows",
        "what was recorded of one table is shown and refined for another",
        "ledger/ledger.py",
        "        check_same_table(self.path, known, values, view.tables)\n",
        "",
        ("ledger/test_ledger.py::test_another_table_under_the_name",),
    ),
)
