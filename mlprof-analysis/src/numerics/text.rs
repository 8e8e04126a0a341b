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
        let _ = writeln!(text, "Different conditions: {}.", shown(unlike));
    }
    let _ = writeln!(text, "{}", summary(comparison));
    for line in circumstances(comparison) {
        let _ = writeln!(text, "{line}");
    }
    if !comparison.knows_noise && comparison.different > 0 {
        text.push_str(
            "The run-to-run noise is unknown; give a second run of the reference (--again) to exclude it.\n",
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
        content.push(Content::Heading("steps".to_owned(), "Steps".to_owned()));
        content.push(Content::Table(steps(over)));
    }
    content
}

fn places(comparison: &NumericsComparison) -> Table {
    let caption = "Places, ordered by difference and distance";
    let table = table!(caption, by_distance(comparison), |place| {
        let worst = &place.worst;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        words("Place", "Module that returned the tensor, or parameter") => place.name.as_str(),
        count("Pairs", "Number of compared tensor pairs") => place.pairs,
        count("Differ", "Number of pairs that differ").bar() => place.different,
        words("First step", "First step with a difference") =>
            or_none(place.first_step.map(|step| step.to_string())),
        // Distances are shown as text, because a bar cannot show values that span many powers of
        // ten.
        words("Distance", "Largest relative distance of a pair") =>
            size(worst.relative),
        words("At step", "Step of the largest distance") => place.worst_step.to_string(),
        words("Last", "Relative distance of the last pair") => size(place.last.relative),
        words("Noise", "Relative distance between two runs of the reference") => size(place.noise),
        words("SQNR", "Signal-to-quantisation-noise ratio of the samples") =>
            or_none(worst.sqnr.map(|decibels| format!("{decibels:.1} dB"))),
        words("Rel. L2", "Relative L2 norm of the samples' difference") =>
            or_none(worst.relative_l2.map(size)),
        words("Cosine", "Cosine similarity of the samples") =>
            or_none(worst.cosine.map(|cosine| format!("{cosine:.6}"))),
        count("ULPs", "Largest distance of the samples, in units in the last place of the element type") =>
            worst.most_ulps.map(|ulps| ulps as f64),
        words("Role", "Role of the tensor") => place.role.to_string(),
    });
    table.name_last().rest("{} more places with smaller differences.")
}

fn steps(steps: &[&ComparedStep]) -> Table {
    let table = table!("Distance of the runs by step", steps, |step| {
        words("Step", "Step number") => step.step.to_string(),
        count("Pairs", "Number of compared tensor pairs") => step.pairs,
        count("Differ", "Number of pairs that differ").bar() => step.different,
        words("Distance", "Largest relative distance of a pair") => size(step.relative),
        words("Furthest", "Place of the pair with the largest distance") => step.furthest.as_str(),
    });
    table.as_described()
}

/// Explanation of the distances in the table.
pub(super) const MEASURED_OF: &str = "Distance is the largest relative distance between statistics, samples or \
                                      sketches. SQNR, relative L2, cosine and ULPs compare the samples, 32 \
                                      numbers of each tensor, of the pair with the largest distance. ULPs \
                                      refer to the element type.";

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
        [Some(one), Some(other)] if one == other => format!("both runs have seed {one}"),
        [Some(_), Some(_)] => "the seeds differ".to_owned(),
        _ => "at least one seed is unknown".to_owned(),
    };
    let batches = match (batches.steps, batches.different) {
        (0, _) => "the records do not show whether the batches are equal".to_owned(),
        (1, 0) => "the batches are equal in the only step".to_owned(),
        (steps, 0) => format!("the batches are equal in all {} steps", grouped(steps)),
        (steps, different) => {
            format!("the batches differ in {} of {} steps", grouped(different), grouped(steps))
        }
    };
    lines.extend(differing_extent(comparison));
    lines.push(format!("Start conditions: {seeds}; {batches}."));
    for (side, ran_with) in ["Reference", "Other"].into_iter().zip(&comparison.ran_with) {
        if !ran_with.is_empty() {
            lines.push(format!("{side}: {}.", shown(ran_with)));
        }
    }
    for name in &comparison.unused_names {
        lines.push(format!("Unused name mapping: the other record has no {}.", shown(name)));
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
            lines.push(format!("Not compared: {steps} that only {side} has ({range})."));
        }
    }
    let mut shapes = comparison.places.iter().filter_map(|place| {
        let [before, after] = place.shapes.as_ref()?;
        Some(format!("{} has {before:?} and {after:?}", shown(&place.name)))
    });
    if let Some(first) = shapes.next() {
        let more = match shapes.count() {
            0 => String::new(),
            more => format!(", and {} more", counted(more as u64, "place")),
        };
        lines.push(format!("Different shapes: {first}{more}."));
    }
    if comparison.unknown_noise > 0 {
        lines.push(format!(
            "Noise is unknown in {}: a run of the reference has another shape, NaN or infinity there, so only \
             rounding is excluded.",
            counted(comparison.unknown_noise, "place")
        ));
    }
    if comparison.identical > 0 {
        lines.push(format!("Bitwise equal: {}.", counted(comparison.identical, "tensor")));
    }
    if comparison.unproven > 0 {
        lines.push(format!(
            "Equality is unproven for {}: the records have only their statistics and samples, not hashes or \
             sketches.",
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
        only => format!("; {} exist in only one record", grouped(only)),
    };
    let compared = format!(
        "{} of {} were compared{alone}",
        counted(comparison.pairs, "tensor"),
        counted(comparison.steps, "step")
    );
    match &comparison.first {
        None if comparison.pairs == 0 => {
            "Nothing was compared: the records have no common step or no common place.".to_owned()
        }
        None => format!("{compared}. No difference."),
        Some(first) => {
            format!(
                "{}.\n{compared}, and {} differ.",
                describe_difference(first),
                grouped(comparison.different)
            )
        }
    }
}

fn counted(count: u64, what: &str) -> String {
    format!("{} {what}{}", grouped(count), if count == 1 { "" } else { "s" })
}

fn describe_difference(first: &FirstDifference) -> String {
    let FirstDifference { step, role, name, distance, .. } = first;
    let place = format!("the {role} of {} in step {step}", shown(name));
    let input = match (first.inputs_agree, first.input) {
        (true, _) => ", whose inputs agree",
        (false, Some(_)) => ", whose inputs already differ",
        (false, None) => "",
    };
    let difference = match first.kind {
        DifferenceKind::Shape => {
            let [before, after] = &first.shapes;
            format!("the shapes are {before:?} and {after:?}")
        }
        DifferenceKind::NotFinite => "NaN or infinities are in different positions".to_owned(),
        DifferenceKind::UnknownNotFinite => {
            "both have NaN or infinities, but the records do not show whether these are equal"
                .to_owned()
        }
        DifferenceKind::Unsampled => {
            "the hashes differ, at positions outside the samples".to_owned()
        }
        DifferenceKind::Numbers => format!("{} apart", size(distance.relative)),
    };
    format!("First difference: {place}{input}: {difference}")
}
