//! A place that a hook was put into.

use std::collections::HashSet;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{LazyLock, PoisonError};

use crate::{Action, ActionKind};
use mlprof_events::SourceLocation;
use mlprof_events::Text;
use mlprof_events::forking::{Mutex, apart_from_forks};

/// What a spliced function is to a profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[repr(u32)]
pub enum SiteKind {
    /// A function.
    Function = 0,
    /// A tensor op.
    Op = 1,
    /// An op that computes gradients: ops inside it are backward ops.
    Backward = 2,
    /// An action as training loops have them.
    Action = 3,
    /// An action whose end is the end of a training step.
    Step = 4,
    /// A poll of an async function after the first: its call goes on.
    Resumption = 5,
    /// An op whose name is told when it runs: the first two words are the address and the length of
    /// what stands behind the site's own. Inputs follow.
    NamedOp = 6,
    /// As [`Resumption`](Self::Resumption), of an op.
    ResumedOp = 7,
    /// As [`Resumption`](Self::Resumption), of an op that computes gradients.
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

    /// Whether ops inside it are of the backward pass.
    pub(super) const fn is_backward(self) -> bool {
        matches!(self, Self::Backward | Self::ResumedBackward)
    }
}

/// A spliced function: a static of its crate, laid out as C does.
#[derive(Debug)]
#[repr(C)]
pub struct Site {
    /// [`Action::number`]; 0 before the first call.
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

    /// What is started here. *Cost*: one relaxed load but for the first call.
    #[inline]
    pub(super) fn action(&self) -> Action {
        match Action::from_number(self.action.load(Ordering::Relaxed)) {
            Some(action) => action,
            None => self.resolve(),
        }
    }

    /// The op that is called so behind the name of the site. *Cost*: that of [`Action::op`].
    pub(super) fn op_named(&self, name: &str) -> Action {
        // SAFETY: sites are made by spliced code from string literals.
        let framework = unsafe { self.name.read() };
        Action::op(&(framework + name))
    }

    /// Names and files are copied: the library that the site is in may be unloaded.
    #[cold]
    fn resolve(&self) -> Action {
        #[cfg(target_os = "linux")]
        super::crash::main_has_begun();
        // SAFETY: sites are made by spliced code from string literals.
        let (name, file) = unsafe { (self.name.read(), self.file.read()) };
        let kind = self.kind().action_kind();
        let action = match kind {
            // An op is one row wherever its functions are written.
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

/// The one copy of a file's name. There are as many as files with spliced functions.
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
        // SAFETY: nothing is read of a null pointer.
        assert_eq!(unsafe { nothing.read() }, "");
    }
}
