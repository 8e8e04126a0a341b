"""Python version of python.rs. With line_profiler installed (5.1.0 with CPython 3.11 was used),
`python python.py` compares its hits with the numbers in the comments."""


def total(values):
    result = 0  #= 2
    for value in values:  #= 12
        if value % 2 == 0:  #= 10
            continue  #= 5
        result += value  #= 5
    return result  #= 2


def countdown(start):
    steps = 0  #= 2
    while start > 0:  #= 10
        start -= 1  #= 8
        if start == 3:  #= 8
            steps += 10  #= 1
        elif start == 1:  #= 7
            steps += 100  #= 2
        else:
            steps += 1  #= 5
    return steps  #= 2


def search(rows, wanted):
    for y, row in enumerate(rows):  #= 5
        for x, cell in enumerate(row):  #= 13
            if cell == wanted:  #= 10
                return (x, y)  #= 1
    return None  #= 1


def kind(value):
    match value:  #= 4
        case 0:
            name = "zero"  #= 1
        case 1 | 2:
            name = "small"  #= 2
        case _:
            name = "big"  #= 1
    return name  #= 4


def checked(text):
    try:
        number = int(text)  #= 3
    except ValueError:
        return -1  #= 1
    if number > 100:  #= 2
        return 100  #= 1
    return number  #= 1


def fibonacci(n):
    if n < 2:  #= 25
        return n  #= 13
    first = fibonacci(n - 1)  #= 12
    second = fibonacci(n - 2)  #= 12
    return first + second  #= 12


def main():
    assert total([1, 2, 3, 4, 5]) + total(range(5)) == 13
    assert (countdown(5), countdown(3)) == (113, 102)
    rows = [[1, 2, 3], [4, 5, 6]]
    assert (search(rows, 4), search(rows, 7)) == ((0, 1), None)
    assert [kind(n) for n in range(4)] == ["zero", "small", "small", "big"]
    assert [checked(text) for text in ("7", "x", "700")] == [7, -1, 100]
    assert fibonacci(6) == 8


if __name__ == "__main__":
    import sys

    import line_profiler

    profiler = line_profiler.LineProfiler(total, countdown, search, kind, checked, fibonacci)
    profiler.runcall(main)
    hits = {line: hits for of in profiler.get_stats().timings.values() for line, hits, _ in of}
    with open(__file__) as file:
        written = {number: line.partition(" #= ")[2] for number, line in enumerate(file, 1)}
    for number, expected in written.items():
        if expected.strip().isdigit() and int(expected) != hits.get(number):
            sys.exit(f"line {number} has {hits.get(number)} hits")
