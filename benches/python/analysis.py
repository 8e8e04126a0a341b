"""Compares the cost of `mlprof analyze` with other readers of the same trace.

analysis.py --mlprof PROGRAM [--slices N] [--rounds N] [--trace FILE] [--json FILE]
            [--without-hta] [--trace-processor COMMAND]

The benchmark generates a trace of N slices, or reads the given one. Each reader runs in its own
process. All readers run once in every round, so that other load on the machine affects all of them.
The result has medians of CPU time (user and system) and of the peak resident memory. HTA only reads
the trace (`TraceAnalysis(...)`), and mlprof runs its complete analysis. The trace processor counts
the slices. `cargo xtask bench analysis` passes Perfetto's trace processor, built for WebAssembly
and run by node, which also reads the trace in Perfetto's format.
"""

import argparse
import gzip
import json
import os
import random
import shlex
import signal
import statistics
import subprocess
import sys
import tempfile
import threading

HTA = """
import sys, warnings
warnings.simplefilter("ignore")
from hta.trace_analysis import TraceAnalysis
TraceAnalysis(trace_files={0: sys.argv[1]})
"""

COUNT = "select count(*) from slice"

GRADIENT_BUCKETS = 4


def make(path, slices):
    """Writes a trace as Kineto does and returns its number of slices.

    Each step copies a batch to the device, runs forward, backward and optimizer ops with kernels
    and their launches, and all-reduces the gradients.
    """
    chance = random.Random(1)
    ops = ["aten::linear", "aten::addmm", "aten::relu", "aten::conv2d", "aten::_log_softmax", "MulBackward0"]
    with gzip.open(path, "wt", compresslevel=3) as out:
        out.write('{"schemaVersion":1,"deviceProperties":[{"id":0,"name":"GPU"}],')
        out.write('"distributedInfo":{"rank":0,"world_size":1},"traceEvents":[\n')
        out.write('{"ph":"M","name":"process_labels","pid":0,"tid":0,"ts":0,"args":{"labels":"GPU 0"}}')

        def slice_(pid, tid, category, name, start, end, args="{}"):
            out.write(
                f',\n{{"ph":"X","cat":"{category}","name":"{name}","pid":{pid},"tid":{tid},'
                f'"ts":{start / 1000:.3f},"dur":{(end - start) / 1000:.3f},"args":{args}}}'
            )

        def launched(stream, category, name, call, begin, took, more=""):
            """Yields the host call and the device work that it launches."""
            args = f'{{"correlation":{correlation}{more}}}'
            api = "cudaMemcpyAsync" if category == "gpu_memcpy" else "cudaLaunchKernel"
            yield (1, 1, "cuda_runtime", api, call, call + 3_000, args)
            yield (0, stream, category, name, begin, begin + took, args)

        now, written, step, correlation, device = 1_000_000, 0, 0, 0, 0
        while written < slices:
            begin, inside = now, []
            for action in ["training_step", "backward", "optimizer_step"]:
                start = now
                for _ in range(400):
                    took = chance.randrange(8_000, 60_000)
                    correlation += 1
                    args = f'{{"correlation":{correlation}}}'
                    call = now + took // 4
                    device = max(device, call + chance.randrange(4_000, 9_000))
                    kernel = chance.randrange(3_000, 50_000)
                    inside += [
                        (1, 1, "cpu_op", chance.choice(ops), now, now + took, '{"External id":%d}' % correlation),
                        (1, 1, "cuda_runtime", "cudaLaunchKernel", call, call + took // 3, args),
                        (0, 7, "kernel", f"kernel_{correlation % 40}", device, device + kernel, args),
                    ]
                    device += kernel
                    now += took + 1_000
                if action == "training_step":
                    correlation += 1
                    copy = ("gpu_memcpy", "Memcpy HtoD (Pinned -> Device)", start, start + 5_000, chance.randrange(90_000, 120_000))
                    inside += launched(20, *copy, ',"bytes":2097152')
                if action == "backward":
                    for _ in range(GRADIENT_BUCKETS):
                        correlation += 1
                        took = chance.randrange(200_000, 400_000)
                        inside += launched(24, "kernel", "ncclDevKernel_AllReduce_Sum_f32_RING_LL", now, device, took)
                        device += took
                        now += 4_000
                inside.append((1, 1, "user_annotation", action, start, now))
            inside.append((1, 1, "user_annotation", f"ProfilerStep#{step}", begin, now))
            for one in inside:
                slice_(*one)
            written += len(inside)
            step, now = step + 1, now + 5_000
        out.write('\n],"traceName":"x"}')
    return written


def measured(command, limit=None):
    """Returns CPU seconds and peak resident bytes, or None if `command` exceeds `limit` seconds."""
    process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE)
    timer = threading.Timer(limit or threading.TIMEOUT_MAX, process.kill)
    timer.daemon = True
    timer.start()
    errors = process.stderr.read().decode(errors="replace")
    _, status, usage = os.wait4(process.pid, 0)
    timer.cancel()
    if limit and os.waitstatus_to_exitcode(status) == -signal.SIGKILL:
        return None
    if os.waitstatus_to_exitcode(status) != 0:
        sys.exit(f"{shlex.join(command)} failed:\n{errors}")
    unit = 1 if sys.platform == "darwin" else 1024
    return usage.ru_utime + usage.ru_stime, usage.ru_maxrss * unit


def summary(runs):
    """Returns medians of results of `measured`, and the middle half of the times."""
    times, memory = sorted(time for time, _ in runs), [bytes_ for _, bytes_ in runs]
    quarter = len(times) // 4
    return {
        "cpu_seconds": statistics.median(times),
        "cpu_seconds_middle_half": [times[quarter], times[len(times) - 1 - quarter]],
        "resident_bytes": statistics.median(memory),
        "runs": len(times),
    }


def main():
    arguments = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    arguments.add_argument("--mlprof", required=True)
    arguments.add_argument("--slices", type=int, default=1_000_000)
    arguments.add_argument("--rounds", type=int, default=3)
    arguments.add_argument("--trace")
    arguments.add_argument("--json")
    arguments.add_argument("--without-hta", action="store_true")
    arguments.add_argument("--trace-processor")
    options = arguments.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        trace = options.trace or os.path.join(folder, "run.pt.trace.json.gz")
        if not options.trace:
            print(f"{make(trace, options.slices):,} slices, {os.path.getsize(trace):,} bytes as JSON.gz", flush=True)
        tables = os.path.join(folder, "tables")
        convert = [options.mlprof, "convert", trace, "--to", "parquet", "-o"]
        native = os.path.join(folder, "run.pftrace")
        to_native = [options.mlprof, "convert", trace, "--to", "pftrace", "-o", native]
        subprocess.run([*convert, tables], check=True, stderr=subprocess.DEVNULL)
        sizes = [os.path.getsize(os.path.join(at, name)) for at, _, names in os.walk(tables) for name in names]
        print(f"{sum(sizes):,} bytes as Parquet", flush=True)
        subprocess.run(to_native, check=True, stderr=subprocess.DEVNULL)
        print(f"{os.path.getsize(native):,} bytes as pftrace", flush=True)
        readers = {
            "mlprof analyze, JSON.gz": [options.mlprof, "analyze", trace],
            "mlprof analyze, Parquet": [options.mlprof, "analyze", tables],
            "mlprof convert, JSON.gz to Parquet": [*convert, os.path.join(folder, "again")],
            "mlprof convert, JSON.gz to pftrace": to_native,
        }
        if not options.without_hta:
            readers["HTA 0.5.0, JSON.gz, reading only"] = [sys.executable, "-c", HTA, trace]
        if options.trace_processor:
            ask = shlex.split(options.trace_processor)
            readers["trace_processor, JSON.gz"] = [*ask, trace, COUNT]
            readers["trace_processor, pftrace"] = [*ask, native, COUNT]
        runs = {name: [] for name in readers}
        for _ in range(options.rounds):
            for name, command in readers.items():
                runs[name].append(measured(command))
        results = {name: summary(of_reader) for name, of_reader in runs.items()}
    print(f"\nMedians of {options.rounds} rounds:\n\n{'':<36}{'CPU':>10}{'middle half':>18}{'memory':>12}")
    for name, of_reader in results.items():
        low, high = of_reader["cpu_seconds_middle_half"]
        print(
            f"{name:<36}{of_reader['cpu_seconds']:>8.2f} s{low:>9.2f} – {high:.2f} s{of_reader['resident_bytes'] / 1e6:>9.0f} MB"
        )
    if options.json:
        with open(options.json, "w") as out:
            json.dump(results, out, indent=2)


if __name__ == "__main__":
    main()
