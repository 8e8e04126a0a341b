//! Text of a comparison.

use std::fmt::Write;

use mlprof_report::internals::sections::{Content, text as text_of};
use mlprof_report::internals::shown;
use mlprof_report::internals::table::{Table, count, table, words};
use mlprof_report::number::grouped;

use super::{ComparedPlace, ComparedStep, DifferenceKind, FirstDifference, NumericsComparison};

/// Returns the first place where the runs diverge, and a table of at most `rows` places. Differing
/// places come first, then the others by distance.
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
    let has_steps = comparison.different > 0 && comparison.over_steps.len() > 1;
    let steps = if has_steps { spread(&comparison.over_steps) } else { Vec::new() };
    text + &text_of(&content(comparison, &steps), rows)
}

/// Returns the tables of a comparison: all places, and the given steps.
pub(super) fn content(comparison: &NumericsComparison, over: &[&ComparedStep]) -> Vec<Content> {
    if comparison.places.is_empty() {
        return Vec::new();
    }
    let mut content = vec![
        Content::Heading("places".to_owned(), "Places".to_owned()),
        Content::Table(places(comparison)),
        Content::Paragraph(MEASURED_OF.to_owned()),
    ];
    if !over.is_empty() {
        content.push(Content::Heading("steps".to_owned(), "Over steps".to_owned()));
        content.push(Content::Table(steps(over)));
    }
    content
}

fn places(comparison: &NumericsComparison) -> Table {
    let caption = "Places, those that differ and the furthest apart first";
    let table = table!(caption, by_distance(comparison), |place| {
        let worst = &place.worst;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        words("Place", "The module that returned it, or the parameter") => place.name.as_str(),
        count("Pairs", "How many tensors were put beside each other") => place.pairs,
        count("Differ", "How many of them differ").bar() => place.different,
        words("First step", "The first step in which they differ") =>
            or_none(place.first_step.map(|step| step.to_string())),
        // Distances are shown as text, because a bar cannot show values that span many powers of
        // ten.
        words("Apart", "The most that they are apart, as a part of their size") =>
            size(worst.relative),
        words("At step", "The step of that") => place.worst_step.to_string(),
        words("Last", "How far the last pair is apart") => size(place.last.relative),
        words("Noise", "How far two runs of the reference are apart") => size(place.noise),
        words("SQNR", "Signal to quantisation noise, of samples") =>
            or_none(worst.sqnr.map(|decibels| format!("{decibels:.1} dB"))),
        words("Rel. L2", "The norm of the difference, of samples") =>
            or_none(worst.relative_l2.map(size)),
        words("Cosine", "Of the angle between samples") =>
            or_none(worst.cosine.map(|cosine| format!("{cosine:.6}"))),
        count("ULPs", "How many numbers of the elements' type samples are apart") =>
            worst.most_ulps.map(|ulps| ulps as f64),
        words("Role", "What it is for") => place.role.to_string(),
    });
    table.name_last().rest("{} more places agree better.")
}

fn steps(steps: &[&ComparedStep]) -> Table {
    let table = table!("How far the runs are apart, step by step", steps, |step| {
        words("Step", "The number of the step") => step.step.to_string(),
        count("Pairs", "How many tensors were put beside each other") => step.pairs,
        count("Differ", "How many of them differ").bar() => step.different,
        words("Apart", "The most that a pair is apart") => size(step.relative),
        words("Furthest", "The place of that pair") => step.furthest.as_str(),
    });
    table.as_described()
}

/// Explanation of the distances in the table.
pub(super) const MEASURED_OF: &str = "Apart is the most that statistics, samples or sketches of all numbers are; SQNR, relative L2, cosine and ULPs are those of \
                                      the samples, 32 numbers of each tensor, of the pair that is furthest apart. ULPs are those of the elements' type.";

/// Returns the places ordered by difference, then by decreasing distance.
pub(super) fn by_distance(comparison: &NumericsComparison) -> Vec<&ComparedPlace> {
    let mut places: Vec<&ComparedPlace> = comparison.places.iter().collect();
    places.sort_by(|one, other| {
        let differs = |place: &ComparedPlace| place.different > 0;
        differs(other).cmp(&differs(one)).then(other.worst.relative.total_cmp(&one.worst.relative))
    });
    places
}

/// Maximum number of steps shown in the text.
const STEPS_SHOWN: usize = 10;

/// Returns at most ten evenly spaced steps, including the first that differs and the last.
fn spread(steps: &[ComparedStep]) -> Vec<&ComparedStep> {
    let first = steps.iter().position(|step| step.different > 0);
    let every = steps.len().div_ceil(STEPS_SHOWN - 2).max(1);
    let is_shown = |place: usize| {
        place.is_multiple_of(every) || Some(place) == first || place + 1 == steps.len()
    };
    steps.iter().enumerate().filter(|(place, _)| is_shown(*place)).map(|(_, step)| step).collect()
}

/// Returns sentences about the environments, seeds and batches of both sides.
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

/// Returns facts that the table of pairs does not show: steps of one side, shapes, and proofs.
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

/// Formats a relative distance with two digits.
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
