//! Table of accelerators and their peaks.

use std::collections::HashMap;
use std::path::{Path, PathBuf};

use mlprof_events::files;
use serde::Deserialize;

/// Built-in table.
const BUILT_IN: &str = include_str!("devices.toml");

/// Error in a user's table.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {path}", path = .path.display())]
    Read {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        #[source]
        error: std::io::Error,
    },
    /// The file is not a table of devices.
    #[error("cannot read the devices of {path}: {reason}", path = .path.display())]
    Parse {
        /// Path of the file.
        path: PathBuf,
        /// Reason.
        reason: String,
    },
}

/// An accelerator.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Device {
    /// Part of the device's name.
    pub(super) name: String,
    /// Bytes per second between the device and its memory.
    pub(super) bandwidth: f64,
    /// Floating-point operations per second by type: `f64`, `f32`, `tf32`, `f16`, `bf16`, `f8`.
    pub(super) flops: HashMap<String, f64>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Table {
    device: Vec<Device>,
}

/// Maximum size of a user's table.
const MOST_BYTES: u64 = 1 << 20;

/// Known accelerators, those of the user first.
pub(crate) struct Devices(Vec<Device>);

impl Devices {
    /// Reads the built-in table, and the user's file (TOML or JSON) if there is one.
    pub(crate) fn read(file: Option<&Path>) -> Result<Self, Error> {
        let mut devices = match file {
            Some(path) => {
                let text = files::read_text(path, MOST_BYTES)
                    .map_err(|error| Error::Read { path: path.to_owned(), error })?;
                let wrong = |reason: String| Error::Parse { path: path.to_owned(), reason };
                let is_json = path.extension().is_some_and(|extension| extension == "json");
                let table: Table = match is_json {
                    true => {
                        serde_json::from_str(&text).map_err(|error| wrong(error.to_string()))?
                    }
                    false => toml::from_str(&text).map_err(|error| wrong(error.to_string()))?,
                };
                table.device
            }
            None => Vec::new(),
        };
        let built_in: Result<Table, _> = toml::from_str(BUILT_IN);
        devices.extend(built_in.map(|table| table.device).unwrap_or_default());
        Ok(Self(devices))
    }

    /// Returns the first device whose name is part of `name`.
    pub(super) fn find(&self, name: &str) -> Option<&Device> {
        let name = name.to_ascii_lowercase();
        self.0.iter().find(|device| name.contains(&device.name.to_ascii_lowercase()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn devices_are_found_by_a_part_of_their_name() {
        let devices = Devices::read(None).expect("the built-in table");
        let bandwidth = |name: &str| devices.find(name).map(|device| device.bandwidth);
        assert_eq!(bandwidth("NVIDIA H100 80GB HBM3"), Some(3.35e12));
        assert_eq!(bandwidth("NVIDIA H100 PCIe"), Some(2.0e12));
        assert_eq!(bandwidth("AMD Instinct MI300X VF"), Some(5.3e12));
        assert_eq!(bandwidth("NVIDIA L40S"), Some(0.864e12));
        assert_eq!(bandwidth("llvmpipe"), None);
    }

    #[test]
    fn a_users_file_goes_first() {
        let folder = tempfile::tempdir().expect("a folder");
        let own = |name: &str, text: &str| {
            let path = folder.path().join(name);
            std::fs::write(&path, text).expect("a file");
            path
        };
        let toml = own(
            "a.toml",
            "[[device]]\nname = \"H100\"\nbandwidth = 1e12\nflops = { f32 = 2e12 }\n",
        );
        let json =
            own("a.json", r#"{"device":[{"name":"X1","bandwidth":3e12,"flops":{"f32":1e12}}]}"#);
        let read = |path: &Path| Devices::read(Some(path));
        let bandwidth = |devices: &Devices, name: &str| devices.find(name).map(|it| it.bandwidth);
        let devices = read(&toml).expect("TOML");
        assert_eq!(bandwidth(&devices, "NVIDIA H100 80GB HBM3"), Some(1e12));
        assert_eq!(bandwidth(&read(&json).expect("JSON"), "Maker X1"), Some(3e12));
        let wrong = own("b.toml", "[[device]]\nname = \"H100\"\nwatts = 1\n");
        assert!(read(&wrong).is_err_and(|error| error.to_string().contains("watts")));
        assert!(read(Path::new("missing.toml")).is_err());
    }
}
