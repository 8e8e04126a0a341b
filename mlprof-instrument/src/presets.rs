//! The rule files that come with `mlprof`, and those of users.

use std::path::{Path, PathBuf};

use mlprof_events::files;

use super::error::SelectError;
use super::rules::RuleFile;

/// A rule file that comes with `mlprof`.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// What it is asked for by.
    pub name: &'static str,
    text: &'static str,
}

/// The rule files that come with `mlprof`, by name.
pub const PRESETS: [Preset; 3] = [
    Preset { name: "candle", text: include_str!("../rules/candle.toml") },
    Preset { name: "burn-flex", text: include_str!("../rules/burn-flex.toml") },
    Preset { name: "burn-autodiff", text: include_str!("../rules/burn-autodiff.toml") },
];

impl Preset {
    /// Its text: what to begin with when writing one for another framework.
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Its rules.
    ///
    /// # Errors
    ///
    /// Never, as a test sees to; a mistake in it is reported rather than hidden.
    pub fn rules(&self) -> Result<RuleFile, SelectError> {
        RuleFile::parse(self.text).map_err(|reason| SelectError::Rules {
            path: PathBuf::from(format!("rules/{}.toml", self.name)),
            reason,
        })
    }
}

/// The preset of this name.
pub(super) fn preset(name: &str) -> Result<RuleFile, SelectError> {
    let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
        let known = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(SelectError::UnknownPreset { name: name.to_owned(), known });
    };
    preset.rules()
}

/// A user's rule file.
pub(super) fn read(path: &Path) -> Result<RuleFile, SelectError> {
    let text = files::open_input(path)
        .and_then(std::io::read_to_string)
        .map_err(|reason| SelectError::Unreadable { path: path.to_owned(), reason })?;
    RuleFile::parse(&text).map_err(|reason| SelectError::Rules { path: path.to_owned(), reason })
}
