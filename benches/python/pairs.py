"""Medians of pairs, and how sure they are: the same arithmetic as `digits::overhead` in Rust."""

import math
import statistics

# Number of ignored steps at the beginning of an epoch.
WARM_UP = 4
# Probability outside the interval on each side.
TAIL = 0.025


def is_recorded(step):
    """Whether a step (from 0) is recorded: of each pair one, first and second in turn."""
    return step % 4 in (0, 3)


def neighbours(steps):
    """How much longer recorded steps are than their neighbours. `steps` follow on the warm-up."""
    ratios = []
    for index in range(0, len(steps) - 1, 2):
        first, second = steps[index], steps[index + 1]
        if is_recorded(WARM_UP + index):
            ratios.append(math.log(first / second))
        else:
            ratios.append(math.log(second / first))
    return math.expm1(statistics.median(ratios))


def paired(with_it, without):
    """How much longer the steps of one epoch are than the same steps of another."""
    ratios = [math.log(one / other) for one, other in zip(with_it, without)]
    return math.expm1(statistics.median(ratios))


def interval_rank(count):
    """How many values from either end of `count` sorted ones a 95 % interval of their median begins."""
    logarithm = count * math.log(0.5)
    below, rank, heads = math.exp(logarithm), None, 0
    while below <= TAIL and heads < count:
        rank = heads
        logarithm += math.log((count - heads) / (heads + 1))
        below += math.exp(logarithm)
        heads += 1
    return rank


def estimate(rounds):
    """The median of a figure per round, and its interval; (None, None) for fewer than 6 rounds."""
    ordered = sorted(rounds)
    rank = interval_rank(len(ordered))
    if rank is None:
        return statistics.median(ordered), None, None
    return statistics.median(ordered), ordered[rank], ordered[-1 - rank]
