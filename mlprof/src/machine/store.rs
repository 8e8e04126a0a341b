//! Peaks kept in the user's cache folder, one file per processor.

use std::env;
use std::fs;
use std::path::{Path, PathBuf};

use mlprof_events::files;
use mlprof_report::output;

use super::peaks::Peaks;
use super::processor::Processor;

/// Maximum size of a kept file.
const MOST_BYTES: u64 = 1 << 20;

/// Returns the folder of kept files: `mlprof` in `XDG_CACHE_HOME`, or in the system's folder for
/// caches. `None` if the user has no such folder.
fn folder() -> Option<PathBuf> {
    let path = |name: &str| env::var_os(name).filter(|path| !path.is_empty()).map(PathBuf::from);
    let of_system = || {
        if cfg!(windows) {
            path("LOCALAPPDATA")
        } else if cfg!(target_os = "macos") {
            Some(path("HOME")?.join("Library/Caches"))
        } else {
            Some(path("HOME")?.join(".cache"))
        }
    };
    Some(path("XDG_CACHE_HOME").or_else(of_system)?.join("mlprof"))
}

/// Returns the file of a processor. Its name has the processor, its cores and its governor, because
/// several machines may share the folder.
pub(super) fn file(processor: &Processor) -> Option<PathBuf> {
    let cpu = processor.cpu.as_deref().unwrap_or("unknown");
    let governor = processor.governor.as_deref().unwrap_or("unknown");
    let name = format!("{} {cpu} {} {governor}", processor.system, processor.cores);
    let letters =
        name.chars().map(|letter| if letter.is_ascii_alphanumeric() { letter } else { '-' });
    Some(folder()?.join(format!("machine-{}.json", letters.collect::<String>().to_lowercase())))
}

/// Returns the kept peaks of a processor. A file of another version, or of another processor, is
/// ignored.
pub(super) fn read(processor: &Processor) -> Option<Peaks> {
    let peaks: Peaks =
        serde_json::from_slice(&files::read(&file(processor)?, MOST_BYTES).ok()?).ok()?;
    let is_same = peaks.schema_version == Peaks::SCHEMA_VERSION && peaks.processor == *processor;
    is_same.then_some(peaks)
}

/// Writes the peaks to a file.
pub(super) fn write(peaks: &Peaks, file: &Path) -> std::io::Result<()> {
    if let Some(folder) = file.parent() {
        fs::create_dir_all(folder)?;
    }
    let json = serde_json::to_string_pretty(peaks)?;
    output::write_file(file, |file| file.write_all(json.as_bytes()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_processor_has_its_own_file() {
        let processor = |cores, governor: Option<&str>| Processor {
            system: "linux x86_64".to_owned(),
            cpu: Some("AMD EPYC 9/10".to_owned()),
            cores,
            governor: governor.map(str::to_owned),
            last_cache_bytes: None,
        };
        let name = |processor: Processor| {
            let file = file(&processor)?;
            Some(file.file_name()?.to_str()?.to_owned())
        };
        // Without a home, nothing is kept.
        let Some(two) = name(processor(2, None)) else { return };
        assert_eq!(two, "machine-linux-x86-64-amd-epyc-9-10-2-unknown.json");
        assert_ne!(name(processor(2, Some("powersave"))), Some(two.clone()));
        assert_ne!(name(processor(4, None)), Some(two));
    }

    #[test]
    fn peaks_survive_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let file = folder.path().join("cache/mlprof/machine.json");
        let peaks = Peaks {
            schema_version: Peaks::SCHEMA_VERSION,
            processor: Processor::read(),
            kernel: "avx2".to_owned(),
            measured_in_seconds: 0.25,
            products: Vec::new(),
            bandwidth: Vec::new(),
            empty_call_seconds: 2e-8,
        };
        write(&peaks, &file).expect("a written file");
        let read: Peaks = serde_json::from_slice(&fs::read(&file).expect("a file")).expect("JSON");
        assert_eq!(read, peaks);
    }
}
