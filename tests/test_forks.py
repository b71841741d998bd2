"""A forked worker leaves its parent's connections alone, and a session that it uses opens connections of its own."""

import subprocess
import sys
import textwrap

import duckdb
import numpy as np
import pandas as pd
import pytest

PEOPLE = """
import gc, multiprocessing, os, sys, threading, time
from pathlib import Path
import duckdb, numpy as np, pandas as pd
import dpnotebook as dpn

DOMAIN = {"age": dpn.Range(0, 99), "sex": ["F", "M"]}
QUESTION = "SELECT sex, ANON_SUM(income, 0, 1) AS total FROM people GROUP BY sex"

def people(rows):
    numbers = np.arange(rows)
    return pd.DataFrame({"age": numbers % 100, "sex": np.where(numbers % 2, "M", "F"), "income": numbers / rows})

def session_on(data, ledger=":memory:"):
    session = dpn.Session(budget=dpn.Budget(epsilon=1.0), ledger=ledger)
    session.protect(data, "people", domain=DOMAIN)
    session.sql(QUESTION, epsilon=0.1).run()
    session.table("people").histogram("age", epsilon=0.1).run()
    return session

def in_child(work):
    reader, writer = os.pipe()
    child = os.fork()
    if child == 0:
        try:
            text = str(work())
        except BaseException as failure:
            text = f"{type(failure).__name__}: {failure}"
        os.write(writer, text.encode())
        sys.exit()  # not os._exit: what the interpreter takes down at its end is part of the test
    os.close(writer)
    with os.fdopen(reader) as said:
        text = said.read()
    assert os.waitpid(child, 0)[1] == 0, text
    return text
"""


def run(work, *arguments):
    """Run a program in a process that may hang, and return what it printed."""
    program = PEOPLE + textwrap.dedent(work)
    done = subprocess.run(
        [sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.one_in(2)
@pytest.mark.parametrize("dropped", ["in the parent", "in the child"])
def test_workers_collect_sessions_of_their_parent(dropped):
    """Enough rows that DuckDB has threads, which a child would wait for."""
    run(
        """
        def work(number):
            global old
            old = None
            gc.collect()
            return number

        gc.disable()
        old = session_on(people(500_000))
        old.itself = old
        new = session_on(people(1_000))
        if sys.argv[1] == "in the parent":
            old = None
        with multiprocessing.get_context("fork").Pool(2) as pool:
            assert pool.map_async(work, range(8)).get(timeout=60) == list(range(8))
        """,
        dropped,
    )


def test_a_child_that_ends_like_any_program_ends():
    run(
        """
        session = session_on(people(500_000))
        session.sql("SELECT 2 * n AS m FROM (SELECT COUNT(*) AS n FROM people WHERE income > 0.5)", epsilon=0.01).run()
        assert in_child(lambda: "here") == "here"
        session.sql(QUESTION, epsilon=0.2).run()
        """
    )


def test_a_child_asks_through_a_connection_of_its_own(tmp_path):
    frame = pd.DataFrame({"age": np.arange(1000) % 100, "sex": ["F", "M"] * 500, "income": np.arange(1000) / 1000})
    frame.to_parquet(tmp_path / "people.parquet")
    with duckdb.connect(str(tmp_path / "people.duckdb")) as connection:
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
    run(
        """
        os.chdir(sys.argv[1])
        for data in (people(1000), "people.parquet", ("people.duckdb", "people")):
            Path("people.ledger").unlink(missing_ok=True)
            session = session_on(data, "people.ledger")

            def ask():
                session.sql(QUESTION, epsilon=0.2).run()
                session.table("people").count(where="age >= 50 and sex == 'F'", epsilon=0.1, fresh=True).run()
                return f"{session.spent.epsilon:.3f}"

            assert in_child(ask) == "0.400"
            assert f"{session.spent.epsilon:.3f}" == "0.400"  # the parent sees what its child spent
            session.sql(QUESTION, epsilon=0.25).run()
            assert f"{session.spent.epsilon:.3f}" == "0.450"
            session.close()
        """,
        tmp_path,
    )


def test_a_child_asks_of_the_rows_that_a_connection_had(tmp_path):
    said = run(
        """
        connection = duckdb.connect()
        frame = people(300_000)
        connection.execute("CREATE TABLE people AS SELECT * FROM frame")
        session = session_on((connection, "people"), sys.argv[1])

        def ask():
            session.sql(QUESTION, epsilon=0.2).run()
            session.table("people").count(where="age > 3", epsilon=0.1, fresh=True).run()
            return f"{session.spent.epsilon:.3f}"

        assert in_child(ask) == "0.400"
        connection.execute("DELETE FROM people")
        session.sql(QUESTION, epsilon=0.2).run()

        print(in_child(lambda: session.register((connection, "people"), "more", public=True)))
        """,
        tmp_path / "people.ledger",
    )
    assert said.startswith("DomainError: these are the rows of 'people', which is protected")


def test_a_fork_while_another_thread_counts(tmp_path):
    """Locks of a thread that does not come along would never be free in the child."""
    run(
        """
        session = session_on(people(1000), sys.argv[1])
        begun, go_on = threading.Event(), threading.Event()

        def slow(*arguments):
            begun.set()
            go_on.wait(60)
            return draw(*arguments)

        draw, session._questions.draw = session._questions.draw, slow
        other = threading.Thread(target=session.table("people").count(where="age > 70", epsilon=0.05).run)
        other.start()
        begun.wait(60)
        session._questions.draw = draw
        asked = in_child(lambda: session.table("people").count(where="age < 10", epsilon=0.05).run().number)
        assert int(asked) > 3, asked
        go_on.set()
        other.join(60)
        assert not other.is_alive()
        assert session.audit().ok
        """,
        tmp_path / "people.ledger",
    )


def test_a_child_of_a_session_on_postgresql(postgres, tmp_path):
    """What a child says to the server on its parent's connection, its goodbye too, would end the parent's."""
    run(
        """
        import psycopg

        with psycopg.connect(sys.argv[1], autocommit=True) as connection:
            connection.execute("DROP TABLE IF EXISTS forked")
            connection.execute(
                "CREATE TABLE forked AS SELECT g % 100 AS age, CASE WHEN g % 2 = 0 THEN 'F' ELSE 'M' END AS sex, "
                "g / 1000.0 AS income FROM generate_series(0, 999) AS g"
            )
        session = session_on((sys.argv[1], "forked"), sys.argv[2])
        gc.collect()

        def ask():
            session.sql(QUESTION, epsilon=0.2).run()
            session.table("people").count(where="age >= 50", epsilon=0.1, fresh=True).run()
            return f"{session.spent.epsilon:.3f}"

        assert in_child(ask) == "0.400"
        [engine] = [protected.engine for protected in session._tables.values()]
        assert not engine._executor.broken
        session.sql(QUESTION, epsilon=0.25).run()
        with psycopg.connect(sys.argv[1], autocommit=True) as connection:
            connection.execute("DELETE FROM forked WHERE age = 3")
        said = in_child(lambda: session.sql(QUESTION, epsilon=0.05).run())
        assert said.startswith("FrameChanged"), said
        """,
        postgres,
        tmp_path / "people.ledger",
    )
