//! The file of the record: written at the end of each recorded step, so that a run that is killed leaves what it had.

use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

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
    /// A new file with its header, of a stage that began at `started`, in ticks; `None` where there is no directory for it.
    pub(super) fn create(output: &Output, started: u64) -> Option<(Self, io::Result<()>)> {
        let run = output.run();
        let path = output.part_path(output.stage(), &run, "numerics.jsonl")?;
        let header = RecordHeader {
            numerics_version: RECORD_VERSION,
            stage: output.stage(),
            rank: run.rank,
            program: crate::trace::internals::program_name(),
            frameworks: profiler_events::frameworks(),
            started_at: Rate::now().wall_time(started),
        };
        Some(match create(&path, &header) {
            Ok(file) => (Self { file: Some(file), path }, Ok(())),
            Err(error) => (Self { file: None, path }, Err(error)),
        })
    }

    /// Adds the tensors of a step. After an error nothing more is written.
    pub(super) fn write(&mut self, tensors: &[RecordedTensor]) -> io::Result<()> {
        let Some(file) = &mut self.file else { return Ok(()) };
        let lines: Result<String, _> = tensors.iter().map(RecordedTensor::to_line).collect();
        let written = lines.map_err(io::Error::from).and_then(|it| file.write_all(it.as_bytes()));
        if written.is_err() {
            self.file = None;
        }
        written
    }
}

fn create(path: &Path, header: &RecordHeader) -> io::Result<File> {
    if let Some(folder) = path.parent() {
        std::fs::create_dir_all(folder)?;
    }
    let mut file = File::create(path)?;
    file.write_all(header.to_line()?.as_bytes())?;
    Ok(file)
}
