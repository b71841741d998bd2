"""Real databases for the tests, started on this machine and stopped with the tests."""

import contextlib
import ctypes
import os
import pwd
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

REQUIRED = os.environ.get("DPNOTEBOOK_REQUIRE_ENGINES") == "1"


def missing(what):
    """Skip, unless this machine is one that must have every engine."""
    if REQUIRED:
        pytest.fail(f"{what}, but DPNOTEBOOK_REQUIRE_ENGINES=1 says that it must be there")
    pytest.skip(what)


def _postgres_programs():
    found = sorted(Path("/usr/lib/postgresql").glob("*/bin/initdb"), key=lambda path: int(path.parts[4]))
    if found:
        return found[-1].parent
    there = shutil.which("initdb")
    return Path(there).resolve().parent if there else None


def _as_somebody():
    """Return what makes a child process not run as root, which PostgreSQL refuses; and that user's number."""
    if os.getuid() != 0:
        return _end_with_parent, os.getuid()
    for name in ("postgres", "nobody"):
        with contextlib.suppress(KeyError):
            user = pwd.getpwnam(name)

            def change(user=user):
                os.setgid(user.pw_gid)
                os.setuid(user.pw_uid)
                _end_with_parent()

            return change, user.pw_uid
    return None, 0


def _end_with_parent():
    """Ask Linux to end this process when the tests are killed, which then cannot stop it themselves."""
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(1, signal.SIGQUIT)


@contextlib.contextmanager
def running_postgres():
    """Yield the address of an empty PostgreSQL server that listens to a socket in a folder of its own, with its log."""
    programs = _postgres_programs()
    if programs is None:
        missing("PostgreSQL is not installed (apt install postgresql)")
    try:
        import psycopg  # noqa: F401
    except ImportError:
        missing("psycopg is not installed (pip install dpnotebook[postgres])")
    change, user = _as_somebody()
    if user == 0:
        missing("PostgreSQL does not run as root, and there is no other user here")
    folder = Path(tempfile.mkdtemp(prefix="pg", dir="/tmp"))
    os.chown(folder, user, -1)
    data = folder / "data"

    environment = {**os.environ, "LC_ALL": "C.UTF-8"}
    address = f"postgresql://tester@/postgres?host={folder}"
    try:
        initdb = [programs / "initdb", "-D", data, "-A", "trust", "-U", "tester", "-E", "UTF8", "--no-sync"]
        quiet = {"preexec_fn": change, "cwd": folder, "env": environment, "stdout": subprocess.DEVNULL}
        subprocess.run(initdb, check=True, timeout=120, **quiet)
        settings = ["listen_addresses=", f"unix_socket_directories={folder}", "fsync=off", "shared_buffers=32MB"]
        settings += ["shared_preload_libraries=pg_stat_statements", "pg_stat_statements.track=all"]
        words = [word for setting in settings for word in ("-c", setting)]
        with (folder / "log").open("wb") as log:
            server = subprocess.Popen([programs / "postgres", "-D", data, *words], stderr=log, **quiet)
            try:
                _wait_for(address, server)
                yield address
            finally:
                server.send_signal(signal.SIGQUIT)
                server.wait(60)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _wait_for(address, server):
    import psycopg

    for _ in range(600):
        with contextlib.suppress(psycopg.OperationalError), psycopg.connect(address, connect_timeout=10):
            return
        if server.poll() is not None:
            break
        time.sleep(0.1)
    pytest.fail("PostgreSQL did not start")


@contextlib.contextmanager
def running_spark():
    """Yield a Spark session on two cores of this machine that listens to nobody else."""
    if shutil.which("java") is None and "JAVA_HOME" not in os.environ:
        missing("Java is not installed (apt install openjdk-17-jre-headless)")
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        missing("pyspark is not installed (pip install dpnotebook[spark])")
    folder = tempfile.mkdtemp(prefix="spark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    builder = SparkSession.builder.master("local[2]").appName("tests")
    for name, value in {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.memory": "2g",  # with 700m it collects garbage for most of the time
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.codegen.wholeStage": "false",  # compiling takes longer than these few rows
        "spark.sql.codegen.factoryMode": "NO_CODEGEN",
        "spark.default.parallelism": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.warehouse.dir": f"{folder}/warehouse",
        "spark.local.dir": folder,
        "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC -Xms1200m -Xmn600m "
        "-Dlog4j2.level=ERROR",  # a tenth of its time goes to garbage where it begins with little memory
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    try:
        yield session
    finally:
        session.stop()
        shutil.rmtree(folder, ignore_errors=True)
