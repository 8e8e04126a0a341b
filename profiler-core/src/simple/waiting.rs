//! Share of training that was spent waiting for data.

use std::collections::{HashMap, HashSet};

use super::row::RowSnapshot;
use crate::Action;
use crate::recorder::Collected;
use crate::report::simple::{DataWaiting, DataWaitingParts};
use mlprof_events::names::{OWN_TRAIN_DATALOADER_NEXT, RUN_TRAINING_EPOCH};

/// Time spent by one thread, in ticks.
#[derive(Default)]
struct Spent {
    epochs: u64,
    /// Ticks in the trainer's own action, `[…].train_dataloader_next`.
    trainers_next: Option<u64>,
    /// Ticks in the action without a prefix, which users record themselves. Inside a trainer it
    /// covers the same work as the trainer's own action.
    own_next: Option<u64>,
}

impl Spent {
    fn waiting(&self) -> Option<u64> {
        self.trainers_next.or(self.own_next)
    }
}

pub(super) fn data_waiting(
    collected: &Collected<HashMap<Action, RowSnapshot>>,
) -> Option<DataWaiting> {
    let rate = collected.rate;
    let mut threads: HashMap<&str, Spent> = HashMap::new();
    for part in collected.parts.iter().filter(|part| part.sub_stage.is_none()) {
        let closed = part.snapshot.iter().map(|(action, row)| (action.name(), row.total));
        let mut around = HashSet::new();
        let open = part.open.iter().filter_map(|scope| {
            // The time of a nested scope of the same action is already part of the outer one.
            let is_outermost = around.insert(scope.action);
            let elapsed = collected.ended.saturating_sub(scope.started);
            is_outermost.then(|| (scope.action.name(), elapsed))
        });
        let spent = threads.entry(&part.thread).or_default();
        for (name, ticks) in closed.chain(open) {
            if name == RUN_TRAINING_EPOCH {
                spent.epochs += ticks;
            } else if name == OWN_TRAIN_DATALOADER_NEXT {
                *spent.own_next.get_or_insert(0) += ticks;
            } else if name.ends_with(OWN_TRAIN_DATALOADER_NEXT) {
                *spent.trainers_next.get_or_insert(0) += ticks;
            }
        }
    }
    let epochs: u64 = threads.values().map(|spent| spent.epochs).sum();
    if epochs > 0 {
        let training = threads.values().filter(|spent| spent.epochs > 0);
        let waiting = training.filter_map(Spent::waiting).reduce(|sum, next| sum + next)?;
        return Some(
            DataWaitingParts {
                waiting_seconds: rate.seconds(waiting),
                epoch_seconds: Some(rate.seconds(epochs)),
                share: waiting as f64 / epochs as f64,
            }
            .build(),
        );
    }
    let waiting = threads.values().filter_map(Spent::waiting).max()?;
    let wall = collected.ended.saturating_sub(collected.started);
    Some(
        DataWaitingParts {
            waiting_seconds: rate.seconds(waiting),
            epoch_seconds: None,
            share: if wall == 0 { 0.0 } else { waiting as f64 / wall as f64 },
        }
        .build(),
    )
}

#[cfg(all(test, not(loom)))]
mod tests {
    use std::time::{Duration, Instant};

    use crate::report::simple::{ActionStatistics, DataWaiting};
    use crate::{Profiler, ProfilerExt, RunContext, SimpleProfiler, Stage};

    const TRAINERS: &str = "[_TrainingEpochLoop].train_dataloader_next";
    const OWN: &str = "train_dataloader_next";

    fn total(rows: &[ActionStatistics], action: &str) -> f64 {
        rows.iter().find(|row| row.action == action).expect("the row").total_seconds
    }

    /// Returns an upper limit in seconds for the work by the profiler's clock, which may differ
    /// slightly from the system's. The limit also holds on a busy machine, which slows both down.
    fn timed(work: impl FnOnce()) -> f64 {
        let started = Instant::now();
        work();
        1.01 * started.elapsed().as_secs_f64()
    }

    /// Waits at least this long in an action. Returns an upper limit for the actual wait in
    /// seconds.
    fn wait(profiler: &SimpleProfiler, action: &'static str, milliseconds: u64) -> f64 {
        timed(|| {
            let _next = profiler.profile(action);
            std::thread::sleep(Duration::from_millis(milliseconds));
        })
    }

    fn waiting(profiler: &SimpleProfiler) -> DataWaiting {
        profiler.snapshot().data_waiting.expect("somebody waited")
    }

    #[test]
    fn a_trainers_waiting_is_a_share_of_its_epochs() {
        let profiler = SimpleProfiler::new();
        let (mut waited, mut epochs) = (0.0, 0.0);
        for _ in 0..2 {
            epochs += timed(|| {
                let _epoch = profiler.profile("run_training_epoch");
                waited += wait(&profiler, TRAINERS, 10);
                std::thread::sleep(Duration::from_millis(10));
            });
        }
        std::thread::sleep(Duration::from_millis(30));
        let report = profiler.snapshot();
        let data = report.data_waiting.expect("it waited");
        assert_eq!(data.waiting_seconds, total(&report.actions, TRAINERS));
        assert_eq!(data.epoch_seconds, Some(total(&report.actions, "run_training_epoch")));
        let share = data.waiting_seconds / data.epoch_seconds.expect("epochs");
        assert!((data.share / share - 1.0).abs() < 1e-9, "{data:?}");
        assert!((0.02..waited).contains(&data.waiting_seconds), "{data:?} of {waited} s");
        let epoch_seconds = data.epoch_seconds.expect("epochs");
        assert!((0.04..epochs).contains(&epoch_seconds), "{data:?} of {epochs} s");
        for text in [profiler.summary(), SimpleProfiler::detailed(profiler).summary()] {
            let line = text.lines().find(|line| line.starts_with("Waiting for data: "));
            let line = line.unwrap_or_else(|| panic!("no line in {text}"));
            assert!(line.contains(" in training epochs ("), "{line}");
        }
    }

    #[test]
    fn a_wrapper_inside_the_trainers_own_action_does_not_count_twice() {
        let profiler = SimpleProfiler::new();
        let epoch = profiler.profile("run_training_epoch");
        let next = profiler.profile(TRAINERS);
        wait(&profiler, OWN, 5);
        drop(next);
        drop(epoch);
        let report = profiler.snapshot();
        let data = report.data_waiting.expect("it waited");
        assert_eq!(data.waiting_seconds, total(&report.actions, TRAINERS));
    }

    #[test]
    fn workers_do_not_wait_for_data() {
        let profiler = SimpleProfiler::new();
        std::thread::scope(|scope| {
            scope.spawn(|| wait(&profiler, TRAINERS, 50));
            scope.spawn(|| wait(&profiler, OWN, 50));
        });
        let epoch = profiler.profile("run_training_epoch");
        let waited = wait(&profiler, TRAINERS, 1);
        drop(epoch);
        let data = waiting(&profiler);
        assert!((0.001..waited).contains(&data.waiting_seconds), "{data:?} of {waited} s");
        assert!(data.share <= 1.0);
    }

    #[test]
    fn a_loop_of_ones_own_waits_for_a_share_of_the_wall_time() {
        let profiler = SimpleProfiler::new();
        let batches = (0..3).inspect(|_| std::thread::sleep(Duration::from_millis(5)));
        let all = timed(|| {
            for _batch in profiler.profile_iterable(batches, OWN) {
                std::thread::sleep(Duration::from_millis(5));
            }
        });
        let report = profiler.snapshot();
        let data = report.data_waiting.expect("somebody waited");
        assert_eq!(data.epoch_seconds, None);
        assert!((0.015..all - 0.015).contains(&data.waiting_seconds), "{data:?} of {all} s");
        let share = data.waiting_seconds / report.header.wall_seconds;
        assert!((data.share / share - 1.0).abs() < 1e-9, "{data:?} of {report:?}");
        assert!(profiler.summary().contains(" wall time ("), "{}", profiler.summary());
    }

    #[test]
    fn an_epoch_that_still_runs_counts_up_to_now() {
        let profiler = SimpleProfiler::new();
        let _epoch = profiler.profile("run_training_epoch");
        wait(&profiler, TRAINERS, 5);
        let _next = profiler.profile(TRAINERS);
        std::thread::sleep(Duration::from_millis(20));
        let data = waiting(&profiler);
        assert!(data.waiting_seconds >= 0.025, "{data:?}");
        assert!(data.epoch_seconds.expect("it runs") >= data.waiting_seconds, "{data:?}");
    }

    #[test]
    fn without_a_loader_nothing_is_said() {
        let profiler = SimpleProfiler::new();
        drop(profiler.profile("run_training_epoch"));
        drop(profiler.profile("val_next"));
        assert_eq!(profiler.snapshot().data_waiting, None);
        assert!(!profiler.summary().contains("Waiting"));
        // Waiting in a stage inside the reported one is not part of training.
        let profiler = SimpleProfiler::new();
        profiler.setup(Stage::Fit, &RunContext::default());
        profiler.setup(Stage::SanityCheck, &RunContext::default());
        wait(&profiler, TRAINERS, 1);
        profiler.teardown(Some(Stage::SanityCheck));
        assert_eq!(profiler.snapshot().data_waiting, None);
    }
}
