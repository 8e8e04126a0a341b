"""Medians of paired measurements with confidence intervals, as in `digits::overhead` in Rust."""

import math
import statistics

# Number of ignored steps at the beginning of an epoch.
WARM_UP = 4
# Probability outside the interval on each side.
TAIL = 0.025


def is_recorded(step):
    """Returns True for the recorded step of each pair: first, second, second, first, and so on."""
    return step % 4 in (0, 3)


def neighbours(steps):
    """Returns the relative cost of recorded steps over their neighbours, after the warm-up."""
    ratios = []
    for index in range(0, len(steps) - 1, 2):
        first, second = steps[index], steps[index + 1]
        if is_recorded(WARM_UP + index):
            ratios.append(math.log(first / second))
        else:
            ratios.append(math.log(second / first))
    return math.expm1(statistics.median(ratios))


def paired(with_it, without):
    """Returns the relative cost of one epoch's steps over the same steps of another epoch."""
    ratios = [math.log(one / other) for one, other in zip(with_it, without)]
    return math.expm1(statistics.median(ratios))


def interval_rank(count):
    """Returns the index at which the 95 % interval of a median of `count` sorted values begins."""
    logarithm = count * math.log(0.5)
    below, rank, heads = math.exp(logarithm), None, 0
    while below <= TAIL and heads < count:
        rank = heads
        logarithm += math.log((count - heads) / (heads + 1))
        below += math.exp(logarithm)
        heads += 1
    return rank


def estimate(rounds):
    """Returns the median of the rounds and its interval, which is None for fewer than 6 rounds."""
    ordered = sorted(rounds)
    rank = interval_rank(len(ordered))
    if rank is None:
        return statistics.median(ordered), None, None
    return statistics.median(ordered), ordered[rank], ordered[-1 - rank]
