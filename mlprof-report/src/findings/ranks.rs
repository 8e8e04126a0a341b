//! Detection of the slowest of several ranks, and of the action in which it loses time.
//!
//! Ranks that average gradients wait for the slowest rank in every step, so all steps take equally
//! long. The ranks differ in their time without this waiting.

use mlprof_events::Stage;
use mlprof_events::names::RUN_TRAINING_EPOCH;

use super::facts::{ActionFacts, Facts};
use super::rule::{Outcome, Threshold};
use crate::Report;
use crate::finding::{Confidence, Evidence, Finding, Place};
use crate::number::{duration, share};
use mlprof_events::OrderExt;

pub(super) const NAME: &str = "slowest-rank";

pub(super) const CONDITION: &str =
    "one of several processes needs longer for its own work than half of them";

pub(super) const THRESHOLDS: &[Threshold] = &[Threshold {
    name: "share",
    default: 0.1,
    why: "minimum share of the run that the other ranks wait for the slowest one",
}];

/// Times of one rank.
struct Rank<'report> {
    facts: Facts<'report>,
    /// Index of the rank's report.
    index: usize,
    number: u32,
    /// Time in training epochs without waiting for other ranks, in seconds.
    own_seconds: f64,
}

/// Outcome for several ranks, and the index of the slowest rank's report if there is a finding.
pub(super) struct Examined {
    pub(super) outcome: Outcome,
    pub(super) slowest: Option<usize>,
}

impl From<Outcome> for Examined {
    fn from(outcome: Outcome) -> Self {
        Self { outcome, slowest: None }
    }
}

/// Examines the reports of all ranks. `limit` is the threshold.
pub(super) fn examine(reports: &[Report], limit: f64) -> Examined {
    let is_fit = |(_, report): &(usize, &Report)| {
        matches!(report, Report::Simple(_) | Report::Advanced(_))
            && matches!(report.header().stage, None | Some(Stage::Fit))
    };
    let mut ranks: Vec<Rank<'_>> = Vec::new();
    let mut waits_are_known = false;
    for (index, report) in reports.iter().enumerate().filter(is_fit) {
        let facts = Facts::of(report);
        let number = report.header().rank;
        let Some(epochs) = facts.action(RUN_TRAINING_EPOCH) else { continue };
        if ranks.iter().any(|rank| rank.number == number) {
            continue;
        }
        let waited = waited_for_others(report, &facts);
        waits_are_known |= waited > 0.0;
        let own_seconds = (epochs.total_seconds - waited).max(0.0);
        ranks.push(Rank { facts, index, number, own_seconds });
    }
    if ranks.len() < 2 {
        return Outcome::no_inputs(
            "there are no Simple or Advanced reports of a fit with training epochs from several \
             ranks",
        )
        .into();
    }
    if !waits_are_known {
        return Outcome::no_inputs(
            "no action in the reports waits for other processes: profile the collective as an \
             action with a name such as all_reduce_gradients",
        )
        .into();
    }
    ranks.order_by(|one, other| one.own_seconds.total_cmp(&other.own_seconds));
    // For two ranks, this selects the faster one.
    let usual = &ranks[(ranks.len() - 1) / 2];
    let slowest = &ranks[ranks.len() - 1];
    let longer = slowest.own_seconds - usual.own_seconds;
    let part = slowest.facts.share(longer);
    let evidence: Vec<_> = ranks
        .iter()
        .map(|rank| {
            Evidence::new(format!("rank {} own work", rank.number), duration(rank.own_seconds))
        })
        .collect();
    if part < limit {
        return Outcome::Healthy(evidence).into();
    }
    let (action, lost) = where_it_loses(slowest, usual);
    let mut evidence = evidence;
    if let Some(action) = action {
        evidence.push(Evidence::new(format!("loss in {}", action.name), duration(lost)));
    }
    let outcome = Outcome::Found(vec![Finding {
        rule: NAME.to_owned(),
        sentence: format!(
            "Rank {} needs {} longer for its own work than rank {} ({}), and the other ranks wait \
             for it.",
            slowest.number,
            duration(longer),
            usual.number,
            share(part, 1.0)
        ),
        evidence,
        place: action.map_or_else(Place::default, |action| Place::action(action.name)),
        cost: slowest.facts.cost(longer),
        confidence: Confidence::Likely,
        remedy:
            "balance the work of the processes (batches of one size, inputs of similar lengths, \
             hooks and files of rank 0 on a separate thread), and check which other programs run \
             on that machine."
                .to_owned(),
    }]);
    Examined { outcome, slowest: Some(slowest.index) }
}

/// Returns the time spent waiting for other ranks, in seconds. It uses the steps if the report has
/// them. Rows of nested collectives would count the same time twice.
fn waited_for_others(report: &Report, facts: &Facts<'_>) -> f64 {
    let steps = report.step_series().first().into_iter().flat_map(|series| &series.entries);
    let in_steps: f64 = steps.map(|entry| entry.collective_seconds).sum();
    if in_steps > 0.0 {
        return in_steps;
    }
    let waits = facts.actions.iter().filter(|action| action.waits_for_others());
    waits.map(|action| action.total_seconds).sum()
}

/// Returns the innermost action with more than half of the difference, and its part in seconds.
fn where_it_loses<'report>(
    slowest: &Rank<'report>,
    usual: &Rank<'_>,
) -> (Option<ActionFacts<'report>>, f64) {
    let longer = slowest.own_seconds - usual.own_seconds;
    let difference = |action: &ActionFacts<'_>| {
        let other = usual.facts.action(action.name).map_or(0.0, |other| other.total_seconds);
        action.total_seconds - other
    };
    let inside = slowest.facts.actions.iter().filter(|action| {
        action.name != RUN_TRAINING_EPOCH
            && !action.waits_for_others()
            && difference(action) > 0.5 * longer
    });
    let innermost = inside.min_by(|one, other| one.total_seconds.total_cmp(&other.total_seconds));
    (innermost.copied(), innermost.map_or(0.0, difference))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::Rules;
    use crate::findings::samples::{close, row, steps};
    use crate::steps::{StepEntry, StepSeries};

    /// Builds a report of ten seconds of training. The rank spends `loading` seconds in its loader,
    /// and waits for the others for the rest of five seconds.
    fn rank(number: u32, loading: f64) -> Report {
        let mut report = steps(100, 0.05);
        report.header.rank = number;
        report.header.world_size = 4;
        report.header.wall_seconds = 10.0;
        report.actions.push(row("run_training_epoch", 1, 10.0));
        report.actions.push(row("[_TrainingEpochLoop].train_dataloader_next", 101, loading));
        report.actions.push(row("all_reduce_gradients", 100, 5.0 - loading));
        Report::Simple(report)
    }

    fn outcome(reports: &[Report]) -> Outcome {
        Rules::new().explain_ranks(reports).outcome
    }

    #[test]
    fn the_slowest_is_found_with_what_it_loses_by() {
        let reports = [rank(0, 0.5), rank(1, 0.4), rank(2, 3.4), rank(3, 0.3)];
        let findings = Rules::new().apply_to_ranks(&reports);
        assert_eq!(findings.len(), 1, "{findings:#?}");
        let finding = &findings[0];
        close(finding.cost.seconds, 3.0, 0.001);
        assert!(finding.sentence.starts_with("Rank 2 "), "{finding:?}");
        let place = finding.place.action.as_deref();
        assert_eq!(place, Some("[_TrainingEpochLoop].train_dataloader_next"));
        // Of two ranks, the faster one serves as the reference.
        let findings = Rules::new().apply_to_ranks(&reports[1..3]);
        close(findings[0].cost.seconds, 3.0, 0.001);
    }

    /// Checks that nested collectives count their waiting time once.
    #[test]
    fn a_collective_inside_of_another_one_is_counted_once() {
        let nested = |number, loading| {
            let Report::Simple(mut report) = rank(number, loading) else { panic!("as made") };
            report.actions.push(row("all_reduce_mean", 100, 5.0 - loading));
            let entry = StepEntry { collective_seconds: 5.0 - loading, ..StepEntry::default() };
            report.step_series =
                vec![StepSeries { steps: 100, entries: vec![entry], ..StepSeries::default() }];
            Report::Simple(report)
        };
        let findings = Rules::new().apply_to_ranks(&[nested(0, 0.5), nested(1, 3.5)]);
        close(findings[0].cost.seconds, 3.0, 0.001);
    }

    #[test]
    fn ranks_that_keep_step_are_not_and_of_one_nothing_is_said() {
        let reports = [rank(0, 0.5), rank(1, 0.4), rank(2, 0.6)];
        assert!(matches!(outcome(&reports), Outcome::Healthy(seen) if seen.len() == 3));
        let Outcome::NoInputs(why) = outcome(&reports[..1]) else { panic!("of one process") };
        assert!(why.contains("from one process"), "{why}");
        assert_eq!(Rules::new().apply_to_ranks(&reports[..1]), []);
        let alone = |number| {
            let Report::Simple(mut report) = rank(number, 3.0) else { panic!("as made") };
            report.actions.retain(|row| row.action != "all_reduce_gradients");
            Report::Simple(report)
        };
        let Outcome::NoInputs(why) = outcome(&[alone(0), alone(1)]) else { panic!("no waits") };
        assert!(why.contains("all_reduce"), "{why}");
        let mut rules = Rules::new();
        rules.set("slowest-rank.share", 0.5).expect("there is such a threshold");
        assert_eq!(rules.apply_to_ranks(&[rank(0, 0.5), rank(1, 3.4)]), []);
    }
}
