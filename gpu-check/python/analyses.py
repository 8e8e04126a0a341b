"""Prints the number of rows of each HolisticTraceAnalysis result for a folder with a trace."""

import json
import sys
import warnings

warnings.simplefilter("ignore")

from hta.trace_analysis import TraceAnalysis

analysis = TraceAnalysis(trace_dir=sys.argv[1])
temporal = analysis.get_temporal_breakdown(visualize=False)
idle, _ = analysis.get_idle_time_breakdown(visualize=False)
launches = analysis.get_cuda_kernel_launch_stats(visualize=False)[0]
queue = analysis.get_queue_length_summary()
print(
    json.dumps(
        {
            "temporal breakdown": len(temporal),
            "idle time": len(idle),
            "launches": len(launches),
            "queue length": 0 if queue is None else len(queue),
        }
    )
)
