//! How long each step took, and what its time went into: taken when it is over, from what the loop's
//! thread has recorded until then. Scopes themselves know nothing of it.

use super::{Recorder, Table};
use crate::report::internals::{StepLog, StepPart, StepParts, StepTicks};
use crate::report::steps::StepSeries;
use mlprof_events::{Action, Direction, Observation, Stage, uncounted};

/// What a table has of the calls at one place, in ticks.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct ActionTicks {
    /// Of all calls that have ended, those inside another one not once more.
    pub(crate) total: u64,
    /// The part of it that was spent in scopes directly inside.
    pub(crate) children: u64,
    /// When the first call began.
    pub(crate) first_started: u64,
}

/// What a table tells of its calls to those who ask between scopes. A place is where an action is counted:
/// an action has one, or one for each way that leads to it. Only the owning thread may ask.
pub(crate) trait TellsTotals {
    /// How many places it has.
    fn places(&self) -> usize;
    /// The places from a number on, in the order in which they came, with their actions.
    fn places_from(&self, number: usize) -> impl Iterator<Item = (usize, Action)>;
    /// What the first call there was inside of, the innermost first.
    fn around(&self, place: usize) -> impl Iterator<Item = Action>;
    /// What it has of the calls there.
    fn ticks(&self, place: usize) -> Option<ActionTicks>;
}

/// What an action of the loop's thread tells.
pub(crate) fn part_told_by(action: Action) -> Option<StepPart> {
    StepPart::told_by(action, Direction::Forward)
}

/// An action that tells a part of a step.
#[derive(Debug, Clone, Copy)]
struct Known {
    place: usize,
    part: StepPart,
    /// The part that it lies in, if any: its time is not that one's.
    around: Option<StepPart>,
    /// Until the last moment that was looked at.
    until: ActionTicks,
}

/// An optimizer action inside another one.
#[derive(Debug, Clone, Copy)]
struct Update {
    place: usize,
    /// Total ticks at the last boundary.
    until: u64,
}

/// The steps of a stage.
#[derive(Debug, Default)]
pub(super) struct Steps {
    log: StepLog,
    /// Each time that the loop paused for a validation.
    validations: StepLog,
    over: u64,
    pauses: u32,
    paused: u64,
    /// The moment that was looked at last: the end of a step, the beginning or the end of a pause.
    last: Option<u64>,
    /// What belongs to the running step from before a pause.
    before: (u64, StepParts),
    known: Vec<Known>,
    /// The optimizer's update inside a hook of the optimizer, which `known` has: it is none of the
    /// hook's forward and backward passes.
    updates: Vec<Update>,
    looked_at: usize,
    /// The address of the loop's table: with two loops at once only the first one's steps are known.
    table: Option<usize>,
}

/// What a loop says.
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
            // Those of a validation.
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
                    // What is before a pause is hardly anything.
                    started: began,
                    elapsed,
                    parts: all,
                    slowest: None,
                });
                self.over += 1;
            }
        }
    }

    /// The first step begins with the first action of which is known what it is for: what is before it
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
            // What is inside of its own kind is counted there; all that fetching a batch takes is that.
            if around != Some(part) && around != Some(StepPart::Data) {
                let until = ActionTicks::default();
                self.known.push(Known { place, part, around, until });
            } else if part == StepPart::Optimizer && around == Some(part) {
                self.updates.push(Update { place, until: 0 });
            }
        }
        self.looked_at = places;
    }

    /// What the time since the last moment went into; no more than has `elapsed`.
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
            // Where gradients are accumulated the first forward is not inside of an optimizer's step,
            // but others are.
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

    /// In seconds since the beginning of the stage.
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
    /// Observes what [`observe`](Self::observe) does, regions of devices, and steps. *Cost* of a
    /// step: some
    /// 0.1 µs, and as much for each 20 actions that tell a phase; nothing for scopes.
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

    /// Passes a boundary between steps on the calling thread.
    fn pass(&self, boundary: Boundary) {
        // Without a table nothing was recorded, and there is no step to speak of.
        let Some(attached) = self.attach_known() else { return };
        let now = self.clock.ticks();
        if let Some(running) = self.sessions().running.last_mut() {
            running.steps.pass(boundary, now, &attached.table);
        }
    }
}
