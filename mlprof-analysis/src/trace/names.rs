//! Interned strings.

use std::sync::Arc;

use rustc_hash::FxHashMap;

/// Prefix of step names.
pub(crate) const STEP: &str = "ProfilerStep#";

/// Returns a call's name without the prefix of CUDA's or HIP's library. `None` if it has no such
/// prefix.
pub(crate) fn without_library_prefix(name: &str) -> Option<&str> {
    ["cuda", "cu", "hip"].iter().find_map(|begin| name.strip_prefix(begin))
}

/// Interned string of a [`Trace`](super::Trace).
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Name(pub(crate) u32);

impl Name {
    /// The empty string.
    pub const EMPTY: Self = Self(0);
}

/// All interned strings of a trace.
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
    /// Interns a string and returns its name.
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

    /// Returns the text of a name.
    pub fn text(&self, name: Name) -> &str {
        &self.all[name.0 as usize]
    }

    /// Returns the name of a string if it is interned.
    pub fn find(&self, text: &str) -> Option<Name> {
        self.numbers.get(text).copied().map(Name)
    }

    /// Returns all strings in interning order.
    pub fn all(&self) -> impl Iterator<Item = &str> {
        self.all.iter().map(|text| &**text)
    }

    /// Returns the number of strings.
    pub fn count(&self) -> usize {
        self.all.len()
    }

    /// Computes a value for each string, calling `ask` once per string.
    pub(crate) fn map<T>(&self, ask: impl FnMut(&str) -> T) -> ByName<T> {
        let mut ask = ask;
        ByName(self.all.iter().map(|text| ask(text)).collect())
    }
}

/// A value for each interned string.
#[derive(Debug)]
pub(crate) struct ByName<T>(Vec<T>);

impl<T> std::ops::Index<Name> for ByName<T> {
    type Output = T;

    fn index(&self, name: Name) -> &T {
        &self.0[name.0 as usize]
    }
}
