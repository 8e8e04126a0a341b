//! Record file. It is written at the end of each recorded step, so that it survives a killed run.

use std::io;
use std::path::PathBuf;

use super::settings::Settings;
use crate::Output;
use crate::report::numerics::{RECORD_VERSION, RecordHeader, RecordedTensor};
use mlprof_events::clock::Rate;
use mlprof_events::files::GrowingFile;
use mlprof_events::forking::this_process;

/// Record file of a stage.
pub(super) struct RecordFile {
    state: State,
    pub(super) path: PathBuf,
    /// Process that owns the record.
    process: u64,
}

enum State {
    /// The file is not written yet. The record of an earlier run is kept until this one has its
    /// first step.
    New(Box<RecordHeader>),
    Growing(GrowingFile),
    /// Writing has failed and is not tried again.
    Failed,
}

impl RecordFile {
    /// Creates the record of a stage. `started` is its start in clock ticks, and `first` are the
    /// tensors of its first recorded step. Returns `None` if no directory is set.
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

    /// Appends the tensors of a step, up to `most_bytes`. Returns the number of tensors that were
    /// dropped. After an error, nothing more is written.
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
        // A forked child shares its parent's open file, but the record belongs to the parent.
        if self.process != this_process() {
            return Ok(0);
        }
        // The step is written in one piece. If the process is killed meanwhile, the file ends with
        // a complete step or a truncated last line.
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

    /// Flushes the file to the disk.
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
