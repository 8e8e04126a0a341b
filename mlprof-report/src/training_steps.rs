//! Number of training steps in a report.

use mlprof_events::Stage;
use mlprof_events::names::RUN_TRAINING_BATCH;

use crate::Report;

/// Returns the number of training steps that a report covers, if known. Steps of a nested stage do
/// not count.
pub(crate) fn training_steps(report: &Report) -> Option<u64> {
    let is_batch = |action: &str, sub_stage: Option<Stage>| {
        action == RUN_TRAINING_BATCH && sub_stage.is_none()
    };
    let steps = match report {
        Report::Simple(report) => {
            let mut rows = report.actions.iter();
            rows.find(|row| is_batch(&row.action, row.sub_stage)).map(|row| row.calls)
        }
        Report::Advanced(report) => {
            let mut rows = report.actions.iter();
            rows.find(|row| is_batch(&row.action, row.sub_stage)).map(|row| row.calls)
        }
        Report::Memory(report) => {
            let mut rows = report.actions.iter();
            rows.find(|row| is_batch(&row.action, row.sub_stage)).map(|row| row.calls)
        }
        Report::Tensor(report) => Some(report.recorded_steps),
        Report::Numerics(report) => Some(report.steps),
        Report::Lines(_) | Report::Samples(_) => None,
    };
    steps.filter(|steps| *steps > 0)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::findings::samples::{recorded, row, steps};

    #[test]
    fn batches_of_a_stage_inside_the_reported_one_are_not_counted() {
        let mut report = steps(100, 0.02);
        let mut inside = row(RUN_TRAINING_BATCH, 2, 0.1);
        inside.sub_stage = Some(Stage::Fit);
        report.actions.insert(0, inside);
        assert_eq!(training_steps(&Report::Simple(report.clone())), Some(100));
        report.actions.remove(1);
        assert_eq!(training_steps(&Report::Simple(report)), None);
    }

    #[test]
    fn recorded_steps_are_counted_and_none_are_none() {
        let mut report = recorded(Vec::new());
        assert_eq!(training_steps(&Report::Tensor(report.clone())), Some(100));
        report.recorded_steps = 0;
        assert_eq!(training_steps(&Report::Tensor(report)), None);
    }
}
