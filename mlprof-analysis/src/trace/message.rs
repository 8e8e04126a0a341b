//! Messages of collectives.

use serde::{Deserialize, Serialize};

/// What a collective moves, as PyTorch writes it beside `record_param_comms` and its kernels.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Default, Serialize, Deserialize)]
pub struct Message {
    /// The collective, as the trace calls it: `allreduce`, `_allgather_base`, …
    pub collective: String,
    /// The type of its elements, as the trace calls it: `BFloat16`, …
    pub dtype: String,
    /// Elements that the rank gives.
    pub in_elements: u64,
    /// Elements that the rank gets.
    pub out_elements: u64,
    /// Ranks in the group; 0 if the trace does not have it.
    pub group_size: u64,
    /// The group's name; empty if the trace does not have it.
    pub group: String,
    /// The ranks in the group, as the trace lists them; empty if it does not.
    pub ranks: String,
}

impl Message {
    /// The text that [`Details::message`](super::Details::message) stands for.
    pub fn json(&self) -> String {
        // A struct of texts and numbers always has a JSON.
        serde_json::to_string(self).unwrap_or_default()
    }

    /// The message of such a text.
    pub fn of(json: &str) -> Option<Self> {
        serde_json::from_str(json).ok()
    }
}
