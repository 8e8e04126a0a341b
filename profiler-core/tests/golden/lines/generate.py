"""Writes the other files of this folder with line_profiler 5.1.0 and memory_profiler 0.61.0.

`python generate.py` needs both packages. The `*.json` files are mlprof reports, and the `*.txt`
files are the output of the two packages for the same numbers.
"""

import io
import json
import os
import tempfile

import line_profiler.line_profiler as lp
import memory_profiler as mp

HERE = os.path.dirname(os.path.abspath(__file__))
HEADER = {
    "schema_version": 1,
    "units": {"time": "seconds", "started_at": "UTC, RFC 3339"},
    "stage": None,
    "rank": 0,
    "world_size": 1,
    "started_at": "2026-01-02T03:04:05Z",
    "wall_seconds": 12.5,
    "startup": None,
    "overhead": {"scopes": 1000, "seconds_per_scope": 4.5e-8},
    "notes": [],
}
SOURCE = """# first
def small(x):
    y = x + 1

    return y

def large(values):
    total = 0
    for value in values:
        if value > 10:
            total += value
    return total


def idle():
    pass
"""
FILES = {"src/net.py": SOURCE, "src/other.py": "def other():\n\treturn 'é'\n"}
# (file, first line, name): {line: (hits, nanoseconds)}
FUNCTIONS = {
    ("src/net.py", 2, "small"): {3: (100, 9_000_050), 5: (100, 3_296)},
    ("src/net.py", 7, "large"): {
        8: (1, 250),
        9: (12_345_678_901, 98_765_432_109_876),
        10: (999_999_999, 1_000_000_000_000_000_000),
        11: (3, 123_456_789_012_345_678),
        12: (1, 50),
    },
    ("src/net.py", 15, "idle"): {},
    ("src/other.py", 1, "other"): {2: (7, 0)},
    ("src/gone.py", 3, "gone"): {4: (2, 1_500), 7: (1, 450)},
}
LAST = {"small": 5, "large": 12, "idle": 16, "other": 2, "gone": 8}
# {line: (increment, maximum, occurrences)} in bytes
MEMORY = {
    ("src/net.py", 2, "small"): {
        2: (47_244_640, 47_244_640, 3),
        3: (8_000_024, 55_244_664, 3),
        5: (-8_000_024, 47_244_640, 3),
    },
    ("src/net.py", 7, "large"): {
        7: (0, 1_234_567_890_123_456, 1),
        8: (1_048_576, 1_048_576, 12_345_678_901),
        9: (52_428, 52_429, 5),
        12: (-98_765_432_109_876, -1, 1),
    },
    ("src/other.py", 1, "other"): {1: (0, 0, 1), 2: (0, 0, 1)},
}


def report(numbers, memory):
    functions = []
    for key in sorted(numbers.keys() | memory.keys()):
        file, first, name = key
        lines, changes = numbers.get(key, {}), memory.get(key, {})
        source = FILES.get(file)

        def as_json(change):
            fields = ("increment_bytes", "max_bytes", "occurrences")
            return change and dict(zip(fields, change))

        functions.append({
            "name": name,
            "file": file,
            "first_line": first,
            "last_line": LAST[name],
            "calls": 1,
            "total_seconds": sum(time for _, time in lines.values()) * 1e-9,
            "entry_memory": as_json(changes.get(first)),
            "lines": [
                {
                    "line": line,
                    "hits": lines.get(line, (1, 0))[0],
                    "seconds": lines.get(line, (1, 0))[1] * 1e-9,
                    "memory": as_json(changes.get(line)),
                }
                for line in sorted((lines.keys() | changes.keys()) - {first})
            ],
            "source": source and source.splitlines()[first - 1 : LAST[name]],
        })
    return {"profiler": "lines", "header": HEADER, "functions": functions}


def write(name, text):
    with open(os.path.join(HERE, name), "w", newline="") as file:
        file.write(text)


def times(**options):
    stats = {key: [(line, *of) for line, of in FUNCTIONS[key].items()] for key in sorted(FUNCTIONS)}
    stream = io.StringIO()
    lp.show_text(stats, 1e-9, stream=stream, config=False, **options)
    return stream.getvalue()


def memory(precision):
    class Profile:
        pass

    profile, stream = Profile(), io.StringIO()
    profile.code_map = {}
    text = ""
    for (file, first, name), lines in MEMORY.items():
        mebibytes = lambda of: (of[0] / 2**20, of[1] / 2**20, of[2])
        rows = [(n, mebibytes(lines[n]) if n in lines else None) for n in range(first, LAST[name] + 1)]
        profile.code_map = {file: rows}
        mp.show_results(profile, stream=stream, precision=precision)
    return stream.getvalue()


with tempfile.TemporaryDirectory() as directory:
    os.chdir(directory)
    for file, text in FILES.items():
        os.makedirs(os.path.dirname(file), exist_ok=True)
        with open(file, "w") as out:
            out.write(text)
    write("times.json", json.dumps(report(FUNCTIONS, {}), indent=1) + "\n")
    write("times.txt", times(output_unit=1e-6))
    write("times-nanoseconds.txt", times(output_unit=1e-9))
    write("times-seconds-sorted.txt", times(output_unit=1, stripzeros=True, sort=True, summarize=True))
    write("memory.json", json.dumps(report({}, MEMORY), indent=1) + "\n")
    write("memory.txt", memory(1))
    write("memory-3.txt", memory(3))
