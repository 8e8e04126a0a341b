//! Which framework a report is from, so that advice can be given in its words.

/// What a program trains with, as far as its report tells.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Framework {
    /// burn's own training loop.
    Burn,
    /// This project's trainer, which candle and tch have.
    Trainer,
    /// tch, by its ops.
    Tch,
    /// Nothing tells.
    Unknown,
}

impl Framework {
    /// By what hooks have said, or else by the names of a report's actions and ops.
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
