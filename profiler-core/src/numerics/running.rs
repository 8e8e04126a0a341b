//! What is known of the stage that runs.

use std::collections::HashMap;
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::record::RecordFile;
use super::reduced::Awaited;
use crate::output::say;
use crate::report::ReportHeader;
use crate::report::numerics::{NumericsReport, RecordedTensor, TensorRow, troubles};
use crate::{Output, Stage};
use profiler_events::clock::Clock;
use profiler_events::{Stages, TensorRole};

/// So many tensors of a step are kept until it ends.
const MOST_OF_A_STEP: usize = 100_000;
/// So many places have a row.
const MOST_ROWS: usize = 20_000;

#[derive(Default)]
pub(super) struct Running {
    pub(super) stages: Stages<Stage>,
    pub(super) pauses: usize,
    pub(super) clock: Clock,
    pub(super) started: u64,
    pub(super) ended: Option<u64>,
    pub(super) step: u64,
    pub(super) recorded_steps: u64,
    /// Whatever the schedule says.
    pub(super) is_recorded_next: bool,
    /// How often each place was seen in this step.
    pub(super) calls: HashMap<(TensorRole, String), u64>,
    /// The parameters before the optimizer's step.
    pub(super) before_step: HashMap<String, Vec<f64>>,
    /// Of this step, what devices are working on.
    pub(super) awaited: Vec<Awaited>,
    /// Of this step, to be written when it ends.
    pub(super) pending: Vec<RecordedTensor>,
    pub(super) dropped: u64,
    pub(super) unread: u64,
    pub(super) first_not_finite: Option<RecordedTensor>,
    pub(super) not_finite: u64,
    rows: Vec<TensorRow>,
    places: FxHashMap<(TensorRole, String), usize>,
    notes: Vec<String>,
    pub(super) file: Option<RecordFile>,
    pub(super) files: Vec<PathBuf>,
}

impl Running {
    /// Whether what happens now belongs to no step of the stage.
    pub(super) fn is_paused(&self) -> bool {
        self.pauses > 0 || self.stages.len() > 1
    }

    pub(super) fn begin(&mut self, stage: Stage) {
        self.stages.begin(stage);
        if self.stages.len() == 1 {
            let stages = std::mem::take(&mut self.stages);
            let started = self.clock.now();
            *self = Self { stages, started, ..Self::default() };
        }
    }

    pub(super) fn end(&mut self, stage: Option<Stage>) {
        if self.stages.end(stage).is_some() && self.stages.is_empty() {
            self.ended = Some(self.clock.now());
            self.file = None;
        }
    }

    pub(super) fn note(&mut self, note: &str) {
        if !self.notes.iter().any(|known| known == note) {
            self.notes.push(note.to_owned());
        }
    }

    pub(super) fn has_rows(&self) -> bool {
        !self.pending.is_empty()
    }

    /// Which one of this place it is in the step.
    pub(super) fn call(&mut self, role: TensorRole, name: &str) -> u64 {
        let calls = self.calls.entry((role, name.to_owned())).or_default();
        *calls += 1;
        *calls - 1
    }

    /// Says which tensor was the first that is not finite, and has the next step recorded.
    pub(super) fn see_not_finite(&mut self, tensor: &RecordedTensor) {
        self.not_finite += 1;
        if self.first_not_finite.is_none() {
            self.is_recorded_next = true;
            say(format_args!("mlprof: {}", tensor.what_is_not_finite()));
            self.first_not_finite = Some(tensor.clone());
        }
    }

    /// Looks at a tensor that a device has reduced in this step.
    pub(super) fn see_reduced(&mut self, tensor: RecordedTensor, is_recorded: bool) {
        if !tensor.statistics.is_finite() {
            self.see_not_finite(&tensor);
        }
        if is_recorded {
            self.see(tensor);
        }
    }

    /// Keeps a tensor of a recorded step.
    pub(super) fn see(&mut self, tensor: RecordedTensor) {
        self.add_to_row(&tensor);
        if self.pending.len() < MOST_OF_A_STEP {
            self.pending.push(tensor);
        } else {
            self.dropped += 1;
        }
    }

    /// Writes what is pending of a step, if there is a directory for it.
    pub(super) fn write_record(&mut self, output: &Output) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        if self.file.is_none() {
            let Some((file, made)) = RecordFile::create(output, self.started) else {
                return self.note("no record was written: it needs a directory, set dirpath");
            };
            match made {
                Ok(()) => self.files.push(file.path.clone()),
                Err(error) => self.tell_of_missing(&file.path, &error, output),
            }
            self.file = Some(file);
        }
        let Some(file) = &mut self.file else { return };
        if let Err(error) = file.write(&pending) {
            let path = file.path.clone();
            self.tell_of_missing(&path, &error, output);
        }
    }

    fn tell_of_missing(&mut self, path: &Path, error: &io::Error, output: &Output) {
        output.warn_of_missing(path, error);
        self.note(&format!(
            "the record ends early: {} could not be written: {error}",
            path.display()
        ));
    }

    fn add_to_row(&mut self, tensor: &RecordedTensor) {
        let statistics = tensor.statistics;
        let key = (tensor.role, tensor.name.clone());
        if let Some(place) = self.places.get(&key) {
            let row = &mut self.rows[*place];
            row.tensors += 1;
            row.last = statistics;
            row.all = row.all.merged(&statistics);
            row.element_type.clone_from(&tensor.element_type);
            row.shape.clone_from(&tensor.shape);
        } else if self.rows.len() < MOST_ROWS {
            self.places.insert(key, self.rows.len());
            self.rows.push(TensorRow {
                role: tensor.role,
                name: tensor.name.clone(),
                element_type: tensor.element_type.clone(),
                shape: tensor.shape.clone(),
                tensors: 1,
                first: statistics,
                last: statistics,
                all: statistics,
            });
        } else {
            self.note("not all places have a row: there are more than 20,000");
        }
    }

    pub(super) fn notes(&self) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.unread > 0 {
            notes.push(format!(
                "{} tensors were not read: they are on a device that does not reduce them, or of a type that has no numbers",
                self.unread
            ));
        } else if self.rows.is_empty() && self.first_not_finite.is_none() {
            notes.push(
                "no tensor was seen: plugins tell of modules that are .profiled(…), and their optimizers for the trainer, or \
                 burn's own trainer, of losses, gradients and parameters"
                    .to_owned(),
            );
        }
        if self.dropped > 0 {
            notes.push(format!(
                "{} tensors are not in the record: steps had too many",
                self.dropped
            ));
        }
        notes
    }

    pub(super) fn report(&self, header: ReportHeader, is_watched: bool) -> NumericsReport {
        NumericsReport {
            header,
            steps: self.step,
            recorded_steps: self.recorded_steps,
            is_watched,
            first_not_finite: self.first_not_finite.clone(),
            not_finite: self.not_finite,
            troubles: troubles(&self.rows),
            tensors: self.rows.clone(),
            dropped: self.dropped,
            files: self.files.iter().map(|path| path.display().to_string()).collect(),
        }
    }
}
