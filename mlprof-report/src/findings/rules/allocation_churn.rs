//! Rule `allocation-churn`: many small blocks are allocated.

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{bytes, duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "allocation-churn",
    condition: "allocating and freeing many blocks of host memory takes a large part of the run",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of the run for allocations, computed with `seconds-per-block`",
        },
        Threshold {
            name: "seconds-per-block",
            default: 45e-9,
            why: "cost of a block from allocation to free with a common allocator: 20 ns if it is \
                  freed at once, 50 ns if thousands of blocks stay allocated",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Memory(report) = facts.report else {
        return Outcome::no_inputs("only the memory profiler's report has allocations");
    };
    let total = &report.process.total;
    let blocks = total.allocated_blocks.min(total.freed_blocks);
    let seconds = blocks as f64 * limits[1];
    let evidence = [
        Evidence::new("allocated blocks", grouped(total.allocated_blocks)),
        Evidence::new("freed blocks", grouped(total.freed_blocks)),
        Evidence::new("allocated bytes", bytes(total.allocated_bytes)),
    ];
    if facts.share(seconds) < limits[0] {
        return Outcome::healthy(evidence);
    }
    let most = report.actions.iter().max_by_key(|action| action.own.allocated_blocks);
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "The program allocated and freed {} blocks, which takes about {} ({}).",
            grouped(blocks),
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: most.map_or_else(Place::default, |action| Place::action(&*action.action)),
        cost: facts.estimated_cost(seconds),
        // Several threads may allocate concurrently, so the time is uncertain.
        confidence: Confidence::Hint,
        remedy: "reuse buffers across steps (`Vec::clear`, `Vec::with_capacity`), and collect \
                 items into one block instead of one block for each item."
            .to_owned(),
    }])
}

#[cfg(test)]
mod tests {
    use mlprof_events::Tallies;

    use crate::MemoryReport;
    use crate::findings::samples::{close, found, healthy, missing, remembered, steps};

    const NAME: &str = "allocation-churn";

    fn allocated(blocks: u64) -> MemoryReport {
        let total = Tallies {
            allocated_bytes: 64 * blocks,
            allocated_blocks: blocks,
            freed_bytes: 64 * blocks,
            freed_blocks: blocks,
        };
        remembered(total)
    }

    #[test]
    fn millions_of_blocks_are_found_and_thousands_are_not() {
        close(found(NAME, allocated(10_000_000)).cost.seconds, 0.45, 0.001);
        healthy(NAME, allocated(100_000));
        assert!(missing(NAME, steps(100, 0.02)).contains("memory"));
    }
}
