"""Counts kernels in a trace that start before their launch or lack one. Needs no packages."""

import glob
import gzip
import json
import sys

(path,) = glob.glob(sys.argv[1] + "/*.pt.trace.json.gz")
with gzip.open(path, "rt", encoding="utf-8") as file:
    events = [event for event in json.load(file)["traceEvents"] if event.get("ph") == "X"]


def correlation(event):
    return event.get("args", {}).get("correlation")


launches = {
    correlation(event): event
    for event in events
    if event.get("cat") in ("cuda_runtime", "cuda_driver") and correlation(event)
}
kernels = [event for event in events if event.get("cat") == "kernel"]
paired = [(kernel, launches.get(correlation(kernel))) for kernel in kernels]
print(
    json.dumps(
        {
            "kernels": len(kernels),
            "too_early": sum(
                1 for kernel, launch in paired if launch and kernel["ts"] < launch["ts"]
            ),
            "without_launch": sum(1 for _, launch in paired if launch is None),
        }
    )
)
