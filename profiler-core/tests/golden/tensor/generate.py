"""Writes the golden files of this folder, which README.md describes."""

import json
import pathlib
import random

import torch
from torch.autograd import DeviceType
from torch.autograd.profiler_util import EventList, FunctionEventAvg
from torch.utils import flop_counter

HERE = pathlib.Path(__file__).parent
TRACE = HERE.parents[3] / "mlprof-trace/tests/golden"


def row(name, calls, self_ns, total_ns, **more):
    return {"name": name, "calls": calls, "self_cpu_ns": self_ns, "cpu_ns": total_ns, **more}


def average(row, device):
    event = FunctionEventAvg()
    event.key = row["name"]
    event.node_id = -1
    event.count = row["calls"]
    event.cpu_time_total = row["cpu_ns"] / 1000
    event.self_cpu_time_total = row["self_cpu_ns"] / 1000
    event.device_time_total = row.get("device_ns", 0) / 1000
    event.self_device_time_total = row.get("self_device_ns", 0) / 1000
    event.cpu_memory_usage = row.get("cpu_memory", 0)
    event.self_cpu_memory_usage = row.get("self_cpu_memory", 0)
    event.device_memory_usage = row.get("device_memory", 0)
    event.self_device_memory_usage = row.get("self_device_memory", 0)
    event.input_shapes = row.get("shapes", "")
    event.overload_name = ""
    event.stack = row.get("stack", [])
    event.flops = row.get("flops", 0)
    event.use_device = device
    event.is_user_annotation = False
    event.device_type = DeviceType.CUDA if row.get("on_device") else DeviceType.CPU
    event.cpu_parent = None if row.get("top_level") else event
    return event


def table(name, rows, memory=False, flops=False, **options):
    device = "cuda"
    events = EventList(
        [average(row, device) for row in rows],
        use_device=device,
        profile_memory=memory,
        with_flops=flops,
    )
    text = events.table(**options)
    (HERE / f"table_{name}.txt").write_text(text)
    value = {"memory": memory, "options": options, "rows": rows}
    (HERE / f"table_{name}.json").write_text(json.dumps(value, indent=1) + "\n")


def tables():
    plain = [
        row("ProfilerStep*", 3, 12_345_678, 98_765_432, top_level=True),
        row("[Strategy]SingleDeviceStrategy.training_step", 3, 1_000_500, 40_000_001),
        row("aten::convolution", 12, 999, 30_123_456),
        row("aten::mkldnn_convolution", 12, 30_122_457, 30_122_457),
        row("autograd::engine::evaluate_function: ConvolutionBackward0", 7, 5, 1_999_999_499),
        row("x" * 51, 1, 999_999, 999_999),
        row("y" * 52, 1, 1_000_000, 1_000_000),
        row("z" * 90, 1_000_000, 0, 0),
        row("aten::relu", 12, 1_999_999_500, 1_999_999_500),
    ]
    table("plain", plain)
    table("sorted", plain, sort_by="self_cpu_time_total", row_limit=4)
    table("unlimited", plain, sort_by="cpu_time", row_limit=-1, max_name_column_width=None)
    table("narrow", plain, sort_by="count", max_name_column_width=20, header="Header")
    table("top_level", plain, sort_by="cpu_time_total", top_level_events_only=True)
    table("short", [row("aten::add", 1, 1, 1)])
    table("zero", [row("aten::add", 4, 0, 0), row("aten::mul", 2, 0, 0)])

    memory = [
        row("aten::empty", 5, 1000, 1000, cpu_memory=1023, self_cpu_memory=1023),
        row("aten::add", 5, 2000, 3000, cpu_memory=1536, self_cpu_memory=-512),
        row("aten::mm", 5, 9000, 9000, cpu_memory=5 << 29, self_cpu_memory=-(3 << 20)),
        row("[memory]", 9, 0, 0, cpu_memory=-(1 << 40), self_cpu_memory=-(1 << 40)),
    ]
    table("memory", memory, memory=True, sort_by="self_cpu_memory_usage")

    device = [
        row("aten::mm", 4, 5_000, 25_000, device_ns=900_000, self_device_ns=800_000,
            device_memory=4096, self_device_memory=4096),
        row("cudaLaunchKernel", 9, 20_000, 20_000),
        row("sgemm_128x64_nn", 4, 0, 0, device_ns=800_000, self_device_ns=800_000, on_device=True),
        row("Memcpy HtoD (Pageable -> Device)", 1, 0, 0, device_ns=100_000,
            self_device_ns=100_000, on_device=True),
    ]
    table("device", device, memory=True, sort_by="self_cuda_time_total")

    shapes = [
        row("aten::mm", 4, 5_000, 25_000, shapes=[[2, 3], [3, 5]], flops=240),
        row("aten::mm", 4, 6_000, 25_000, shapes=[[20, 30], [30, 50]], flops=240_000),
        row("aten::add", 4, 7_000, 25_000, shapes=[[], [2, 2, 2, 2], []]),
        row("aten::cat", 4, 8_000, 25_000, shapes=[[[1, 2], [1, 3]], []]),
        row("training_step", 1, 9_000, 50_000, shapes=[]),
        row("aten::big", 1, 9_000, 50_000, shapes=[[1000, 1000, 1000, 1000]] * 5),
    ]
    table("shapes", shapes, sort_by="cpu_time_total")
    table("flops", shapes, flops=True)
    table("mega_flops", [dict(one, flops=one.get("flops", 0) * 12345) for one in shapes], flops=True)

    stacks = [
        row("aten::mm", 4, 5_000, 25_000, stack=["src/model.rs(12): forward", "training_step"]),
        row("aten::add", 4, 5_000, 25_000, stack=["/" + "very/" * 30 + "long.rs(3): f"]),
        row("aten::relu", 4, 5_000, 25_000),
    ]
    table("stacks", stacks)
    table("narrow_stacks", stacks, max_src_column_width=20, row_limit=2)

    chance = random.Random(7)
    many = []
    for number in range(150):
        own = chance.randrange(10 ** chance.randrange(1, 11))
        many.append(row(f"aten::op_{number}", chance.randrange(1, 10_000), own,
                        own + chance.randrange(10_000_000)))
    table("many", many, sort_by="self_cpu_time_total")


def tensor(*shape):
    return {"tensor": list(shape)}


def ints(*values):
    return {"integers": list(values)}


NONE = None


def flops():
    cases = []

    def case(name, inputs, count):
        cases.append({"name": name, "inputs": inputs, "flops": count})

    case("aten::mm", [tensor(7, 13), tensor(13, 5)], flop_counter.mm_flop((7, 13), (13, 5)))
    case("aten::addmm", [tensor(5), tensor(7, 13), tensor(13, 5), NONE, NONE],
         flop_counter.addmm_flop((5,), (7, 13), (13, 5)))
    case("aten::bmm", [tensor(3, 7, 13), tensor(3, 13, 5)],
         flop_counter.bmm_flop((3, 7, 13), (3, 13, 5)))
    case("aten::baddbmm", [tensor(3, 7, 5), tensor(3, 7, 13), tensor(3, 13, 5), NONE, NONE],
         flop_counter.baddbmm_flop((3, 7, 5), (3, 7, 13), (3, 13, 5)))

    # x, w, stride, padding, dilation, transposed, output padding, groups
    convolutions = [
        ((2, 3, 28), (8, 3, 5), [1], [0], [1], False, [0], 1),
        ((2, 3, 28, 30), (8, 3, 5, 3), [1, 1], [2, 1], [1, 1], False, [0, 0], 1),
        ((2, 3, 29, 31), (8, 3, 5, 3), [2, 3], [2, 1], [2, 1], False, [0, 0], 1),
        ((2, 4, 9, 10, 11), (6, 4, 3, 2, 1), [1, 2, 1], [1, 0, 0], [1, 1, 1], False, [0] * 3, 1),
        ((2, 8, 28, 30), (12, 2, 3, 3), [1, 1], [1, 1], [1, 1], False, [0, 0], 4),
        ((2, 16, 14, 14), (16, 1, 3, 3), [2, 2], [1, 1], [1, 1], False, [0, 0], 16),
        ((2, 6, 9), (6, 4, 3), [2], [1], [1], True, [1], 1),
        ((2, 6, 9, 7), (6, 4, 3, 2), [2, 2], [1, 0], [1, 1], True, [1, 0], 1),
        ((2, 8, 9, 7), (8, 3, 3, 3), [2, 2], [1, 1], [2, 1], True, [0, 0], 2),
        ((2, 5, 4, 5, 6), (5, 7, 2, 2, 2), [2, 2, 2], [0, 0, 0], [1, 1, 1], True, [0] * 3, 1),
        ((1, 4, 8, 8), (4, 4, 3, 3), [1, 1], [1, 1], [1, 1], True, [0, 0], 1),
    ]
    for x, w, stride, padding, dilation, transposed, extra, groups in convolutions:
        options = (stride, padding, dilation, transposed, extra, groups)
        image, weight = torch.empty(x, device="meta"), torch.empty(w, device="meta")
        out = torch.ops.aten.convolution(image, weight, None, *options)
        recorded = [ints(*stride), ints(*padding), ints(*dilation), ints(int(transposed)),
                    ints(*extra), ints(groups)]
        forward = flop_counter.conv_flop(x, w, None, *options, out_val=out.shape)
        # Not every hook can tell flags from other values.
        for flag in [recorded[3], NONE] if x[1] != w[1] * groups or not transposed else [recorded[3]]:
            told = recorded[:3] + [flag] + recorded[4:]
            case("aten::convolution", [tensor(*x), tensor(*w), NONE] + told, forward)
        for mask in [(True, True, True), (False, True, True), (True, False, False)]:
            count = flop_counter.conv_backward_flop(
                tuple(out.shape), x, w, None, *options, mask,
                out_val=[torch.Size(x), torch.Size(w), None])
            if groups > 1:
                # torch ignores the groups in the gradient of the weight.
                count = forward * sum(mask[:2])
            case("aten::convolution_backward",
                 [tensor(*out.shape), tensor(*x), tensor(*w), NONE] + recorded
                 + [ints(*map(int, mask))], count)
        if not transposed:
            case(f"burn::conv{len(x) - 2}d", [tensor(*x), tensor(*w), NONE] + recorded[:3]
                 + [recorded[5]], forward)
        else:
            case(f"burn::conv_transpose{len(x) - 2}d", [tensor(*x), tensor(*w), NONE]
                 + recorded[:3] + recorded[4:], forward)

    q, k, v = (2, 4, 10, 16), (2, 4, 12, 16), (2, 4, 12, 24)
    out = (2, 4, 10, 24)
    three = [tensor(*q), tensor(*k), tensor(*v)]
    count = flop_counter.sdpa_flop_count(q, k, v)
    back = flop_counter.sdpa_backward_flop_count(out, q, k, v)
    for kind in ["flash_attention", "efficient_attention", "cudnn_attention",
                 "flash_attention_for_cpu"]:
        case(f"aten::_scaled_dot_product_{kind}", three + [NONE], count)
        case(f"aten::_scaled_dot_product_{kind}_backward", [tensor(*out)] + three, back)
    case("burn::attention", three, count)

    with flop_counter.FlopCounterMode(display=False) as counter:
        torch.nn.functional.linear(torch.ones(3, 5, 7), torch.ones(11, 7), torch.ones(11))
    case("candle::linear", [tensor(3, 5, 7), tensor(11, 7)], counter.get_total_flops())
    case("burn::linear", [tensor(3, 5, 7), tensor(7, 11)], counter.get_total_flops())
    with flop_counter.FlopCounterMode(display=False) as counter:
        torch.matmul(torch.ones(2, 1, 5, 7), torch.ones(3, 7, 4))
    case("burn::matmul", [tensor(2, 1, 5, 7), tensor(3, 7, 4)], counter.get_total_flops())

    for name in ["aten::linear", "aten::matmul", "aten::conv2d", "aten::_convolution",
                 "aten::mkldnn_convolution", "aten::add", "aten::scaled_dot_product_attention",
                 "aten::_scaled_dot_product_attention_math"]:
        case(name, [tensor(4, 4), tensor(4, 4)], None)
    (HERE / "flops.json").write_text(json.dumps(cases) + "\n")


def recorded():
    """Writes a training step as recorded by torch, and torch's own sums of its events."""
    torch.manual_seed(1)
    torch.set_num_threads(1)
    model = torch.nn.Sequential(
        torch.nn.Conv2d(1, 4, 3), torch.nn.ReLU(), torch.nn.Flatten(), torch.nn.Linear(144, 10))
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    batch, target = torch.randn(8, 1, 8, 8), torch.randint(10, (8,))
    activities = [torch.profiler.ProfilerActivity.CPU]
    with torch.profiler.profile(activities=activities, record_shapes=True, profile_memory=True,
                                with_flops=True) as profiler:
        with torch.profiler.record_function("training_step"):
            loss = torch.nn.functional.cross_entropy(model(batch), target)
        loss.backward()
        optimizer.step()
        del loss
    names, events, memory = {}, [], []
    counts = {}
    raw = profiler.profiler.kineto_results.events()
    start = min(event.start_ns() for event in raw)
    for event in raw:
        if event.name() == "[memory]":
            memory.append([event.start_thread_id(), event.start_ns() - start, event.nbytes()])
        elif not torch.autograd.profiler_util._filter_name(event.name()):
            number = names.setdefault(event.name(), len(names))
            events.append([event.start_thread_id(), event.start_ns() - start,
                           event.end_ns() - start, number])
            counts[event.name()] = counts.get(event.name(), 0) + 1
    # Sorted by end, nested events before their parents.
    events.sort(key=lambda event: (event[2], -event[1]))
    memory.sort(key=lambda change: change[1])
    rows = [[row.key, counts.get(row.key, row.count), round(row.self_cpu_time_total * 1000),
             round(row.cpu_time_total * 1000), row.cpu_memory_usage, row.self_cpu_memory_usage]
            for row in profiler.key_averages()]
    value = {"names": list(names), "events": events, "memory": memory, "rows": rows}
    (TRACE / "recorded.json").write_text(json.dumps(value) + "\n")


tables()
flops()
recorded()
