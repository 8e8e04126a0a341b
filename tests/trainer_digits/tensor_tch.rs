//! Tests the network's ops that tch's plugin records.

use tempfile::tempdir;
use tests::program::Run;
use tests::{python, trace};

use crate::program;

/// Python script that checks the ops of each of two recorded steps.
const TRACE: &str = r##"
import collections, gzip, json, sys
events = json.load(gzip.open(sys.argv[1], "rt", encoding="utf-8"))["traceEvents"]
slices = [event for event in events if event["ph"] == "X"]
steps = [event for event in slices if event["name"].startswith("ProfilerStep#")]
assert len(steps) == 2, steps
def inside(outer, name):
    begin, end = outer["ts"], outer["ts"] + outer["dur"]
    return [e for e in slices if e["name"] == name and begin <= e["ts"] and e["ts"] + e["dur"] <= end]
for step in steps:
    counts = {
        "aten::conv2d": 2, "aten::addmm": 2, "aten::max_pool2d": 1, "aten::cross_entropy_loss": 1,
        "ConvolutionBackward0": 2, "AddmmBackward0": 2, "torch::autograd::AccumulateGrad": 8,
    }
    for name, count in counts.items():
        assert len(inside(step, name)) == count, (step["name"], name, len(inside(step, name)))
    for layer in ["[module]Conv2D: conv1", "[module]Conv2D: conv2"]:
        (layer,) = inside(step, layer)
        (op,) = inside(layer, "aten::conv2d")
        image, weight = op["args"]["Input Dims"][:2]
        assert image[1] == weight[1] and weight[2:] == [3, 3], op["args"]
        assert op["args"]["Input type"][:2] == ["float", "float"], op["args"]
    (optimizer,) = [e for e in slices if e["name"].endswith(".optimizer_step")
                    and step["ts"] <= e["ts"] <= step["ts"] + step["dur"]]
    assert len(inside(optimizer, "aten::addcmul_")) == 8, "Adam, eight variables"
arrows = collections.Counter(event["ph"] for event in events if event["ph"] in "sf")
assert arrows["s"] == arrows["f"] > 10, arrows
memory = [event["args"] for event in events if event["name"] == "[memory]"]
assert len(memory) > 100, len(memory)
assert any(event["Bytes"] > 0 for event in memory) and any(event["Bytes"] < 0 for event in memory)
"##;

#[test]
fn the_ops_of_each_step_are_in_the_table_and_in_the_trace() {
    let directory = tempdir().expect("a folder");
    let arguments = ["--epochs", "1", "--profiler", "tensor", "--dirpath", "D", "--filename", "F"];
    let more = ["--schedule", "wait=2,warmup=1,active=2", "--profile-memory"];
    Run::of(&program(), directory.path()).args(arguments).args(more).succeed();
    let folder = directory.path().join("D");
    let table = std::fs::read_to_string(folder.join("fit-F.txt")).expect("a report");
    for op in ["aten::mkldnn_convolution", "aten::convolution_backward", "aten::addmm"] {
        assert!(table.contains(op), "no {op} in:\n{table}");
    }
    python::run(TRACE, &[&trace::of_stage(&folder, "fit-F")]);
}
