//! The file of the record: written at the end of each recorded step, so that a run that is killed leaves what it had.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

use super::settings::Settings;
use crate::Output;
use crate::report::numerics::{RECORD_VERSION, RecordHeader, RecordedTensor};
use profiler_events::clock::Rate;

/// Where the stage's record goes.
pub(super) struct RecordFile {
    /// `None` once it could not be written.
    file: Option<File>,
    pub(super) path: PathBuf,
}

impl RecordFile {
    /// A new file with its header, of a stage that began at `started`, in ticks, and whose first recorded step has these tensors; `None`
    /// where there is no directory for it.
    pub(super) fn create(
        output: &Output,
        settings: &Settings,
        started: u64,
        first: &[RecordedTensor],
    ) -> Option<(Self, io::Result<()>)> {
        let run = output.run();
        let path = output.part_path(output.stage(), &run, "numerics.jsonl")?;
        let header = RecordHeader {
            numerics_version: RECORD_VERSION,
            stage: output.stage(),
            rank: run.rank,
            program: crate::trace::internals::program_name(),
            frameworks: profiler_events::frameworks(),
            started_at: Rate::now().wall_time(started),
            seed: settings.seed.or(run.seed),
            element_types: element_types(first),
            machine: crate::machine::of_process(),
            settings: settings.told(),
        };
        Some(match create(&path, &header) {
            Ok(file) => (Self { file: Some(file), path }, Ok(())),
            Err(error) => (Self { file: None, path }, Err(error)),
        })
    }

    /// Adds the tensors of a step, at most so many bytes of them, and says how many there was no room for. After an error nothing more is
    /// written.
    pub(super) fn write(
        &mut self,
        tensors: &[RecordedTensor],
        most_bytes: usize,
    ) -> io::Result<u64> {
        let Some(file) = &mut self.file else { return Ok(0) };
        let written = lines(tensors, most_bytes).and_then(|(lines, dropped)| {
            // In one piece: what is killed meanwhile has all of a step, or a last line that is cut off.
            file.write_all(lines.as_bytes())?;
            Ok(dropped)
        });
        if written.is_err() {
            self.file = None;
        }
        written
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

fn create(path: &Path, header: &RecordHeader) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = File::create(path)?;
    file.write_all(header.to_line()?.as_bytes())?;
    Ok(file)
}
