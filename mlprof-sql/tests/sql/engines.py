"""Runs all queries in another SQL engine and prints the results as JSON.

Usage: engines.py ENGINE FOLDER QUERIES
"""

import json
import os
import pathlib
import signal
import sys
import threading


def duckdb(tables):
    import duckdb

    connection = duckdb.connect()
    for name, files in tables.items():
        connection.execute(f"create view {name} as select * from read_parquet('{files}/*.parquet', union_by_name = true)")

    def ask(sql):
        cursor = connection.execute(sql)
        return [column[0] for column in cursor.description], cursor.fetchall()

    return ask


def datafusion(tables):
    import datafusion

    context = datafusion.SessionContext()
    for name, files in tables.items():
        context.register_parquet(name, str(files))

    def ask(sql):
        answer = context.sql(sql).to_arrow_table()
        return answer.column_names, [tuple(row.values()) for row in answer.to_pylist()]

    return ask


def spark(tables, master="local[2]"):
    from pyspark.sql import SparkSession

    builder = SparkSession.builder.master(master).appName("mlprof")
    for name, value in {
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "4",
    }.items():
        builder = builder.config(name, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    for name, files in tables.items():
        session.read.option("mergeSchema", "true").parquet(str(files)).createOrReplaceTempView(name)

    def ask(sql):
        answer = session.sql(sql)
        return answer.columns, [tuple(row) for row in answer.collect()]

    return ask


def spark_cluster(tables):
    """Returns the query function of a Spark cluster with two executor processes."""
    return spark(tables, "local-cluster[2,1,1024]")


def executors():
    """Returns the ids of the Spark executors among the descendants of this process."""
    parents, found = {}, []
    for process in pathlib.Path("/proc").glob("[0-9]*"):
        try:
            stat = (process / "stat").read_text()
            command = (process / "cmdline").read_bytes()
        except (FileNotFoundError, ProcessLookupError, PermissionError):
            continue
        # The process name, in parentheses, may contain spaces.
        parents[int(process.name)] = int(stat.rpartition(")")[2].split()[1])
        # The shell that starts an executor also has this name in its arguments, but is not Java.
        if b"CoarseGrainedExecutorBackend" in command and b"java" in command.split(b"\0")[0]:
            found.append(int(process.name))

    def is_below(process):
        while process in parents and process != os.getpid():
            process = parents[process]
        return process == os.getpid()

    return [process for process in found if is_below(process)]


def spark_killed(tables):
    """Returns the query function of a Spark cluster that loses an executor on the way."""
    ask, asked, killed = spark_cluster(tables), 0, []

    def ask_and_kill(sql):
        nonlocal asked
        asked += 1
        if asked == 5:
            there = executors()
            if len(there) != 2:
                sys.exit(f"there are not two executors: {there}")
            killed.append(there[0])
            threading.Timer(0.2, os.kill, (there[0], signal.SIGKILL)).start()
        answer = ask(sql)
        if asked == 10 and killed[0] in executors():
            sys.exit(f"{killed} still runs")
        return answer

    return ask_and_kill


ENGINES = {
    "duckdb": duckdb,
    "datafusion": datafusion,
    "spark": spark,
    "spark-cluster": spark_cluster,
    "spark-killed": spark_killed,
}


def plain(value):
    return value if value is None or isinstance(value, (int, float, str)) else float(value)


def main():
    engine, folder, questions = sys.argv[1:]
    tables = {path.name: path for path in sorted(pathlib.Path(folder).iterdir()) if any(path.glob("*.parquet"))}
    ask = ENGINES[engine](tables)
    answers = {}
    for question in sorted(pathlib.Path(questions).glob("*.sql")):
        columns, rows = ask(question.read_text())
        answers[question.stem] = [dict(zip(columns, map(plain, row))) for row in rows]
    json.dump(answers, sys.stdout)


main()
