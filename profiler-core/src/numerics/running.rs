//! State of the current stage.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::order::StepOrder;
use super::record::RecordFile;
use super::reduced::Awaited;
use super::settings::Settings;
use crate::report::ReportHeader;
use crate::report::internals::ops_remedy;
use crate::report::numerics::{
    NumericsReport, NumericsReportParts, RecordedTensor, Rerun, TensorRow, TensorRowParts, troubles,
};
use crate::{Output, Stage};
use mlprof_events::clock::Clock;
use mlprof_events::{Stages, TensorRole};

/// Maximum number of table rows, one per role and name.
const MOST_ROWS: usize = 20_000;
/// Maximum number of bytes for copies of parameters, which are kept until the optimizer's step has
/// changed them.
const MOST_COPIED: u64 = 1 << 30;

/// A non-finite gradient. An optimizer reports all gradients at once, in alphabetical or field
/// order. The first one in computation order is known only after all of them have been reported.
pub(super) struct Candidate {
    pub(super) tensor: RecordedTensor,
    /// Position of its module in the forward pass. The module with the largest position comes first
    /// in the backward pass.
    pub(super) position: Option<u64>,
}

#[derive(Default)]
pub(super) struct Running {
    pub(super) stages: Stages<Stage>,
    pub(super) pauses: usize,
    pub(super) clock: Clock,
    pub(super) started: u64,
    pub(super) ended: Option<u64>,
    pub(super) step: u64,
    pub(super) recorded_steps: u64,
    /// Set after a non-finite tensor: the next step is recorded with ops, whatever the schedule.
    pub(super) is_recorded_next: bool,
    /// Set while the current step is such an additional recording.
    pub(super) is_closer_look: bool,
    /// Number of tensors in this step by role and name.
    pub(super) calls: HashMap<(TensorRole, String), u64>,
    /// Values of the parameters before the optimizer's step.
    pub(super) before_step: HashMap<String, Vec<f64>>,
    /// Size of these copies in bytes.
    copied: u64,
    /// Parameters without a copy because the size limit was reached.
    not_copied: HashSet<String>,
    /// Rerun of a batch in search of its first non-finite tensor.
    pub(super) rerun: Option<Rerun>,
    /// Set while the rerun is in progress.
    pub(super) is_rerun: bool,
    /// Pending device reductions of this step.
    pub(super) awaited: Vec<Awaited>,
    /// Tensors of this step that are written at its end.
    pub(super) pending: Vec<RecordedTensor>,
    pub(super) dropped: u64,
    pub(super) unread: u64,
    pub(super) first_not_finite: Option<RecordedTensor>,
    /// First op with non-finite output, if `first_not_finite` is not of an op.
    pub(super) first_op_not_finite: Option<RecordedTensor>,
    pub(super) not_finite: u64,
    /// Execution order and observations of the current step.
    pub(super) order: StepOrder,
    /// First non-finite gradient so far. A gradient that was computed earlier may still replace it.
    pub(super) candidate: Option<Candidate>,
    rows: Vec<TensorRow>,
    places: FxHashMap<(TensorRole, String), usize>,
    notes: Vec<String>,
    pub(super) file: Option<RecordFile>,
    pub(super) files: Vec<PathBuf>,
}

impl Running {
    /// Begins the recording outside of stages, in which a hand-written loop may stay.
    pub(super) fn new() -> Self {
        let clock = Clock::default();
        Self { started: clock.now(), clock, ..Self::default() }
    }

    /// Returns `true` if current events do not belong to a step of the stage.
    pub(super) fn is_paused(&self) -> bool {
        self.pauses > 0 || self.stages.len() > 1
    }

    pub(super) fn begin(&mut self, stage: Stage) {
        self.stages.begin(stage);
        if self.stages.len() == 1 {
            let stages = std::mem::take(&mut self.stages);
            *self = Self { stages, ..Self::new() };
        }
    }

    pub(super) fn end(&mut self, stage: Option<Stage>) {
        if self.stages.end(stage).is_some() && self.stages.is_empty() {
            self.ended = Some(self.clock.now());
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

    /// Returns the index of a tensor among those with the same role and name in this step, and
    /// counts it.
    pub(super) fn call(&mut self, role: TensorRole, name: &str) -> u64 {
        let calls = self.calls.entry((role, name.to_owned())).or_default();
        *calls += 1;
        *calls - 1
    }

    /// Returns `true` if there is room for a copy of a parameter with `numbers` values, and
    /// reserves it.
    pub(super) fn keeps_copy(&mut self, name: &str, numbers: u64) -> bool {
        let bytes = numbers.saturating_mul(8);
        if self.copied.saturating_add(bytes) > MOST_COPIED {
            self.not_copied.insert(name.to_owned());
            return false;
        }
        self.copied += bytes;
        true
    }

    /// Returns `true` if this parameter has no copy, so that its update cannot be computed.
    pub(super) fn lacks_copy(&self, name: &str) -> bool {
        self.not_copied.contains(name)
    }

    /// Clears the state of a single step.
    pub(super) fn end_step(&mut self) {
        self.calls.clear();
        self.before_step.clear();
        self.copied = 0;
        self.order.begin_pass();
    }

    /// Adds a tensor of a recorded step.
    pub(super) fn see(&mut self, tensor: RecordedTensor, settings: &Settings) {
        self.add_to_row(&tensor);
        if let Some(rerun) = self.rerun.as_mut().filter(|_| self.is_rerun) {
            rerun.tensors += 1;
        }
        if self.pending.len() < settings.most_tensors {
            self.pending.push(tensor);
        } else {
            self.dropped += 1;
        }
    }

    /// Writes the pending tensors of a step, if a directory is set.
    pub(super) fn write_record(&mut self, output: &Output, settings: &Settings) {
        let pending = std::mem::take(&mut self.pending);
        if pending.is_empty() {
            return;
        }
        let is_new = self.file.is_none();
        if is_new {
            self.file = RecordFile::new(output, settings, self.started, &pending);
        }
        let Some(file) = &mut self.file else {
            return self.note("no record was written, because it needs a directory: set dirpath");
        };
        let path = file.path.clone();
        match file.write(&pending, settings.most_bytes) {
            Ok(dropped) => {
                self.dropped += dropped;
                if is_new {
                    self.files.push(path);
                }
            }
            Err(error) => self.tell_of_missing(&path, &error, output),
        }
    }

    /// Flushes the record of a finished stage to the disk. A lack of disk space may only be
    /// reported at this point.
    pub(super) fn sync_record(&mut self, output: &Output) {
        if let Some(file) = &self.file
            && let Err(error) = file.sync()
        {
            let path = file.path.clone();
            self.tell_of_missing(&path, &error, output);
        }
    }

    fn tell_of_missing(&mut self, path: &Path, error: &io::Error, output: &Output) {
        output.warn_of_missing(path, error);
        self.note(&format!("the record is incomplete: cannot write {}: {error}", path.display()));
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
            self.rows.push(
                TensorRowParts {
                    role: tensor.role,
                    name: tensor.name.clone(),
                    element_type: tensor.element_type.clone(),
                    shape: tensor.shape.clone(),
                    tensors: 1,
                    first: statistics,
                    last: statistics,
                    all: statistics,
                }
                .build(),
            );
        } else {
            self.note("some tensors have no row, because there are more than 20,000 rows");
        }
    }

    pub(super) fn notes(
        &self,
        settings: &Settings,
        sees_ops: bool,
        stage: Option<Stage>,
    ) -> Vec<String> {
        let mut notes = self.notes.clone();
        if self.unread > 0 {
            notes.push(format!(
                "{} tensors were not read: their device does not reduce them, or their type has no \
                 numbers",
                self.unread
            ));
        } else if self.rows.is_empty() && self.first_not_finite.is_none() {
            notes.push(
                "no tensor was observed: wrap modules with .profile_layer(…) for outputs, and use \
                 a plugin's optimizer with the trainer, or burn's own trainer, for losses, \
                 gradients and parameters"
                    .to_owned(),
            );
        }
        let is_outside_of_stages = self.stages.is_empty() && self.ended.is_none();
        if is_outside_of_stages && self.step == 0 && self.rows.iter().any(|row| row.tensors > 1) {
            notes.push(
                "no steps were reported, so all tensors count as those of step 0: call \
                 `profiler.step()` after each batch"
                    .to_owned(),
            );
        }
        let has = |role| self.rows.iter().any(|row| row.role == role);
        let trains = stage.is_none_or(|stage| stage == Stage::Fit) && self.step > 0;
        if trains && has(TensorRole::Loss) && !has(TensorRole::Gradient) {
            notes.push(
                "no gradient was observed: use a trainer, or give the optimizer's variables to a \
                 plugin (candle: `ProfiledOptimizer::<AdamW>::new(vars, config)`)"
                    .to_owned(),
            );
        }
        if settings.looks_at_ops && !sees_ops && self.step > 0 {
            let remedy = ops_remedy(&mlprof_events::frameworks(), " --numerics");
            notes.push(format!("no output of an op was observed: {remedy}"));
        } else if !sees_ops && self.first_not_finite.is_some() && self.first_op_not_finite.is_none()
        {
            notes.extend(
                op_remedy().map(|remedy| {
                    format!("the op that created NaN or infinity is unknown: {remedy}")
                }),
            );
        }
        if self.dropped > 0 {
            notes.push(format!(
                "{} tensors are not in the record: a step has at most {} tensors and {} bytes \
                 (most_per_step)",
                self.dropped, settings.most_tensors, settings.most_bytes
            ));
        }
        if !self.not_copied.is_empty() {
            notes.push(format!(
                "the changes of {} parameters are unknown: copies of all of them would take more \
                 than {MOST_COPIED} bytes",
                self.not_copied.len()
            ));
        }
        notes
    }

    pub(super) fn report(&self, header: ReportHeader, is_watched: bool) -> NumericsReport {
        NumericsReportParts {
            header,
            steps: self.step,
            recorded_steps: self.recorded_steps,
            is_watched,
            first_not_finite: self.first_not_finite.clone(),
            first_op_not_finite: self.first_op_not_finite.clone().map(Box::new),
            not_finite: self.not_finite,
            rerun: self.rerun.clone().map(Box::new),
            troubles: troubles(&self.rows),
            tensors: self.rows.clone(),
            dropped: self.dropped,
            files: self.files.iter().map(|path| path.display().to_string()).collect(),
            findings: Vec::new(),
        }
        .build()
    }
}

/// Returns advice for recording ops, unless a hook already reports them.
pub(super) fn op_remedy() -> Option<String> {
    let reports_ops = !crate::instrumentation::sources_of_ops().is_empty();
    (!reports_ops).then(|| ops_remedy(&mlprof_events::frameworks(), " --numerics"))
}
