//! Steps that took much longer than the others, and their differences.

use std::cmp::Reverse;

use crate::answers::{OutlierStep, StepDifference};
use crate::host::steps::{Parts, Step};
use crate::trace::Trace;
use mlprof_report::ranks::median;

/// Minimum number of steps for outlier detection.
const FEWEST: usize = 5;
/// Score beyond which a step is an outlier, as recommended by Iglewicz and Hoaglin.
const FAR: f64 = 3.5;
/// Minimum spread of step durations that is assumed for the score, as a part of the median.
const SAME: f64 = 0.01;
/// Maximum number of reported differences per step.
const MOST: usize = 5;

/// Returns the outliers among the steps, longest first.
pub(crate) fn of(trace: &Trace, steps: &[Step], parts: &[(Parts, i64)]) -> Vec<OutlierStep> {
    if steps.len() < FEWEST {
        return Vec::new();
    }
    let durations: Vec<i64> = steps.iter().map(Step::duration).collect();
    let middle = median(durations.clone());
    let distances = durations.iter().map(|duration| (duration - middle).abs()).collect();
    let usual = (median(distances) as f64).max(SAME * middle as f64).max(1.0);
    let mut outliers: Vec<OutlierStep> = (0..steps.len())
        .filter_map(|place| {
            let score = 0.6745 * (durations[place] - middle) as f64 / usual;
            let number = steps[place].number.filter(|_| score > FAR)?;
            Some(OutlierStep {
                number,
                duration_ns: durations[place],
                median_ns: middle,
                score,
                differences: differences(trace, place, parts),
            })
        })
        .collect();
    outliers.sort_by_key(|outlier| Reverse(outlier.duration_ns));
    outliers
}

fn differences(trace: &Trace, place: usize, parts: &[(Parts, i64)]) -> Vec<StepDifference> {
    let mut found: Vec<StepDifference> = parts[place]
        .0
        .iter()
        .map(|((action, activity), duration)| {
            let others = parts.iter().enumerate().filter(|(other, _)| *other != place);
            let of = |parts: &Parts| parts.get(&(*action, *activity)).copied().unwrap_or(0);
            StepDifference {
                action: action.map(|action| trace.names.text(action).to_owned()),
                activity: *activity,
                duration_ns: *duration,
                median_ns: median(others.map(|(_, (parts, _))| of(parts)).collect()),
            }
        })
        .filter(|difference| difference.duration_ns > difference.median_ns)
        .collect();
    found.sort_by(|one, other| {
        let more = |it: &StepDifference| Reverse(it.duration_ns - it.median_ns);
        more(one).cmp(&more(other)).then_with(|| one.action.cmp(&other.action))
    });
    found.truncate(MOST);
    found
}
