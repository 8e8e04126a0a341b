//! Texts that occur again and again, each kept once.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Beginning of the name of a step.
pub(crate) const STEP: &str = "ProfilerStep#";

/// Returns a call's name without the prefix of CUDA's or HIP's library; `None` without such a prefix.
pub(crate) fn without_library_prefix(name: &str) -> Option<&str> {
    ["cuda", "cu", "hip"].iter().find_map(|begin| name.strip_prefix(begin))
}

/// A text of a [`Trace`](super::Trace), known by its number.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub(crate) u32);

impl Name {
    /// The empty text.
    pub const EMPTY: Self = Self(0);
}

/// All texts of a trace.
#[derive(Debug)]
pub struct Names {
    all: Vec<Arc<str>>,
    numbers: FxHashMap<Arc<str>, u32>,
}

impl Default for Names {
    fn default() -> Self {
        let mut names = Self { all: Vec::new(), numbers: FxHashMap::default() };
        names.intern("");
        names
    }
}

impl Names {
    /// The number of a text, which it gets when it is seen first.
    pub fn intern(&mut self, text: &str) -> Name {
        if let Some(number) = self.numbers.get(text) {
            return Name(*number);
        }
        let number = self.all.len() as u32; // 2^32 different texts do not fit into memory
        let text: Arc<str> = text.into();
        self.all.push(text.clone());
        self.numbers.insert(text, number);
        Name(number)
    }

    /// The text.
    pub fn text(&self, name: Name) -> &str {
        &self.all[name.0 as usize]
    }

    /// The number of a text that was seen.
    pub fn find(&self, text: &str) -> Option<Name> {
        self.numbers.get(text).copied().map(Name)
    }

    /// All of them, by their numbers.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|text| &**text)
    }

    /// How many there are.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// What is true of each of them, by their numbers: asked once for each.
    pub(crate) fn map<T>(&self, ask: impl FnMut(&str) -> T) -> ByName<T> {
        let mut ask = ask;
        ByName(self.all.iter().map(|text| ask(text)).collect())
    }
}

/// Something for each text.
#[derive(Debug)]
pub(crate) struct ByName<T>(Vec<T>);

impl<T> std::ops::Index<Name> for ByName<T> {
    type Output = T;

    fn index(&self, name: Name) -> &T {
        &self.0[name.0 as usize]
    }
}
