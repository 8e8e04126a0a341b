//! Rule `large-copies`: large blocks of memory are copied.

use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::findings::facts::Facts;
use crate::findings::rule::{Outcome, Rule, Threshold};
use crate::memory::PathMemory;
use crate::number::{bytes, duration, grouped, share};

pub(super) static RULE: Rule = Rule {
    name: "large-copies",
    condition: "copies of large blocks, such as whole batches, take a large part of the run",
    thresholds: &[
        Threshold {
            name: "share",
            default: 0.1,
            why: "minimum share of the run for copies, computed with `bytes-per-second`",
        },
        Threshold {
            name: "bytes-per-second",
            default: 10e9,
            why: "copy rate of one thread for uncached data into memory that the program has \
                  already used",
        },
        Threshold {
            name: "new-bytes-per-second",
            default: 2e9,
            why: "copy rate into memory that the system must first provide, page by page",
        },
        Threshold {
            name: "bytes-of-new-blocks",
            default: 32.0 * 1024.0 * 1024.0,
            why: "minimum size of blocks that go back to the system when they are freed, as in \
                  glibc's allocator, so that each is new",
        },
    ],
    is_of_time: true,
    examine,
};

fn examine(facts: &Facts<'_>, limits: &[f64]) -> Outcome {
    let Report::Memory(report) = facts.report else {
        return Outcome::no_inputs("only the memory profiler's report has copies");
    };
    let copies = &report.copies.blocks;
    if copies.blocks == 0 {
        return Outcome::no_inputs(
            "the report has no large copies: build the program with `mlprof run --memory`",
        );
    }
    let seconds = seconds_of_copies(copies, &limits[1..]);
    let evidence = [
        Evidence::new("copied", bytes(copies.bytes)),
        Evidence::new("copies", grouped(copies.blocks)),
    ];
    if facts.share(seconds) < limits[0] {
        return Outcome::healthy(evidence);
    }
    Outcome::Found(vec![Finding {
        rule: RULE.name.to_owned(),
        sentence: format!(
            "{} were copied in {} large copies, which takes about {} ({}).",
            bytes(copies.bytes),
            grouped(copies.blocks),
            duration(seconds),
            share(facts.share(seconds), 1.0)
        ),
        evidence: evidence.into(),
        place: largest(copies).map_or_else(Place::default, Place::action),
        cost: facts.estimated_cost(seconds),
        confidence: Confidence::Hint,
        remedy: "borrow the data instead of copying it (`&[f32]`, `Arc<[f32]>`), or move it \
                 (`Tensor::from_vec` takes a `Vec`, while `Tensor::new` copies a slice)."
            .to_owned(),
    }])
}

/// Returns the estimated copy time in seconds, with a speed that depends on the mean block size of
/// each path.
fn seconds_of_copies(path: &PathMemory, limits: &[f64]) -> f64 {
    let [used, new, bytes_of_new] = limits else { return 0.0 };
    let each = path.own_bytes as f64 / path.own_blocks.max(1) as f64;
    let speed = if each < *bytes_of_new { used } else { new };
    let inside = path.inside.iter().map(|path| seconds_of_copies(path, limits));
    path.own_bytes as f64 / speed + inside.sum::<f64>()
}

/// Returns the innermost action on the path with most of the bytes.
fn largest(path: &PathMemory) -> Option<&str> {
    let mut at = path;
    while let Some(inside) = at.inside.first().filter(|inside| inside.bytes * 2 > path.bytes) {
        at = inside;
    }
    (!at.action.is_empty()).then_some(at.action.as_str())
}

#[cfg(test)]
mod tests {
    use mlprof_events::Tallies;

    use crate::MemoryReport;
    use crate::findings::samples::{close, found, healthy, missing, remembered};
    use crate::memory::{MemoryTree, PathMemory};

    const NAME: &str = "large-copies";

    fn copied(bytes: u64, of_each: u64) -> MemoryReport {
        let blocks = bytes / of_each;
        let path = PathMemory { bytes, blocks, ..PathMemory::default() };
        let action = "load_batch".to_owned();
        let inside = PathMemory { action, own_bytes: bytes, own_blocks: blocks, ..path.clone() };
        let blocks = PathMemory { inside: vec![inside], ..path };
        let copies = MemoryTree { blocks, ..MemoryTree::default() };
        MemoryReport { copies, ..remembered(Tallies::ZERO) }
    }

    #[test]
    fn gigabytes_are_found_and_megabytes_are_not() {
        let finding = found(NAME, copied(10_000_000_000, 1_000_000));
        close(finding.cost.seconds, 1.0, 0.001);
        assert_eq!(finding.place.action.as_deref(), Some("load_batch"));
        healthy(NAME, copied(40_000_000, 1_000_000));
        assert!(missing(NAME, copied(0, 1)).contains("no large copies"));
    }

    #[test]
    fn blocks_that_are_new_each_time_take_longer() {
        close(found(NAME, copied(2_000_000_000, 50_000_000)).cost.seconds, 1.0, 0.001);
    }
}
