//! Detection of a report's framework, which determines the wording of remedies.

/// Training framework of a program, as far as its report shows it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framework {
    /// burn with its own training loop.
    Burn,
    /// mlprof's trainer for candle and tch.
    Trainer,
    /// tch, detected by its ops.
    Tch,
    /// The framework is unknown.
    Unknown,
}

impl Framework {
    /// Returns the framework that hooks reported, or else detects it from the names of actions and
    /// ops.
    pub(super) fn of<'report>(
        known: &[mlprof_events::Framework],
        actions: impl Iterator<Item = &'report str> + Clone,
        mut ops: impl Iterator<Item = &'report str>,
    ) -> Self {
        if let [known] = known {
            match known.name.as_str() {
                "burn" => return Self::Burn,
                "tch" => return Self::Tch,
                _ => {}
            }
        }
        let has = |prefix: &str| actions.clone().any(|name| name.starts_with(prefix));
        if ops.any(|name| name.starts_with("aten::")) {
            Self::Tch
        } else if has("[TrainStep]") {
            Self::Burn
        } else if has("[LightningModule]") {
            Self::Trainer
        } else {
            Self::Unknown
        }
    }
}
