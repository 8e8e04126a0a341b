//! Writes converted files and chooses their paths.

use std::io::{self, BufWriter, ErrorKind, Write};
use std::path::{Path, PathBuf};

use mlprof_events::Stage;
use mlprof_events::files::StandardStream;
use mlprof_report::output::{safe_file_name, say, write_file};
use serde::Serialize;

use super::{Arguments, Error, Format, plain_stem};

/// Part of a file name that distinguishes outputs converted from the same input file.
#[derive(Debug, Clone, Default)]
pub(super) struct Stem {
    parts: Vec<String>,
}

impl Stem {
    pub(super) fn of_stage(stage: Option<Stage>) -> Self {
        Self { parts: stage.map(|stage| stage.as_str().to_owned()).into_iter().collect() }
    }

    pub(super) fn of_action(mut self, action: &str) -> Self {
        self.parts.push(action.to_owned());
        self
    }
}

/// Function that writes the content of a file.
type Writer = Box<dyn FnOnce(&mut dyn Write) -> io::Result<()>>;

/// Output file to write.
pub(super) struct Output {
    stem: Stem,
    write: Writer,
}

impl Output {
    pub(super) fn new(
        stem: Stem,
        write: impl FnOnce(&mut dyn Write) -> io::Result<()> + 'static,
    ) -> Self {
        Self { stem, write: Box::new(write) }
    }

    pub(super) fn json(stem: Stem, value: impl Serialize + 'static) -> Self {
        Self::new(stem, move |out| {
            serde_json::to_writer_pretty(&mut *out, &value)?;
            out.write_all(b"\n")
        })
    }
}

/// Writes all outputs and prints the paths of the files to standard error.
pub(super) fn write(outputs: Vec<Output>, arguments: &Arguments) -> Result<(), Error> {
    let standard_output = Path::new("-");
    let goes_there = match &arguments.output {
        Some(output) => output == standard_output,
        None => arguments.to == Format::Json,
    };
    if goes_there {
        return outputs_to_standard_output(outputs, arguments);
    }
    let paths = paths(&outputs, arguments)?;
    for (output, path) in outputs.into_iter().zip(&paths) {
        let written = write_file(path, |file| {
            let mut buffered = BufWriter::new(file);
            (output.write)(&mut buffered)?;
            buffered.flush()
        });
        written.map_err(|error| Error::Write { path: path.clone(), error })?;
        say(format_args!("written: {}", path.display()));
    }
    Ok(())
}

fn outputs_to_standard_output(outputs: Vec<Output>, arguments: &Arguments) -> Result<(), Error> {
    let count = outputs.len();
    // A sequence of JSON reports stays parseable on one stream. Other formats need one file each.
    if count > 1 && arguments.to != Format::Json {
        return Err(Error::SeveralFiles { count, path: "-".into() });
    }
    let mut out = BufWriter::with_capacity(1 << 16, StandardStream::Output);
    let mut written = outputs.into_iter().try_for_each(|output| (output.write)(&mut out));
    written = written.and_then(|()| out.flush());
    crate::report::ignore_closed_pipe(written)
}

/// Returns the path of each output.
fn paths(outputs: &[Output], arguments: &Arguments) -> Result<Vec<PathBuf>, Error> {
    let beside = arguments.file.parent().unwrap_or(Path::new("")).to_owned();
    let folder = match &arguments.output {
        None => beside,
        Some(file) if outputs.len() == 1 && !file.is_dir() => {
            differs(file, &arguments.file)?;
            return Ok(vec![file.clone()]);
        }
        Some(file) if file.is_file() => {
            return Err(Error::SeveralFiles { count: outputs.len(), path: file.clone() });
        }
        Some(folder) => folder.clone(),
    };
    let mut paths: Vec<PathBuf> = Vec::new();
    for output in outputs {
        let first = plain_stem(&arguments.file);
        let stem: Vec<_> = [first.as_str()]
            .into_iter()
            .chain(output.stem.parts.iter().map(String::as_str))
            .collect();
        let stem = stem.join("-");
        // Two stems may become equal when unsupported characters are replaced, so a number makes
        // the path unique.
        let path = (1..)
            .map(|copy| match copy {
                1 => safe_file_name(&stem, arguments.to.ending()),
                copy => safe_file_name(&stem, &format!("{copy}.{}", arguments.to.ending())),
            })
            .map(|name| folder.join(name))
            .find(|path| !paths.contains(path));
        let Some(path) = path else { continue };
        differs(&path, &arguments.file)?;
        paths.push(path);
    }
    Ok(paths)
}

fn differs(output: &Path, input: &Path) -> Result<(), Error> {
    let same = match (output.canonicalize(), input.canonicalize()) {
        (Ok(output), Ok(input)) => output == input,
        (Err(error), _) | (_, Err(error)) => error.kind() != ErrorKind::NotFound && output == input,
    };
    if same { Err(Error::SameFile { path: output.to_owned() }) } else { Ok(()) }
}
