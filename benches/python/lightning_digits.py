"""Measures the cost of Lightning's profiler="simple" per training step on the digits.

The network, optimizer, batch size, data, number of threads and method are those of the program
`tch-overhead` in `tch-digits`. The training runs on the CPU, without a logger, checkpoints, a
progress bar or callbacks.

    python lightning_digits.py --json results.json
"""

import argparse
import dataclasses
import gzip
import json
import logging
import os
import pathlib
import statistics
import sys
import time
import warnings

# Set before the import of torch, which would otherwise print a warning about a missing GPU.
os.environ["CUDA_VISIBLE_DEVICES"] = ""

import pytorch_lightning as lightning
import torch
from pytorch_lightning.profilers import PassThroughProfiler, Profiler, SimpleProfiler
from torch import nn

import pairs

DATA = pathlib.Path(__file__).resolve().parents[2] / "examples/data/digits.csv.gz"
# 70 % of the digits, as in the examples.
TRAINING_DIGITS = 1257
LEARNING_RATE = 2e-3
BUDGET = 0.001
# The CPU time of all threads shows smaller differences on a loaded machine.
CLOCKS = {"wall": time.perf_counter_ns, "cpu": time.process_time_ns}


@dataclasses.dataclass
class Setting:
    """Settings of all measurements."""

    data: torch.utils.data.Dataset
    batch_size: int
    clock: str


def training_data():
    with gzip.open(DATA, "rt") as lines:
        rows = [[float(number) for number in line.split(",")] for line in lines]
    table = torch.tensor(rows)[torch.randperm(len(rows), generator=torch.Generator().manual_seed(1))]
    table = table[:TRAINING_DIGITS]
    images = (table[:, :64] / 16.0).reshape(-1, 1, 8, 8)
    return torch.utils.data.TensorDataset(images, table[:, 64].long())


class DigitNet(lightning.LightningModule):
    """Network of two convolutions, pooling and two linear layers."""

    def __init__(self, clock, profiler_of_step=None):
        super().__init__()
        self.layers = nn.Sequential(
            nn.Conv2d(1, 16, 3, padding=1),
            nn.ReLU(),
            nn.Conv2d(16, 32, 3, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2),
            nn.Flatten(),
            nn.Linear(32 * 4 * 4, 64),
            nn.ReLU(),
            nn.Linear(64, 10),
        )
        self.clock = clock
        self.profiler_of_step = profiler_of_step
        self.times = []

    def training_step(self, batch):
        images, classes = batch
        return nn.functional.cross_entropy(self.layers(images), classes)

    def configure_optimizers(self):
        return torch.optim.Adam(self.parameters(), lr=LEARNING_RATE)

    # Lightning calls and measures this hook even if a module does not define it.
    def on_train_batch_end(self, outputs, batch, batch_idx):
        # A step lasts from one call to the next. The only open scope of a batch is the one of this
        # hook, which the previous profiler closes.
        if self.profiler_of_step is not None:
            self.trainer.profiler = self.profiler_of_step(batch_idx + 1)
        self.times.append(self.clock())


class Silent(SimpleProfiler):
    """SimpleProfiler that prints no report."""

    def describe(self):
        pass


class Counting(Profiler):
    """Profiler that counts scopes."""

    def __init__(self):
        super().__init__()
        self.scopes = 0

    def start(self, action_name):
        self.scopes += 1

    def stop(self, action_name):
        pass


def run_epoch(setting, profiler, profiler_of_step=None):
    """Trains a new network for an epoch; returns µs per full batch after the warm-up."""
    torch.manual_seed(1)
    net = DigitNet(CLOCKS[setting.clock], profiler_of_step)
    loader = torch.utils.data.DataLoader(
        setting.data, batch_size=setting.batch_size, shuffle=True, num_workers=0
    )
    trainer = lightning.Trainer(
        max_epochs=1,
        accelerator="cpu",
        devices=1,
        profiler=profiler,
        logger=False,
        enable_checkpointing=False,
        enable_progress_bar=False,
        enable_model_summary=False,
    )
    trainer.fit(net, loader)
    steps = [(later - earlier) / 1e3 for earlier, later in zip(net.times, net.times[1:])]
    # The first length belongs to step 1, and the last batch may be smaller.
    return steps[pairs.WARM_UP - 1 : -1]


def scopes_per_step(setting):
    counting, seen = Counting(), []

    def note(_):
        seen.append(counting.scopes)
        return counting

    run_epoch(setting, counting, note)
    return (seen[-1] - seen[0]) / (len(seen) - 1)


def every_other(setting, profiler):
    """Returns the relative cost that `profiler` adds to recorded steps."""
    other = PassThroughProfiler()
    switch = lambda step: profiler if pairs.is_recorded(step) else other
    return pairs.neighbours(run_epoch(setting, other, switch))


def ns_per_scope(profiler):
    """Returns the cost of a scope as opened by Lightning, the best of 20 tight loops."""
    scopes, best = 2000, float("inf")
    for _ in range(20):
        started = time.perf_counter_ns()
        for _ in range(scopes):
            with profiler.profile("calibration"):
                pass
        best = min(best, (time.perf_counter_ns() - started) / scopes)
    return best


def measure(setting, rounds):
    load_before = os.getloadavg()[0]
    results = {"framework": "Lightning", "clock": setting.clock, "rounds": rounds}
    results["scopes_per_step"] = scopes_per_step(setting)
    kinds = [None, "simple"]
    plain, shares = [], {"control": [], "neighbours": [], "epochs_simple": []}
    for index in range(rounds):
        shares["control"].append(every_other(setting, PassThroughProfiler()))
        shares["neighbours"].append(every_other(setting, Silent()))
        lengths = {}
        # Every other round begins with the other kind.
        for kind in kinds if index % 2 == 0 else reversed(kinds):
            lengths[kind] = run_epoch(setting, Silent() if kind else None)
        shares["epochs_simple"].append(pairs.paired(lengths["simple"], lengths[None]))
        plain += lengths[None]
        print(f"\rLightning: round {index + 1}/{rounds}", end="", file=sys.stderr)
    print(file=sys.stderr)
    quartiles = statistics.quantiles(plain, n=4)
    results |= {
        "steps": len(plain),
        "step_us": statistics.median(plain),
        "step_us_quartile_1": quartiles[0],
        "step_us_quartile_3": quartiles[2],
        "ns_per_scope": ns_per_scope(Silent()),
        "ns_per_scope_without_profiler": ns_per_scope(PassThroughProfiler()),
    }
    per_step = results["scopes_per_step"] * results["ns_per_scope"] / 1e3
    results["account_share"] = per_step / results["step_us"]
    for name, figures in shares.items():
        share, low, high = pairs.estimate(figures)
        results |= {f"{name}_share": share, f"{name}_low": low, f"{name}_high": high}
    results |= {"load_average_before": load_before, "load_average_after": os.getloadavg()[0]}
    return results


def show(results):
    print(
        f"Lightning {lightning.__version__}, torch {torch.__version__}: {results['steps']} steps in"
        f" {results['rounds']} rounds, {results['clock']} time, median {results['step_us']:.1f} µs, half of them between"
        f" {results['step_us_quartile_1']:.1f} and {results['step_us_quartile_3']:.1f} µs"
    )
    print(
        f"{'simple, scopes by their cost':<40} {results['account_share'] * 100:>+8.3f} %  "
        f" {results['scopes_per_step']:.1f} scopes per step × {results['ns_per_scope']:.1f} ns"
        f" ({results['ns_per_scope_without_profiler']:.1f} ns without a profiler)"
    )
    titles = {
        "neighbours": "every other step with simple",
        "control": "every other step with nothing (control)",
        "epochs_simple": "whole epochs, simple",
    }
    for name, title in titles.items():
        low, high = results[f"{name}_low"], results[f"{name}_high"]
        line = f"{title:<40} {results[f'{name}_share'] * 100:>+8.3f} %   "
        if low is None:
            line += "no interval: fewer than 6 rounds"
        else:
            line += f"95 %: {low * 100:+.3f} to {high * 100:+.3f} %"
            if high - low > BUDGET:
                line += f"; noise, wider than {BUDGET * 100} %"
        print(line)
    before, after = results["load_average_before"], results["load_average_after"]
    print(f"load average {before:.2f} before, {after:.2f} after")


def main():
    parser = argparse.ArgumentParser(description="Compares training steps with and without a profiler")
    parser.add_argument("--rounds", type=int, default=60, help="epochs of each kind")
    parser.add_argument("--batch-size", type=int, default=32)
    parser.add_argument("--clock", choices=CLOCKS, default="wall", help="how steps are timed")
    parser.add_argument("--json", type=pathlib.Path, help="also write the results as JSON")
    options = parser.parse_args()
    if options.rounds < 1:
        parser.error("--rounds: use 1 or more")
    warnings.filterwarnings("ignore")
    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    # tch-digits also uses one thread, because the network is small.
    torch.set_num_threads(1)
    results = measure(Setting(training_data(), options.batch_size, options.clock), options.rounds)
    show(results)
    if options.json:
        options.json.write_text(json.dumps(results, indent=2) + "\n")


if __name__ == "__main__":
    main()
