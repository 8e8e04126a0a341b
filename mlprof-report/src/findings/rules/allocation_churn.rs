//! Rule `allocation-churn`: many small blocks are allocated.

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::number::{bytes, duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "allocation-churn",
    condition: "so many blocks of the host's memory are allocated and freed that it is a large part of the run",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "the part of the run that allocating must be, by the next number",
        },
        Threshold {
            name: "seconds-per-block",
            default: 45e-9,
            why: "what a block costs from its allocation to its end with a common allocator: 20 of what is \
              freed at once, 50 where thousands are kept meanwhile",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Memory(report) = facts.report else {
        return Outcome::no_inputs("only the report of memory has allocations");
    };
    let total = &report.process.total;
    let blocks = total.allocated_blocks.min(total.freed_blocks);
    let seconds = blocks as f64 * limits[1];
    let evidence = [
        Evidence::new("blocks allocated", grouped(total.allocated_blocks)),
        Evidence::new("blocks freed", grouped(total.freed_blocks)),
        Evidence::new("bytes allocated", bytes(total.allocated_bytes)),
    ];
    if facts.share(seconds) < limits[0] {
        return Outcome::healthy(evidence);
    }
    let most = report.actions.iter().max_by_key(|action| action.own.allocated_blocks);
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "{} blocks were allocated and freed, which takes some {} ({}).",
            grouped(blocks),
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: most.map_or_else(Place::default, |action| Place::action(&*action.action)),
        cost: facts.estimated_cost(seconds),
        // Several threads may allocate concurrently, so the time is uncertain.
        confidence: Confidence::Hint,
        remedy: "keep buffers from step to step (`Vec::clear`, `Vec::with_capacity`), and collect \
                 into one block rather than one for each item."
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
