//! What comes of splicing a crate.

use std::path::PathBuf;

use serde::{Deserialize, Serialize};

/// A crate with hooks in it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplicedCrate {
    /// The files whose text changed.
    pub files: Vec<SplicedFile>,
    /// The functions that have hooks.
    pub spliced: Vec<SplicedFunction>,
    /// The functions that were selected and have none.
    pub left_out: Vec<LeftOut>,
    /// Functions with hooks that may behave otherwise because of them, and how.
    pub cautions: Vec<LeftOut>,
    /// What makes functions that are in no file of the crate, and so have no hooks: macros of other
    /// crates, and files that are included. Each once, where it comes first.
    pub unseen: Vec<LeftOut>,
    /// The files that stay as they are because they could not be read.
    pub unread: Vec<Unread>,
    /// The paths of all functions with a body, selected or not, in the order in which they were
    /// read: what [`Pattern::matches_text`](super::Pattern::matches_text) and
    /// [`near_misses`](super::near_misses) take. Those of traits' implementations have
    /// `<Type as Trait>`; those made by macros are in it as far as their names are known.
    pub seen: Vec<String>,
    /// The files that were searched for functions.
    pub read: Vec<PathBuf>,
    /// The folders that the compiler goes through to the files that were read, sorted: also those that
    /// a `#[path = "../x.rs"]` leaves again.
    pub folders: Vec<PathBuf>,
}

/// A file with hooks in it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplicedFile {
    /// The original: the root file's path as it was given, others below its folder.
    pub path: PathBuf,
    /// The new text. Every line has the number that it had.
    pub text: String,
}

/// A function with a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct SplicedFunction {
    /// Where it is: `my_model::net::Net::forward`.
    pub path: String,
    /// What reports call it: an op's name such as `candle::matmul`, an action's, or the path.
    pub name: String,
    /// What its calls are recorded as.
    pub kind: HookKind,
    /// How it is written.
    pub function: FunctionKind,
    /// The file that it stands in.
    pub file: PathBuf,
    /// The line of its name; of a function that a macro makes, in the macro.
    pub line: u32,
}

/// What the calls of a function are recorded as.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum HookKind {
    /// A function.
    Function,
    /// An op.
    Op,
    /// An op of the backward pass; ops inside it belong to the backward pass, too.
    Backward,
    /// An action.
    Action,
    /// An action whose end is the end of a training step.
    Step,
    /// Each of its lines, by time.
    Lines,
    /// Each of its lines, by memory.
    Memory,
}

impl HookKind {
    /// The number that a spliced site carries; those of lines carry none.
    pub(crate) const fn code(self) -> u32 {
        match self {
            Self::Function | Self::Lines | Self::Memory => 0,
            Self::Op => 1,
            Self::Backward => 2,
            Self::Action => 3,
            Self::Step => 4,
        }
    }

    /// The number of an async function's polls after the first: they are no calls. Of an action each
    /// poll is one, as of all futures that are measured as actions; a step ends once.
    pub(crate) const fn code_of_later_polls(self) -> u32 {
        match self {
            Self::Function => 5,
            Self::Op => 7,
            Self::Backward => 8,
            Self::Step => Self::Action.code(),
            Self::Action | Self::Lines | Self::Memory => self.code(),
        }
    }

    /// The bits of `MLPROF_WANTED` that it waits for, any of them.
    pub(crate) const fn bits(self) -> u32 {
        match self {
            Self::Function | Self::Lines | Self::Memory => 2,
            Self::Op | Self::Backward => 4,
            Self::Action => 1,
            // Where nobody wants actions somebody may count steps: between those of a schedule, and who looks in.
            Self::Step => 1 | 1 << 10,
        }
    }

    /// Whether its lines are marked; the same marks serve time and memory.
    pub(crate) const fn is_of_lines(self) -> bool {
        matches!(self, Self::Lines | Self::Memory)
    }

    /// Whether it is an op, so that its inputs are of interest.
    pub(crate) const fn is_op(self) -> bool {
        matches!(self, Self::Op | Self::Backward)
    }
}

/// How a function is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub enum FunctionKind {
    /// In a module.
    Free,
    /// In an `impl` block or a trait.
    Method,
    /// In another function.
    Nested,
    /// A closure that is bound to a name.
    Closure,
    /// Made by a macro of the crate.
    Macro,
}

/// A selected function without a hook.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct LeftOut {
    /// Where it is: `my_model::net::Net::forward`.
    pub path: String,
    /// The file that it stands in.
    pub file: PathBuf,
    /// The line of its name.
    pub line: u32,
    /// Why it has no hook.
    pub reason: String,
}

/// A file that could not be read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Unread {
    /// The file.
    pub path: PathBuf,
    /// Why.
    pub reason: String,
}
