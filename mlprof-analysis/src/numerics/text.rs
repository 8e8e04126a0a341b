//! The comparison as text.

use std::fmt::Write;

use mlprof_report::internals::{Table, shown};
use mlprof_report::number::grouped;

use super::{ComparedPlace, ComparedStep, DifferenceKind, FirstDifference, NumericsComparison};

/// The first place at which the runs part, and a table of all places, those that differ and the furthest apart first; `rows` of
/// them at most.
pub fn text(comparison: &NumericsComparison, rows: usize) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    for unlike in &comparison.unlike {
        let _ = writeln!(text, "Not alike: {}.", shown(unlike));
    }
    let _ = writeln!(text, "{}", summary(comparison));
    for line in circumstances(comparison) {
        let _ = writeln!(text, "{line}");
    }
    if !comparison.knows_noise && comparison.different > 0 {
        text.push_str(
            "What varies from run to run is not known: give a second run of the reference (--again) to have it left out.\n",
        );
    }
    if comparison.places.is_empty() {
        return text;
    }
    text.push('\n');
    let mut table = Table::new([
        "Pairs",
        "Differ",
        "First step",
        "Apart",
        "At step",
        "Last",
        "Noise",
        "SQNR",
        "Rel. L2",
        "Cosine",
        "ULPs",
        "Role",
        "Place",
    ]);
    let places = by_distance(comparison);
    for place in places.iter().take(rows) {
        let worst = &place.worst;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            grouped(place.pairs),
            grouped(place.different),
            or_none(place.first_step.map(|step| step.to_string())),
            size(worst.relative),
            place.worst_step.to_string(),
            size(place.last.relative),
            size(place.noise),
            or_none(worst.sqnr.map(|decibels| format!("{decibels:.1} dB"))),
            or_none(worst.relative_l2.map(size)),
            or_none(worst.cosine.map(|cosine| format!("{cosine:.6}"))),
            or_none(worst.most_ulps.map(grouped)),
            place.role.to_string(),
            shown(&place.name),
        ]);
    }
    text.push_str(&table.paint());
    if places.len() > rows {
        let _ =
            writeln!(text, "{} more places agree better.", grouped((places.len() - rows) as u64));
    }
    let _ = writeln!(text, "{MEASURED_OF}");
    if comparison.different > 0 && comparison.over_steps.len() > 1 {
        write_steps(&mut text, &comparison.over_steps);
    }
    text
}

/// What the numbers of the table are of.
pub(super) const MEASURED_OF: &str = "Apart is the most that statistics, samples or sketches of all numbers are; SQNR, relative L2, cosine and ULPs are those of \
                                      the samples, 32 numbers of each tensor, of the pair that is furthest apart. ULPs are those of the elements' type.";

/// Those that differ and the furthest apart first.
pub(super) fn by_distance(comparison: &NumericsComparison) -> Vec<&ComparedPlace> {
    let mut places: Vec<&ComparedPlace> = comparison.places.iter().collect();
    places.sort_by(|one, other| {
        let differs = |place: &ComparedPlace| place.different > 0;
        differs(other).cmp(&differs(one)).then(other.worst.relative.total_cmp(&one.worst.relative))
    });
    places
}

/// Steps that the text shows.
const STEPS_SHOWN: usize = 10;

fn write_steps(text: &mut String, steps: &[ComparedStep]) {
    let mut table = Table::new(["Step", "Pairs", "Differ", "Apart", "Furthest"]);
    for step in spread(steps) {
        table.row([
            step.step.to_string(),
            grouped(step.pairs),
            grouped(step.different),
            size(step.relative),
            shown(&step.furthest),
        ]);
    }
    let _ = write!(text, "\nOver steps\n{}", table.paint());
}

/// At most ten of the steps, evenly spread, with the first that differs and the last.
fn spread(steps: &[ComparedStep]) -> Vec<&ComparedStep> {
    let first = steps.iter().position(|step| step.different > 0);
    let every = steps.len().div_ceil(STEPS_SHOWN - 2).max(1);
    let is_shown = |place: usize| {
        place.is_multiple_of(every) || Some(place) == first || place + 1 == steps.len()
    };
    steps.iter().enumerate().filter(|(place, _)| is_shown(*place)).map(|(_, step)| step).collect()
}

/// What both sides ran with, and whether that is the same as far as it must be.
pub(super) fn circumstances(comparison: &NumericsComparison) -> Vec<String> {
    let mut lines = Vec::new();
    let batches = &comparison.batches;
    let seeds = match comparison.seeds {
        [Some(one), Some(other)] if one == other => format!("the seed is {one} in both"),
        [Some(_), Some(_)] => "the seeds are not the same".to_owned(),
        _ => "the seeds are not known of both".to_owned(),
    };
    let batches = match (batches.steps, batches.different) {
        (0, _) => "whether the batches are the same is not known".to_owned(),
        (1, 0) => "the batches are the same in the only step".to_owned(),
        (steps, 0) => format!("the batches are the same in all {} steps", grouped(steps)),
        (steps, different) => {
            format!("the batches are others in {} of {} steps", grouped(different), grouped(steps))
        }
    };
    lines.extend(differing_extent(comparison));
    lines.push(format!("Begun alike: {seeds}; {batches}."));
    for (side, ran_with) in ["Reference", "Other"].into_iter().zip(&comparison.ran_with) {
        if !ran_with.is_empty() {
            lines.push(format!("{side}: {}.", shown(ran_with)));
        }
    }
    for name in &comparison.unused_names {
        lines.push(format!(
            "Not used: the name of {}, which the other record has not.",
            shown(name)
        ));
    }
    lines
}

/// Returns the facts that a table of pairs does not show: steps of one side, shapes, and proofs.
fn differing_extent(comparison: &NumericsComparison) -> Vec<String> {
    let mut lines = Vec::new();
    let spans = [
        (comparison.steps_only_before, "the reference"),
        (comparison.steps_only_after, "the other run"),
    ];
    for (span, side) in spans {
        if let (Some(first), Some(last)) = (span.first, span.last) {
            let range =
                if first == last { format!("{first}") } else { format!("{first} to {last}") };
            let steps = counted(span.count, "step");
            lines.push(format!(
                "Not equal: only {side} has {steps} ({range}), which cannot be compared."
            ));
        }
    }
    let mut shapes = comparison.places.iter().filter_map(|place| {
        let [before, after] = place.shapes.as_ref()?;
        Some(format!("{} {before:?} and {after:?}", shown(&place.name)))
    });
    if let Some(first) = shapes.next() {
        let more = match shapes.count() {
            0 => String::new(),
            more => format!(", and {} more", counted(more as u64, "place")),
        };
        lines.push(format!("Other shapes: {first}{more}."));
    }
    if comparison.unknown_noise > 0 {
        lines.push(format!(
            "Noise is not known in {}: one run of the reference has another shape, NaN or an infinite number there, and only rounding is \
             left out.",
            counted(comparison.unknown_noise, "place")
        ));
    }
    if comparison.identical > 0 {
        lines.push(format!("Same to the bit: {}.", counted(comparison.identical, "tensor")));
    }
    if comparison.unproven > 0 {
        lines.push(format!(
            "Equality is not proven of {}: the records have statistics and a sample of their numbers, but not hashes or sketches of all.",
            counted(comparison.unproven, "tensor")
        ));
    }
    lines
}

/// Parts of a whole, to two digits.
pub(super) fn size(part: f64) -> String {
    if part == 0.0 { "0".to_owned() } else { format!("{part:.1e}") }
}

pub(super) fn summary(comparison: &NumericsComparison) -> String {
    let only = comparison.only_before + comparison.only_after;
    let alone = match only {
        0 => String::new(),
        only => format!("; {} have no partner", grouped(only)),
    };
    let compared = format!(
        "{} of {} were compared{alone}",
        counted(comparison.pairs, "tensor"),
        counted(comparison.steps, "step")
    );
    match &comparison.first {
        None if comparison.pairs == 0 => {
            "Nothing could be compared: the records have no step or no place in common.".to_owned()
        }
        None => format!("{compared}. No difference."),
        Some(first) => {
            format!("{}.\n{compared}, and {} differ.", told(first), grouped(comparison.different))
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn told(first: &FirstDifference) -> String {
    let FirstDifference { step, role, name, distance, .. } = first;
    let place = format!("the {role} of {} in step {step}", shown(name));
    let input = match (first.inputs_agree, first.input) {
        (true, _) => ", where the inputs agree",
        (false, Some(_)) => ", where the inputs differ already",
        (false, None) => "",
    };
    let difference = match first.kind {
        DifferenceKind::Shape => {
            let [before, after] = &first.shapes;
            format!("the shapes are {before:?} and {after:?}")
        }
        DifferenceKind::NotFinite => {
            "one has NaN or an infinite number where the other has not the same".to_owned()
        }
        DifferenceKind::UnknownNotFinite => {
            "both have NaN or infinite numbers, and whether these are the same is not recorded"
                .to_owned()
        }
        DifferenceKind::Unsampled => {
            "the hashes differ, by numbers at positions that the samples do not have".to_owned()
        }
        DifferenceKind::Numbers => format!("{} apart", size(distance.relative)),
    };
    format!("The first difference: {place}{input}: {difference}")
}
