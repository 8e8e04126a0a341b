//! What is known of the stage that runs.

use std::collections::{HashMap, HashSet};
use std::io;
use std::path::{Path, PathBuf};

use rustc_hash::FxHashMap;

use super::location;
use super::record::RecordFile;
use super::reduced::Awaited;
use super::settings::Settings;
use crate::output::say;
use crate::report::ReportHeader;
use crate::report::numerics::{NumericsReport, RecordedTensor, Rerun, TensorRow, troubles};
use crate::{Output, Stage};
use profiler_events::clock::Clock;
use profiler_events::{Stages, TensorRole};

/// So many places have a row.
const MOST_ROWS: usize = 20_000;
/// So many bytes the parameters have that are kept until the optimizer's step has changed them.
const MOST_COPIED: u64 = 1 << 30;

#[derive(Default)]
pub(super) struct Running {
    pub(super) stages: Stages<Stage>,
    pub(super) pauses: usize,
    pub(super) clock: Clock,
    pub(super) started: u64,
    pub(super) ended: Option<u64>,
    pub(super) step: u64,
    pub(super) recorded_steps: u64,
    /// Something was not finite: the next step is recorded whatever the schedule says, with ops.
    pub(super) is_recorded_next: bool,
    /// The running step is that one.
    pub(super) is_closer_look: bool,
    /// How often each place was seen in this step.
    pub(super) calls: HashMap<(TensorRole, String), u64>,
    /// The parameters before the optimizer's step.
    pub(super) before_step: HashMap<String, Vec<f64>>,
    /// So many bytes those have.
    copied: u64,
    /// Parameters that there was no room for.
    not_copied: HashSet<String>,
    /// The same batch once more, in search of what was not finite in it.
    pub(super) rerun: Option<Rerun>,
    /// Whether that is running.
    pub(super) is_rerun: bool,
    /// Of this step, what devices are working on.
    pub(super) awaited: Vec<Awaited>,
    /// Of this step, to be written when it ends.
    pub(super) pending: Vec<RecordedTensor>,
    pub(super) dropped: u64,
    pub(super) unread: u64,
    pub(super) first_not_finite: Option<RecordedTensor>,
    /// Where the first one is none of an op.
    first_op_not_finite: Option<RecordedTensor>,
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

    /// Whether there is room to keep a parameter of so many numbers until it has changed.
    pub(super) fn keeps_copy(&mut self, name: &str, numbers: u64) -> bool {
        let bytes = numbers.saturating_mul(8);
        if self.copied.saturating_add(bytes) > MOST_COPIED {
            self.not_copied.insert(name.to_owned());
            return false;
        }
        self.copied += bytes;
        true
    }

    /// Whether what a step has changed of this parameter cannot be known.
    pub(super) fn lacks_copy(&self, name: &str) -> bool {
        self.not_copied.contains(name)
    }

    /// Forgets what is of one step only.
    pub(super) fn end_step(&mut self) {
        self.calls.clear();
        self.before_step.clear();
        self.copied = 0;
    }

    /// Says which tensor was the first that is not finite, and has the next step recorded, with ops. Whether it was. Of ops only
    /// those count that have made it so: what others are given may well be infinite.
    pub(super) fn see_not_finite(&mut self, tensor: &mut RecordedTensor) -> bool {
        let is_of_op = tensor.role.is_of_op();
        let makes_it = tensor.makes_not_finite();
        if tensor.statistics.is_finite() || (is_of_op && !makes_it) {
            return false;
        }
        if let Some(rerun) = self.rerun.as_mut().filter(|_| self.is_rerun) {
            if rerun.first_not_finite.is_none() {
                tensor.location = location::of_program();
                rerun.first_not_finite = Some(tensor.clone());
            }
            return false;
        }
        self.not_finite += 1;
        let is_first = match &self.first_not_finite {
            None => true,
            // It was given it, and this one is where it comes from, or something else began besides.
            Some(first) => makes_it && !first.makes_not_finite(),
        };
        let known_op = self.first_op_not_finite.iter().chain(&self.first_not_finite);
        let is_first_op = is_of_op && !known_op.into_iter().any(|known| known.role.is_of_op());
        if !is_first && !is_first_op {
            return false;
        }
        // Not before it is said, since it takes a while.
        tensor.location = location::of_program();
        say(format_args!("mlprof: {}", tensor.what_is_not_finite()));
        if is_first {
            self.is_recorded_next = true;
            self.first_not_finite = Some(tensor.clone());
        } else {
            self.first_op_not_finite = Some(tensor.clone());
        }
        is_first
    }

    /// The step is over; if it was recorded because something was not finite: what it says of ops.
    pub(super) fn end_closer_look(&mut self, sees_ops: bool) {
        let was_one = self.is_closer_look;
        self.is_closer_look = std::mem::take(&mut self.is_recorded_next);
        let known = self.first_op_not_finite.iter().chain(&self.first_not_finite);
        let is_known = known.into_iter().any(|known| known.role.is_of_op());
        if was_one && sees_ops && !is_known {
            let step = self.step;
            self.note(&format!(
                "no op is named: in step {step}, in which they were looked at, none made anything that is not finite of finite \
                 numbers. NumericsProfiler::ops(true) looks at ops in every step"
            ));
        }
    }

    /// The batch of this step is to be run again.
    pub(super) fn begin_rerun(&mut self) {
        self.calls.clear();
        self.is_rerun = true;
        let step = self.step;
        self.rerun = Some(Rerun { step, tensors: 0, first_not_finite: None, failure: None });
    }

    /// It was, or has failed.
    pub(super) fn end_rerun(&mut self, failure: Option<&str>) {
        self.is_rerun = false;
        self.calls.clear();
        let Some(rerun) = &mut self.rerun else { return };
        rerun.failure = failure.map(str::to_owned);
        let place = |of: &Option<RecordedTensor>| {
            of.as_ref().map(|tensor| (tensor.role, tensor.name.clone()))
        };
        if failure.is_some() || place(&rerun.first_not_finite) == place(&self.first_not_finite) {
            return;
        }
        match &rerun.first_not_finite {
            Some(first) => {
                say(format_args!("mlprof: run again, {}", first.what_is_not_finite()));
            }
            None => say(format_args!(
                "mlprof: run again, the batch of step {} was finite: what is random was different",
                rerun.step
            )),
        }
    }

    /// Looks at a tensor that a device has reduced in this step.
    pub(super) fn see_reduced(
        &mut self,
        mut tensor: RecordedTensor,
        is_recorded: bool,
        settings: &Settings,
    ) {
        self.see_not_finite(&mut tensor);
        if is_recorded {
            self.see(tensor, settings);
        }
    }

    /// Keeps a tensor of a recorded step.
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

    /// Writes what is pending of a step, if there is a directory for it.
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
            return self.note("no record was written: it needs a directory, set dirpath");
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

    /// Flushes the record of a stage that is over to the disk, where its end may turn out to have no room.
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

    pub(super) fn notes(&self, settings: &Settings, sees_ops: bool) -> Vec<String> {
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
        if settings.looks_at_ops && !sees_ops && self.step > 0 {
            notes.push(
                "no output of an op was looked at: tch tells of them, and candle and burn's flex device in a program that \
                 `mlprof run --ops … --numerics` has built"
                    .to_owned(),
            );
        }
        if self.dropped > 0 {
            notes.push(format!(
                "{} tensors are not in the record: of a step it has at most {} tensors and {} bytes (most_per_step)",
                self.dropped, settings.most_tensors, settings.most_bytes
            ));
        }
        if !self.not_copied.is_empty() {
            notes.push(format!(
                "how steps changed {} parameters is not known: copies of all of them would take more than {MOST_COPIED} bytes",
                self.not_copied.len()
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
            first_op_not_finite: self.first_op_not_finite.clone().map(Box::new),
            not_finite: self.not_finite,
            rerun: self.rerun.clone().map(Box::new),
            troubles: troubles(&self.rows),
            tensors: self.rows.clone(),
            dropped: self.dropped,
            files: self.files.iter().map(|path| path.display().to_string()).collect(),
            findings: Vec::new(),
        }
    }
}
