//! Shows the environment and checks that one kernel is recorded.

use super::Shared;
use crate::gpu::Kernel;
use crate::machine::loaded_library;
use crate::options::Options;
use crate::outcome::Row;
use crate::recording::{Plan, record};

/// Beginning of the note that explains why no CUDA data was recorded.
const NOTHING: &str = "no CUDA kernels and copies";

pub fn run(_: &Options, shared: &mut Shared) -> Result<Vec<Row>, String> {
    let gpu = shared.gpu()?;
    let recorded = record(Plan::default(), |_| {
        gpu.launch(Kernel::Empty, 1)?;
        gpu.wait()
    })?;
    let notes = &recorded.report.header.notes;
    let about_nothing: Vec<_> =
        notes.iter().filter(|note| note.starts_with(NOTHING)).map(String::as_str).collect();
    let kernels = recorded.recording.kernels;
    let measured = match about_nothing.as_slice() {
        [] => format!("{kernels} of 1 kernel collected"),
        words => words.join("; "),
    };
    let is_good = about_nothing.is_empty() && kernels == 1;
    Ok(vec![
        Row::info("environment: device", gpu.name()?),
        Row::info("environment: driver", driver(&gpu.cuda_version()?)),
        Row::info("environment: CUPTI", cupti()),
        Row::decided(
            "environment: a kernel",
            measured,
            "1, and no note about missing kernels",
            is_good,
        ),
    ])
}

/// Returns the driver version, which the kernel module provides in a file.
fn driver(cuda: &str) -> String {
    let text = std::fs::read_to_string("/proc/driver/nvidia/version").unwrap_or_default();
    let own = text.lines().next().and_then(|line| line.split("Kernel Module").nth(1));
    let own = own.and_then(|rest| rest.split_whitespace().find(|word| word.contains('.')));
    match own {
        Some(own) => format!("{own}, supports CUDA {cuda}"),
        None => format!("supports CUDA {cuda}"),
    }
}

/// Returns the CUPTI version, which is part of the library's file name after links are resolved.
fn cupti() -> String {
    let Some(path) = loaded_library("libcupti") else { return "not loaded".to_owned() };
    std::fs::canonicalize(&path).unwrap_or(path).display().to_string()
}
