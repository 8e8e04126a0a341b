//! Messages of collectives.

use serde::{Deserialize, Serialize};

/// Message of a collective, as PyTorch records it for `record_param_comms` and its kernels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Message {
    /// Name of the collective in the trace: `allreduce`, `_allgather_base`, …
    pub collective: String,
    /// Element type in the trace: `BFloat16`, …
    pub dtype: String,
    /// Number of elements that the rank sends.
    pub in_elements: u64,
    /// Number of elements that the rank receives.
    pub out_elements: u64,
    /// Number of ranks in the group. 0 if the trace does not contain it.
    pub group_size: u64,
    /// Name of the process group. Empty if the trace does not contain it.
    pub group: String,
    /// Ranks of the group as listed in the trace. Empty if the trace does not contain them.
    pub ranks: String,
}

impl Message {
    /// Returns the JSON text stored in [`Details::message`](super::Details::message).
    pub fn json(&self) -> String {
        // Serialising a struct of texts and numbers cannot fail.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// Parses a message from its JSON text.
    pub fn of(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}
