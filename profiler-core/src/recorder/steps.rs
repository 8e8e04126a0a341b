//! Duration and composition of each step. Both are computed when the step ends, from the data that
//! the loop's thread has recorded by then. Scopes do no extra work for it.

use super::{Recorder, Table};
use crate::report::internals::{StepLog, StepPart, StepParts, StepTicks};
use crate::report::steps::StepSeries;
use mlprof_events::{Action, Direction, Observation, Stage, uncounted};

/// Time of the calls at one place in a table, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ActionTicks {
    /// Total time of all ended calls. Nested calls count only once.
    pub(crate) total: u64,
    /// Part of the total that was spent in scopes directly inside.
    pub(crate) children: u64,
    /// Start time of the first call.
    pub(crate) first_started: u64,
}

/// Read access to a table's totals between scopes. A *place* is one counter of an action: an action
/// has one place, or one for each call path that leads to it. Only the owning thread may call these
/// methods.
pub(crate) trait TellsTotals {
    /// Returns the number of places.
    fn places(&self) -> usize;
    /// Returns the places from this number on, with their actions, in the order in which they were
    /// added.
    fn places_from(&self, number: usize) -> impl Iterator<Item = (usize, Action)>;
    /// Returns the actions around the first call at this place, innermost first.
    fn around(&self, place: usize) -> impl Iterator<Item = Action>;
    /// Returns the time of the calls at this place.
    fn ticks(&self, place: usize) -> Option<ActionTicks>;
}

/// Returns the part of a step that an action of the loop's thread represents.
pub(crate) fn part_told_by(action: Action) -> Option<StepPart> {
    StepPart::of_action(action, Direction::Forward)
}

/// Place that contributes to a part of a step.
#[derive(Debug, Clone, Copy)]
struct StepPlace {
    place: usize,
    part: StepPart,
    /// Part of a step that encloses this place, if any. The time of this place is subtracted from
    /// it.
    around: Option<StepPart>,
    /// Ticks of the place at the last boundary.
    until: ActionTicks,
}

/// Optimizer action inside another optimizer action.
#[derive(Debug, Clone, Copy)]
struct Update {
    place: usize,
    /// Total ticks at the last boundary.
    until: u64,
}

/// Steps of a stage.
#[derive(Debug, Default)]
pub(super) struct Steps {
    log: StepLog,
    /// Pauses of the loop for a validation.
    validations: StepLog,
    over: u64,
    pauses: u32,
    paused: u64,
    /// Time of the last boundary in ticks: the end of a step, or the beginning or end of a pause.
    last: Option<u64>,
    /// Elapsed ticks and parts of the running step from before a pause.
    before: (u64, StepParts),
    known: Vec<StepPlace>,
    /// Optimizer updates inside a hook of the optimizer, which is in `known`. Their time is not
    /// part of the hook's forward and backward passes.
    updates: Vec<Update>,
    looked_at: usize,
    /// Address of the loop's table. If two loops run at once, only the steps of the first one are
    /// recorded.
    table: Option<usize>,
}

/// Boundary that a training loop reports.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Boundary {
    Step,
    Pause,
    Resume,
}

impl Steps {
    fn pass(&mut self, boundary: Boundary, now: u64, table: &impl TellsTotals) {
        let address = std::ptr::from_ref(table).addr();
        if *self.table.get_or_insert(address) != address {
            return;
        }
        match boundary {
            // Steps inside a validation are not counted.
            Boundary::Step if self.pauses > 0 => return,
            Boundary::Step => {}
            Boundary::Pause => {
                self.pauses += 1;
                if self.pauses > 1 {
                    return;
                }
            }
            Boundary::Resume => {
                self.pauses = self.pauses.saturating_sub(1);
                if self.pauses > 0 {
                    return;
                }
            }
        }
        self.look_for_new(table);
        let began = self.last.or_else(|| self.first_started(table)).unwrap_or(now).min(now);
        let elapsed = now - began;
        let parts = self.since(table, elapsed);
        self.last = Some(now);
        match boundary {
            Boundary::Pause => {
                self.before.0 += elapsed;
                self.before.1 += parts;
            }
            Boundary::Resume => {
                let (started, slowest) = (began, None);
                self.validations.add(StepTicks {
                    number: self.paused,
                    started,
                    elapsed,
                    parts,
                    slowest,
                });
                self.paused += 1;
            }
            Boundary::Step => {
                let (earlier, mut all) = std::mem::take(&mut self.before);
                all += parts;
                let elapsed = earlier + elapsed;
                self.log.add(StepTicks {
                    number: self.over,
                    // The part of a step before a pause is negligible.
                    started: began,
                    elapsed,
                    parts: all,
                    slowest: None,
                });
                self.over += 1;
            }
        }
    }

    /// Returns the start of the first step, which is the first call of a known action. Earlier time
    /// belongs to no step.
    fn first_started(&self, table: &impl TellsTotals) -> Option<u64> {
        let ticks = self.known.iter().filter_map(|known| table.ticks(known.place));
        ticks.map(|ticks| ticks.first_started).min()
    }

    fn look_for_new(&mut self, table: &impl TellsTotals) {
        let places = table.places();
        if places == self.looked_at {
            return;
        }
        for (place, action) in table.places_from(self.looked_at) {
            let Some(part) = part_told_by(action) else { continue };
            let around = table.around(place).find_map(part_told_by);
            // A nested action of the same part is already counted in the outer one. All time inside
            // data loading counts as data loading.
            if around != Some(part) && around != Some(StepPart::Data) {
                let until = ActionTicks::default();
                self.known.push(StepPlace { place, part, around, until });
            } else if part == StepPart::Optimizer && around == Some(part) {
                self.updates.push(Update { place, until: 0 });
            }
        }
        self.looked_at = places;
    }

    /// Returns the parts of the time since the last boundary. Their sum is at most `elapsed`.
    fn since(&mut self, table: &impl TellsTotals, elapsed: u64) -> StepParts {
        let mut parts = StepParts::default();
        let mut inside = StepParts::default();
        let (mut optimizers_children, mut optimizers_collectives) = (0, 0);
        for known in &mut self.known {
            let ticks = table.ticks(known.place).unwrap_or(known.until);
            let total = ticks.total.saturating_sub(known.until.total);
            if known.part == StepPart::Optimizer {
                optimizers_children += ticks.children.saturating_sub(known.until.children);
            }
            known.until = ticks;
            *known.part.of(&mut parts) += total;
            if let Some(around) = known.around {
                *around.of(&mut inside) += total;
            }
            if (known.part, known.around) == (StepPart::Collective, Some(StepPart::Optimizer)) {
                optimizers_collectives += total;
            }
        }
        for update in &mut self.updates {
            let total = table.ticks(update.place).map_or(update.until, |ticks| ticks.total);
            let since = total.saturating_sub(std::mem::replace(&mut update.until, total));
            optimizers_children = optimizers_children.saturating_sub(since);
        }
        let both = parts.forward + parts.backward;
        let knows_both = inside.optimizer > optimizers_collectives;
        if !knows_both && both > 0 && optimizers_children >= both {
            // With gradient accumulation the first forward pass is outside of the optimizer's step,
            // and later ones are inside.
            inside.optimizer += both;
        }
        for part in StepPart::ALL {
            let own = part.of(&mut parts).saturating_sub(*part.of(&mut inside));
            *part.of(&mut parts) = own;
        }
        let mut left = elapsed;
        for part in StepPart::ALL {
            let ticks = part.of(&mut parts);
            *ticks = (*ticks).min(left);
            left -= *ticks;
        }
        parts
    }

    /// Returns the step series, in seconds since the beginning of the stage.
    pub(super) fn series(
        &self,
        stage: Option<Stage>,
        started: u64,
        seconds: impl Fn(u64) -> f64 + Copy,
    ) -> Vec<StepSeries> {
        let logs = [(stage, &self.log), (Some(Stage::Validate), &self.validations)];
        let logs = logs.into_iter().filter(|(_, log)| !log.is_empty());
        logs.map(|(stage, log)| log.series(stage, started, seconds)).collect()
    }
}

impl<T: Table + TellsTotals> Recorder<T> {
    /// Handles the observations of [`observe`](Self::observe) and also device regions and steps.
    /// *Cost* of a step: about 0.1 µs, plus the same for each 20 actions that represent a phase.
    /// Scopes have no extra cost.
    pub(crate) fn observe_with_steps(&self, observation: &Observation<'_>) {
        let boundary = match observation {
            Observation::StepEnd => Boundary::Step,
            Observation::StepsPaused => Boundary::Pause,
            Observation::StepsResumed => Boundary::Resume,
            Observation::RegionOpened(sinks) => return sinks.add(self.region_sink()),
            _ => return self.observe(observation),
        };
        uncounted(|| self.pass(boundary));
    }

    /// Records a step boundary on the calling thread.
    fn pass(&self, boundary: Boundary) {
        // A thread without a table has recorded nothing, so there is no step to record.
        let Some(attached) = self.attach_known() else { return };
        let now = self.clock.ticks();
        if let Some(running) = self.sessions().running.last_mut() {
            running.steps.pass(boundary, now, &attached.table);
        }
    }
}
