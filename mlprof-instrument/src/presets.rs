//! Rule files that are included in `mlprof`, and those of users.

use std::path::{Path, PathBuf};

use mlprof_events::files;

use super::error::SelectError;
use super::rules::RuleFile;

/// Rule file that is included in `mlprof`.
#[derive(Debug, Clone, Copy)]
pub struct Preset {
    /// Name of the preset.
    pub name: &'static str,
    text: &'static str,
}

/// All included rule files.
pub const PRESETS: [Preset; 3] = [
    Preset { name: "candle", text: include_str!("../rules/candle.toml") },
    Preset { name: "burn-flex", text: include_str!("../rules/burn-flex.toml") },
    Preset { name: "burn-autodiff", text: include_str!("../rules/burn-autodiff.toml") },
];

impl Preset {
    /// Returns the text of the rule file, which is also a template for rules of another framework.
    pub const fn text(&self) -> &'static str {
        self.text
    }

    /// Parses the rules of the preset.
    ///
    /// # Errors
    ///
    /// Returns an error if the text is invalid. A test ensures that this does not happen.
    pub fn rules(&self) -> Result<RuleFile, SelectError> {
        RuleFile::parse(self.text).map_err(|reason| SelectError::Rules {
            path: PathBuf::from(format!("rules/{}.toml", self.name)),
            reason,
        })
    }
}

/// Returns the rules of the preset with this name.
pub(super) fn preset(name: &str) -> Result<RuleFile, SelectError> {
    let Some(preset) = PRESETS.iter().find(|preset| preset.name == name) else {
        let known = PRESETS.iter().map(|preset| preset.name).collect();
        return Err(SelectError::UnknownPreset { name: name.to_owned(), known });
    };
    preset.rules()
}

/// Reads a user's rule file.
pub(super) fn read(path: &Path) -> Result<RuleFile, SelectError> {
    let text = files::open_input(path)
        .and_then(std::io::read_to_string)
        .map_err(|reason| SelectError::Unreadable { path: path.to_owned(), reason })?;
    RuleFile::parse(&text).map_err(|reason| SelectError::Rules { path: path.to_owned(), reason })
}
