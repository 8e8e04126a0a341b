"""Measures the cost of `mlprof-sql` queries over the traces of many ranks.

fleet.py --mlprof PROGRAM --sql PROGRAM [--ranks N] [--slices N] [--question NAME] [--memory MIB]
         [--limit SECONDS] [--folder FOLDER] [--json FILE]

The benchmark generates the tables of one trace of N slices. The other ranks have copies of them
with their own rank number. A file holds only one rank, so equal ranks do not compress better. The
queries run one after the other, each in its own process. The result has CPU time (user and system),
peak resident memory and wall time. With --folder, the tables are kept in that folder and reused.
"""

import argparse
import glob
import json
import os
import subprocess
import tempfile
import time

import analysis

QUESTIONS = ["straggler", "exposed", "ops", "outliers", "step_times", "copies", "collectives", "launches", "overlap", "devices"]


def make(folder, ranks, slices, mlprof):
    """Writes the tables of all ranks and returns their folder."""
    trace = os.path.join(folder, "run.pt.trace.json.gz")
    tables = os.path.join(folder, "tables")
    print(f"{analysis.make(trace, slices):,} slices of a rank", flush=True)
    subprocess.run([mlprof, "convert", trace, "--to", "parquet", "-o", tables], check=True, stderr=subprocess.DEVNULL)
    for file in glob.glob(os.path.join(tables, "*", "*.parquet")):
        copy(file, ranks)
    return tables


def copy(file, ranks):
    """Copies a file of rank 0 for each other rank, with the same schema and compression."""
    import pyarrow
    import pyarrow.parquet as parquet

    table = parquet.read_table(file)
    place = table.schema.get_field_index("rank")
    folder, name = os.path.split(file)
    for rank in range(1, ranks):
        if place >= 0:
            field = table.schema.field(place)
            numbers = pyarrow.repeat(pyarrow.scalar(rank, field.type), table.num_rows)
            table = table.set_column(place, field, numbers)
        parquet.write_table(table, os.path.join(folder, name.replace("0", str(rank), 1)), compression="zstd")


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mlprof", required=True)
    arguments.add_argument("--sql", required=True)
    arguments.add_argument("--ranks", type=int, default=100)
    arguments.add_argument("--slices", type=int, default=1_000_000)
    arguments.add_argument("--question", action="append")
    arguments.add_argument("--memory")
    arguments.add_argument("--limit", type=float, default=600)
    arguments.add_argument("--folder")
    arguments.add_argument("--json")
    options = arguments.parse_args()
    results = {}
    with tempfile.TemporaryDirectory() as temporary:
        folder = options.folder or temporary
        tables = os.path.join(folder, "tables")
        if not os.path.isdir(tables):
            make(folder, options.ranks, options.slices, options.mlprof)
        files = glob.glob(os.path.join(tables, "*", "*.parquet"))
        print(f"{sum(map(os.path.getsize, files)):,} bytes as Parquet, in {len(files)} files\n", flush=True)
        print(f"{'':<14}{'CPU':>10}{'clock':>10}{'memory':>12}", flush=True)
        memory = ["--memory", options.memory] if options.memory else []
        for question in options.question or QUESTIONS:
            ask = [options.sql, tables, question, "--format", "csv", "--output", os.path.join(temporary, "answer.csv"), *memory]
            began = time.monotonic()
            of_question = analysis.measured(ask, options.limit)
            clock = time.monotonic() - began
            if of_question is None:
                print(f"{question:<14}not done in {options.limit:g} s", flush=True)
                continue
            seconds, resident = of_question
            print(f"{question:<14}{seconds:>8.2f} s{clock:>8.2f} s{resident / 1e6:>9.0f} MB", flush=True)
            results[question] = {"cpu_seconds": seconds, "clock_seconds": clock, "resident_bytes": resident}
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out, indent=2)


if __name__ == "__main__":
    main()
