"""No secret stands where a database writes down what it was asked: logs, statistics, lists of what runs, event logs."""

import contextlib
import dataclasses
import hashlib
import hmac
import importlib.util
from fractions import Fraction
from pathlib import Path

from dpnotebook.domain import Domain
from dpnotebook.engine.source import source_of
from dpnotebook.engine.table import TableEngine
from dpnotebook.engine.workspace import Workspace
from dpnotebook.sql.analysis.analyse import analyse
from dpnotebook.sql.bounded_sums import Component
from dpnotebook.sql.rewrite.bounded_aggregation import totals
from dpnotebook.sql.select import Contribution
from dpnotebook.sql.statement import Relation

_spec = importlib.util.spec_from_file_location("everywhere", Path(__file__).parent / "everywhere.py")
everywhere = importlib.util.module_from_spec(_spec)
_spec.loader.exec_module(everywhere)

ROWS = everywhere.made(60)
KEY = b"the key of a ledger, of 32 bytes"
SECRETS = {
    "of a ledger": KEY.hex(),
    "of samples": hashlib.blake2b(b"sample", key=KEY, digest_size=16).hexdigest(),
    "of fingerprints": hmac.new(KEY, b"rows", "sha256").hexdigest(),
    "of a statement": "5f7e" * 8,
}
UNITS = Component("units", None, Fraction(0), Fraction(1), Fraction(1), 1, ())


def ask_everything(source):
    """Use every secret on a table: fingerprint it, bound its units, draw rows and groups."""
    source.fingerprint(list(everywhere.KINDS), KEY)
    engine = TableEngine(source, Domain({"ward": ["north", "east"]}), "who", 1, KEY)
    tables = Workspace()
    try:
        tables.add("visits", source, "who", private=True)
        relation = Relation("visits", tables.kinds("visits"), unit="who", max_rows=2)
        (select,) = analyse("SELECT stay, COUNT(*) FROM visits GROUP BY stay", {"visits": relation}, {}).selects

        def run(query):
            return tables.run(query, ["visits"])

        for contribution in (Contribution("groups", 1), Contribution("rows", 2)):
            drawn = dataclasses.replace(select, contribution=contribution)
            assert totals(drawn, [UNITS], run, SECRETS["of a statement"]).numbers.sum() > 0
    finally:
        engine.close()
        tables.close()


def check(written):
    """Refuse what holds a secret, or half of one; it must be what was asked, which holds digests."""
    assert "md5" in written.lower()
    for name, secret in SECRETS.items():
        assert secret[:16] not in written, name
        assert secret[-16:] not in written, name


def test_postgres_logs_and_statistics_hold_no_secret(postgres):
    import psycopg

    folder = Path(postgres.partition("host=")[2])
    with psycopg.connect(postgres, autocommit=True) as admin:
        admin.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        admin.execute("SELECT pg_stat_statements_reset()")
        _, name = everywhere.put_into_postgres(postgres, "told", ROWS)
        options = "-clog_statement=all -clog_min_duration_statement=0 -clog_parameter_max_length=-1"
        logged = f"{postgres}&options={options.replace(' ', '%20').replace('=', '%3D')}"
        ask_everything(source_of((logged, name)))
        check((folder / "log").read_text())
        listed = admin.execute("SELECT query FROM pg_stat_statements UNION ALL SELECT query FROM pg_stat_activity")
        check("\n".join(str(row[0]) for row in listed))


@contextlib.contextmanager
def event_log(spark, folder):
    """Have Spark write its event log into a folder, as `spark.eventLog.enabled` does, but for this test alone."""
    jvm, context = spark._jvm, spark._jsc.sc()
    conf = context.getConf().set("spark.eventLog.compress", "false")
    logging = jvm.org.apache.spark.scheduler.EventLoggingListener
    none, place = jvm.scala.Option.empty(), jvm.java.net.URI(folder.as_uri())
    listener = logging("tested", none, place, conf, context.hadoopConfiguration())
    listener.start()
    context.addSparkListener(listener)
    try:
        yield
        context.listenerBus().waitUntilEmpty()
    finally:
        context.removeSparkListener(listener)
        listener.stop()


def test_the_list_of_what_runs_and_the_event_log_of_spark_hold_no_secret(spark, tmp_path):
    with event_log(spark, tmp_path):
        ask_everything(source_of(everywhere.put_into_spark(spark, ROWS)))
    store = spark._jsparkSession.sharedState().statusStore()
    executions = store.executionsList()
    told = []
    for i in range(executions.size()):
        execution = executions.apply(i)
        told += [execution.description(), execution.details(), execution.physicalPlanDescription()]
        told.append(
            store.planGraph(execution.executionId()).makeDotFile(store.executionMetrics(execution.executionId()))
        )
    check("\n".join(told))
    check("\n".join(path.read_text() for path in tmp_path.rglob("*") if path.is_file()))
