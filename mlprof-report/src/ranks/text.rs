//! Text about delays between ranks, for the console.

use std::fmt::Write;

use super::{Exposed, Straggler};
use crate::counted::counted;
use crate::label;
use crate::number::{duration, grouped};
use crate::table::{Table, seconds, share, table, words};

/// Maximum number of ranks that are named.
const NAMED: usize = 10;

/// Returns a table of the stages of `steps` steps, and sentences about each slow rank.
pub fn held_up(steps: u64, exposed: &[Exposed], stragglers: &[Straggler]) -> String {
    let table = stages_table(steps, exposed);
    let mut text = format!("\n{}\n{}", table.heading(None), table.text(usize::MAX));
    if stragglers.is_empty() {
        text.push_str("\nNo rank is slow.\n");
    }
    text + &slow_ranks(stragglers)
}

/// Returns a table of the stages of `steps` steps.
pub fn stages_table(steps: u64, exposed: &[Exposed]) -> Table {
    let caption = format!(
        "Stages that delay the {} common to all ranks, in the order in which they run",
        counted(steps, "step", "steps")
    );
    let length: f64 = exposed.iter().map(|part| part.exposed_ns as f64).sum();
    let table = table!(caption, exposed, |part| {
        let last = part.last.map_or_else(String::new, |(rank, times)| {
            format!("rank {rank}, {}", counted(times as u64, "time", "times"))
        });
        words("Stage", "Stage of a step") => part.stage.name.as_str(),
        seconds("Exposed", "Delay of the end of steps by the last rank, from this stage on").bar() =>
            part.exposed_ns as f64 / 1e9,
        share("Share", "Share of all steps, each as long as on its slowest rank") =>
            (length > 0.0).then(|| part.exposed_ns as f64 / length),
        words("Most often last", "Rank that is most often last, and in how many steps") => last,
    });
    table.as_described()
}

/// Returns two sentences about each slow rank.
pub fn slow_ranks(stragglers: &[Straggler]) -> String {
    let mut text = String::new();
    for slow in stragglers.iter().take(NAMED) {
        let _ = writeln!(text, "\n{}", slow_in_words(slow).join("\n"));
    }
    if let Some(more) = stragglers.len().checked_sub(NAMED).filter(|more| *more > 0) {
        let _ = writeln!(text, "\n… and {} more slow ranks", grouped(more as u64));
    }
    text
}

/// Returns two sentences about a slow rank and the stage in which it loses time.
pub fn slow_in_words(slow: &Straggler) -> [String; 2] {
    let Straggler { rank, own_ns, usual_ns, stage, stage_longer_ns, longer_ns } = slow;
    [
        format!(
            "Rank {rank} is slow: its own work takes {} of a step, while that of the median rank \
             takes {}.",
            time(*own_ns),
            time(*usual_ns)
        ),
        format!(
            "It loses the most in {stage}, {} of a step. In total it delays the others by at most \
             {}.",
            time(*stage_longer_ns),
            time(*longer_ns)
        ),
    ]
}

/// Lists rank numbers: `ranks 3, 5, 7`.
pub fn numbers(ranks: &[u32]) -> String {
    let word = if ranks.len() == 1 { "rank" } else { "ranks" };
    format!("{word} {}", label::first_of(ranks.iter().map(u32::to_string), NAMED))
}

fn time(nanoseconds: i64) -> String {
    duration(nanoseconds as f64 / 1e9)
}
