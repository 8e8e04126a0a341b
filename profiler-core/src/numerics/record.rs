//! The file of the record: written at the end of each recorded step, so that a run that is killed leaves what it had.

use std::io;
use std::path::PathBuf;

use super::settings::Settings;
use crate::Output;
use crate::report::numerics::{RECORD_VERSION, RecordHeader, RecordedTensor};
use mlprof_events::clock::Rate;
use mlprof_events::files::GrowingFile;
use mlprof_events::forking::this_process;

/// Where the stage's record goes.
pub(super) struct RecordFile {
    state: State,
    pub(super) path: PathBuf,
    /// The process that the record belongs to.
    process: u64,
}

enum State {
    /// Nothing is written yet: an earlier run's record stays until this one has its first step.
    New(Box<RecordHeader>),
    Growing(GrowingFile),
    /// It could not be written, and is not tried again.
    Failed,
}

impl RecordFile {
    /// The record of a stage that began at `started`, in ticks, and whose first recorded step has
    /// these tensors; `None` where there is no directory for it.
    pub(super) fn new(
        output: &Output,
        settings: &Settings,
        started: u64,
        first: &[RecordedTensor],
    ) -> Option<Self> {
        let run = output.run();
        let path = output.part_path(output.stage(), &run, "numerics.jsonl")?;
        let header = RecordHeader {
            numerics_version: RECORD_VERSION,
            stage: output.stage(),
            rank: run.rank,
            program: mlprof_events::program_name(),
            frameworks: mlprof_events::frameworks(),
            started_at: Rate::now().wall_time(started),
            seed: settings.seed.or(run.seed),
            element_types: element_types(first),
            machine: crate::machine::of_process(),
            settings: settings.told(),
        };
        Some(Self { state: State::New(Box::new(header)), path, process: this_process() })
    }

    /// Adds the tensors of a step, at most so many bytes of them, and says how many there was no room for. After an error nothing more is
    /// written.
    pub(super) fn write(
        &mut self,
        tensors: &[RecordedTensor],
        most_bytes: usize,
    ) -> io::Result<u64> {
        let written = self.try_write(tensors, most_bytes);
        if written.is_err() {
            self.state = State::Failed;
        }
        written
    }

    fn try_write(&mut self, tensors: &[RecordedTensor], most_bytes: usize) -> io::Result<u64> {
        // A forked child has its parent's file open, whose record is the parent's alone.
        if self.process != this_process() {
            return Ok(0);
        }
        // In one piece: what is killed meanwhile has all of a step, or a last line that is cut off.
        match &mut self.state {
            State::New(header) => {
                let (lines, dropped) = lines(tensors, most_bytes)?;
                let first = header.to_line()? + &lines;
                self.state = State::Growing(GrowingFile::create(&self.path, first.as_bytes())?);
                Ok(dropped)
            }
            State::Growing(file) => {
                let (lines, dropped) = lines(tensors, most_bytes)?;
                file.append(lines.as_bytes())?;
                Ok(dropped)
            }
            State::Failed => Ok(0),
        }
    }

    /// Flushes it to the disk.
    pub(super) fn sync(&self) -> io::Result<()> {
        match &self.state {
            State::Growing(file) => file.sync(),
            State::New(_) | State::Failed => Ok(()),
        }
    }
}

fn lines(tensors: &[RecordedTensor], most_bytes: usize) -> io::Result<(String, u64)> {
    let mut lines = String::new();
    for (number, tensor) in tensors.iter().enumerate() {
        let line = tensor.to_line()?;
        if lines.len() + line.len() > most_bytes {
            return Ok((lines, (tensors.len() - number) as u64));
        }
        lines += &line;
    }
    Ok((lines, 0))
}

fn element_types(tensors: &[RecordedTensor]) -> Vec<String> {
    let mut types: Vec<String> = Vec::new();
    for tensor in tensors {
        if !types.contains(&tensor.element_type) {
            types.push(tensor.element_type.clone());
        }
    }
    types
}
