//! Instrumented places in the source code.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, PoisonError};

use crate::{Action, ActionKind};
use mlprof_events::SourceLocation;
use mlprof_events::Text;
use mlprof_events::forking::{Mutex, apart_from_forks};

/// Meaning of an instrumented function to a profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SiteKind {
    /// A function.
    Function = 0,
    /// A tensor op.
    Op = 1,
    /// An op that computes gradients. Ops inside it are backward ops.
    Backward = 2,
    /// An action, as in training loops.
    Action = 3,
    /// An action that ends a training step when it ends.
    Step = 4,
    /// A poll of an async function after the first one, which continues its call.
    Resumption = 5,
    /// An op with a name that is known at run time. The first two words are the address and length
    /// of the text to append to the site's name. The inputs follow.
    NamedOp = 6,
    /// Like [`Resumption`](Self::Resumption), for an op.
    ResumedOp = 7,
    /// Like [`Resumption`](Self::Resumption), for an op that computes gradients.
    ResumedBackward = 8,
}

impl SiteKind {
    fn from_number(number: u32) -> Self {
        match number {
            1 => Self::Op,
            2 => Self::Backward,
            3 => Self::Action,
            4 => Self::Step,
            5 => Self::Resumption,
            6 => Self::NamedOp,
            7 => Self::ResumedOp,
            8 => Self::ResumedBackward,
            _ => Self::Function,
        }
    }

    fn action_kind(self) -> ActionKind {
        match self {
            Self::Function | Self::Resumption => ActionKind::Function,
            Self::Op | Self::Backward | Self::NamedOp | Self::ResumedOp | Self::ResumedBackward => {
                ActionKind::Op
            }
            Self::Action | Self::Step => ActionKind::Action,
        }
    }

    const fn is_resumption(self) -> bool {
        matches!(self, Self::Resumption | Self::ResumedOp | Self::ResumedBackward)
    }

    /// Returns `true` if ops inside it belong to the backward pass.
    pub(super) const fn is_backward(self) -> bool {
        matches!(self, Self::Backward | Self::ResumedBackward)
    }
}

/// An instrumented function: a static of its crate with C layout.
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    /// [`Action::number`], or 0 before the first call.
    action: AtomicU32,
    kind: u32,
    line: u32,
    name: Text,
    file: Text,
}

impl Site {
    #[inline]
    pub(super) fn kind(&self) -> SiteKind {
        SiteKind::from_number(self.kind)
    }

    /// Returns the action of this site. *Cost*: one relaxed load after the first call.
    #[inline]
    pub(super) fn action(&self) -> Action {
        match Action::from_number(self.action.load(Ordering::Relaxed)) {
            Some(action) => action,
            None => self.resolve(),
        }
    }

    /// Returns the op named by the site's name followed by `name`. *Cost*: that of [`Action::op`].
    pub(super) fn op_named(&self, name: &str) -> Action {
        // SAFETY: instrumented code creates sites from string literals, so the text is valid.
        let framework = unsafe { self.name.read() };
        Action::op(&(framework + name))
    }

    /// Interns the action. Names and files are copied, because the library that contains the site
    /// may be unloaded.
    #[cold]
    fn resolve(&self) -> Action {
        #[cfg(target_os = "linux")]
        super::crash::main_has_begun();
        // SAFETY: instrumented code creates sites from string literals, so both texts are valid.
        let (name, file) = unsafe { (self.name.read(), self.file.read()) };
        let kind = self.kind().action_kind();
        let action = match kind {
            // Ops have no location, so that an op is one row regardless of its functions' places.
            ActionKind::Function => {
                let location = SourceLocation { file: interned(file), line: self.line };
                Action::with_location(kind, &name, location)
            }
            kind => Action::of_kind(kind, &name, None),
        };
        let action = if self.kind().is_resumption() { action.resumption() } else { action };
        self.action.store(action.number(), Ordering::Relaxed);
        action
    }
}

/// Returns the single leaked copy of a file name. There is one for each file with instrumented
/// functions.
fn interned(text: String) -> &'static str {
    static TEXTS: LazyLock<Mutex<HashSet<&'static str>>> = LazyLock::new(Mutex::default);
    apart_from_forks(|| {
        let mut texts = TEXTS.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some(known) = texts.get(text.as_str()) {
            return *known;
        }
        let text: &'static str = text.leak();
        texts.insert(text);
        text
    })
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;

    fn site(kind: SiteKind, name: &'static str) -> &'static Site {
        let text = |text: &'static str| Text { start: text.as_ptr(), length: text.len() };
        Box::leak(Box::new(Site {
            action: AtomicU32::new(0),
            kind: kind as u32,
            line: 7,
            name: text(name),
            file: text("src/net.rs"),
        }))
    }

    #[test]
    fn a_function_has_its_place_and_an_op_has_none() {
        let function = site(SiteKind::Function, "net::forward").action();
        assert_eq!((function.kind(), function.name()), (ActionKind::Function, "net::forward"));
        assert_eq!(function.location(), Some(SourceLocation { file: "src/net.rs", line: 7 }));
        let goes_on = site(SiteKind::Resumption, "net::forward").action();
        assert_eq!(goes_on.resumed(), Some(function));
        let op = site(SiteKind::Backward, "candle::backward").action();
        assert_eq!((op.kind(), op.location()), (ActionKind::Op, None));
        assert_eq!(site(SiteKind::Step, "optimizer_step").action(), Action::new("optimizer_step"));
        let nothing = Text { start: std::ptr::null(), length: 9 };
        // SAFETY: `read` does not access a null pointer.
        assert_eq!(unsafe { nothing.read() }, "");
    }
}
