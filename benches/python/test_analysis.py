"""Tests of `analysis.py`."""

import gzip
import json
import os
import sys
import tempfile
import unittest

import analysis


class Analysis(unittest.TestCase):
    def test_the_trace_has_what_is_asked_for(self):
        with tempfile.TemporaryDirectory() as folder:
            path = os.path.join(folder, "a.json.gz")
            written = analysis.make(path, 4_000)
            with gzip.open(path) as file:
                events = json.load(file)["traceEvents"]
        slices = [event for event in events if event["ph"] == "X"]
        self.assertEqual(len(slices), written)
        self.assertGreaterEqual(written, 4_000)
        kernels = [event for event in slices if event["cat"] == "kernel"]
        ends = [(event["ts"], event["ts"] + event["dur"]) for event in kernels]
        self.assertTrue(all(one[1] <= next_[0] + 1e-6 for one, next_ in zip(ends, ends[1:])), "a stream does one thing")
        calls = {event["args"]["correlation"] for event in slices if event["cat"] == "cuda_runtime"}
        copies = [event for event in slices if event["cat"] == "gpu_memcpy"]
        self.assertEqual(calls, {event["args"]["correlation"] for event in kernels + copies})
        steps = len([event for event in slices if event["name"].startswith("ProfilerStep#")])
        added_up = [event for event in kernels if event["name"].startswith("nccl")]
        self.assertEqual((len(copies), len(added_up)), (steps, analysis.GRADIENT_BUCKETS * steps))

    def test_medians_are_those_of_the_runs(self):
        found = analysis.summary([(3.0, 10), (1.0, 30), (2.0, 20), (9.0, 20)])
        self.assertEqual((found["cpu_seconds"], found["resident_bytes"], found["runs"]), (2.5, 20, 4))
        self.assertEqual(found["cpu_seconds_middle_half"], [2.0, 3.0])

    def test_a_process_is_measured_by_itself(self):
        seconds, memory = analysis.measured([sys.executable, "-c", "x = bytearray(200_000_000); sum(range(3_000_000))"])
        self.assertGreater(memory, 200_000_000)
        self.assertGreater(seconds, 0)

    def test_a_process_that_takes_too_long_is_ended(self):
        self.assertIsNone(analysis.measured([sys.executable, "-c", "import time; time.sleep(600)"], limit=0.2))


if __name__ == "__main__":
    unittest.main()
