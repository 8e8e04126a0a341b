//! The comparison as text.

use std::fmt::Write;

use profiler_report::internals::{Table, shown};
use profiler_report::number::grouped;

use super::{ComparedPlace, FirstDifference, NumericsComparison};

/// The first place at which the runs part, and a table of all places, those that differ and the furthest apart first; `rows` of
/// them at most.
pub fn text(comparison: &NumericsComparison, rows: usize) -> String {
    let mut text = String::new();
    // Writing into a string cannot fail.
    for unlike in &comparison.unlike {
        let _ = writeln!(text, "Not alike: {}.", shown(unlike));
    }
    let _ = writeln!(text, "{}", summary(comparison));
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
        "Noise",
        "SQNR",
        "Rel. L2",
        "Cosine",
        "ULPs",
        "Role",
        "Place",
    ]);
    let mut places: Vec<&ComparedPlace> = comparison.places.iter().collect();
    places.sort_by(|one, other| {
        let differs = |place: &ComparedPlace| place.different > 0;
        differs(other).cmp(&differs(one)).then(other.worst.relative.total_cmp(&one.worst.relative))
    });
    for place in places.iter().take(rows) {
        let worst = &place.worst;
        let or_none = |text: Option<String>| text.unwrap_or_else(|| "-".to_owned());
        table.row([
            grouped(place.pairs),
            grouped(place.different),
            or_none(place.first_step.map(|step| step.to_string())),
            size(worst.relative),
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
    text
}

/// Parts of a whole, to two digits.
fn size(part: f64) -> String {
    if part == 0.0 { "0".to_owned() } else { format!("{part:.1e}") }
}

fn summary(comparison: &NumericsComparison) -> String {
    let only = comparison.only_before + comparison.only_after;
    let alone = match only {
        0 => String::new(),
        only => format!("; {} have no partner", grouped(only)),
    };
    let compared = format!(
        "{} tensors of {} steps were compared{alone}",
        grouped(comparison.pairs),
        grouped(comparison.steps)
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

fn told(first: &FirstDifference) -> String {
    let FirstDifference { step, role, name, distance, .. } = first;
    let place = format!("the {role} of {} in step {step}", shown(name));
    let input = match (first.inputs_agree, first.input) {
        (true, _) => ", where the inputs agree",
        (false, Some(_)) => ", where the inputs differ already",
        (false, None) => "",
    };
    format!("The first difference: {place}{input}: {} apart", size(distance.relative))
}
