"""Measures the cost of torch.profiler per kernel.

Rounds without and with the profiler alternate. Each launches as many small kernels as the rounds of
gpu-check. The output has medians over all pairs in nanoseconds per kernel.
"""

import json
import statistics
import time

import torch
from torch.profiler import ProfilerActivity, profile

KERNELS = 20_000
PAIRS = 15

values = torch.zeros(32, device="cuda")


def launches():
    began = time.perf_counter_ns()
    with torch.no_grad():
        for _ in range(KERNELS):
            values.add_(1.0)
    torch.cuda.synchronize()
    return (time.perf_counter_ns() - began) / KERNELS


off, extra, report = [], [], []
for pair in range(PAIRS + 1):
    without = launches()
    profiler = profile(activities=[ProfilerActivity.CPU, ProfilerActivity.CUDA])
    profiler.start()
    used = launches()
    began = time.perf_counter_ns()
    profiler.stop()
    profiler.key_averages().table()
    spent = (time.perf_counter_ns() - began) / KERNELS
    # The first pair is a warm-up.
    if pair > 0:
        off.append(without)
        extra.append(used - without)
        report.append(spent)

print(
    json.dumps(
        {
            "off": statistics.median(off),
            "extra": statistics.median(extra),
            "report": statistics.median(report),
        }
    )
)
