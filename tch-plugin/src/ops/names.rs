//! Maps op names to actions.

use mlprof_core::Action;

/// Name of the scope that autograd's engine opens around a node.
const ENGINE: &[u8] = b"autograd::engine::evaluate_function";

/// An op that was looked up by its name.
#[derive(Clone, Copy)]
pub(super) struct OpName {
    pub(super) action: Action,
    /// `true` for an autograd node, which is part of the backward pass.
    pub(super) is_node: bool,
    /// `true` for a convolution, whose operation count depends on its integer and boolean
    /// arguments.
    is_convolution: bool,
}

/// A packed op, as record.cpp stores it: field `op` of `MlprofTchName` in record.h.
#[derive(Clone, Copy)]
#[repr(transparent)]
pub(super) struct OpWord(u64);

const NODE: u64 = 1 << 32;
/// `MLPROF_TCH_CONVOLUTION` of record.h.
const CONVOLUTION: u64 = 1 << 33;

impl OpName {
    pub(super) fn word(self) -> OpWord {
        let flag = |is_set, flag| if is_set { flag } else { 0 };
        let flags = flag(self.is_node, NODE) | flag(self.is_convolution, CONVOLUTION);
        OpWord(u64::from(self.action.number()) | flags)
    }
}

impl OpWord {
    /// Returns the action, or `None` if the name could not be looked up.
    #[inline(always)]
    pub(super) fn action(self) -> Option<Action> {
        Action::from_number(self.0 as u32) // the lower half is the action
    }

    /// Returns `true` for an autograd node, which is part of the backward pass.
    #[inline(always)]
    pub(super) fn is_node(self) -> bool {
        self.0 & NODE != 0
    }
}

/// A per-thread cache from names to actions. It compares contents, because libtorch allocates the
/// names of autograd nodes anew each time. record.cpp caches names with fixed addresses itself.
pub(super) struct Names {
    /// Two-way cache: a name is at one of two positions given by its hash, and a new entry replaces
    /// an old one.
    slots: Vec<Option<(&'static str, OpName)>>,
}

const SLOTS: usize = 512;

impl Names {
    pub(super) const fn new() -> Self {
        Self { slots: Vec::new() }
    }

    pub(super) fn find(&mut self, name: &[u8]) -> OpName {
        let first = place(name);
        for place in [first, first ^ 1] {
            if let Some(Some((known, op))) = self.slots.get(place)
                && known.as_bytes() == name
            {
                return *op;
            }
        }
        self.look_up(first, name)
    }

    #[cold]
    #[inline(never)]
    fn look_up(&mut self, first: usize, name: &[u8]) -> OpName {
        self.slots.resize(SLOTS, None);
        let action = Action::op(&String::from_utf8_lossy(name));
        let is_node = name.starts_with(ENGINE);
        let op = OpName { action, is_node, is_convolution: action.name().contains("conv") };
        let is_free = |place: usize| self.slots[place].is_none();
        let place = if is_free(first) || !is_free(first ^ 1) { first } else { first ^ 1 };
        self.slots[place] = Some((action.name(), op));
        op
    }
}

/// Returns the position of a name, computed from its length and three groups of bytes. Node names
/// differ before the suffix `Backward0`, and most other names at both ends.
#[inline(always)]
fn place(name: &[u8]) -> usize {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let group = |from: usize| -> u64 {
        let letters = name.get(from..from + 8).and_then(|letters| letters.try_into().ok());
        letters.map_or(0, u64::from_le_bytes)
    };
    let length = name.len();
    let last = length.saturating_sub(8);
    let mut hash = length as u64;
    for from in [0, last, length.saturating_sub(16)] {
        hash = (hash.rotate_left(5) ^ group(from)).wrapping_mul(FACTOR);
    }
    if length < 8 {
        hash =
            name.iter().fold(hash, |hash, letter| (hash ^ u64::from(*letter)).wrapping_mul(FACTOR));
    }
    (hash >> 55) as usize
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_name_is_its_own_action_however_often_it_is_found() {
        let mut names = Names::new();
        let mut all: Vec<String> = (0..2000).map(|number| format!("aten::op{number}")).collect();
        all.extend(
            ["", "a", "ab", "aten::mm", "aten::mm_", "name of sixteen.", "äöü"].map(String::from),
        );
        for _ in 0..3 {
            for name in &all {
                let op = names.find(name.as_bytes());
                assert_eq!((op.action.name(), op.is_node), (name.as_str(), false));
                assert_eq!(names.find(name.as_bytes()).action, op.action);
            }
        }
        assert_eq!(names.find(b"\xffx").action.name(), "\u{fffd}x");
        assert!(names.find(b"autograd::engine::evaluate_function: AddmmBackward0").is_node);
    }

    #[test]
    fn a_word_says_what_is_known_of_a_name() {
        let mut names = Names::new();
        let all = [
            ("aten::thnn_conv2d", false, true),
            ("aten::convolution_backward", false, true),
            ("autograd::engine::evaluate_function: ConvolutionBackward0", true, false),
            ("aten::mm", false, false),
        ];
        for (name, is_node, is_convolution) in all {
            let word = names.find(name.as_bytes()).word();
            assert_eq!(word.action().map(Action::name), Some(name));
            assert_eq!((word.is_node(), word.0 & CONVOLUTION != 0), (is_node, is_convolution));
        }
        assert_eq!(OpWord(0).action(), None);
    }

    #[test]
    fn names_of_nodes_have_places_of_their_own() {
        let nodes =
            ["Addmm", "Mm", "Relu", "Gelu", "Softmax", "Convolution", "NativeLayerNorm", "T"];
        let mut places: Vec<_> =
            nodes.map(|node| place(format!("{node}Backward0").as_bytes())).to_vec();
        places.sort_unstable();
        places.dedup();
        assert!(places.len() >= nodes.len() - 1, "{places:?}");
    }
}
