//! The stack of open ops of a thread.

use std::cell::RefCell;

use mlprof_core::hook::{Direction, InputsBuilder, OpScope, OpStart};

use super::names::{Names, OpName};
use super::op_call::OpCall;
use super::op_output::OpOutput;

struct OpenOp {
    key: usize,
    scope: OpScope,
    is_node: bool,
}

struct NameCache {
    names: Names,
    /// Makes record.cpp drop the names that it cached by their address.
    at_end: Option<fn()>,
}

impl Drop for NameCache {
    fn drop(&mut self) {
        if let Some(forget) = self.at_end {
            forget();
        }
    }
}

struct Thread {
    /// Open ops, innermost last.
    open: Vec<OpenOp>,
    /// Number of open autograd nodes. Every op inside such a node is part of the backward pass.
    nodes: u32,
}

thread_local! {
    static NAMES: RefCell<NameCache> =
        const { RefCell::new(NameCache { names: Names::new(), at_end: None }) };
    static THREAD: RefCell<Thread> =
        const { RefCell::new(Thread { open: Vec::new(), nodes: 0 }) };
}

/// Calls `work` with the state of the thread, unless the thread is being torn down or a profiler
/// runs the op while it handles another one.
#[inline(always)]
fn with_thread(work: impl FnOnce(&mut Thread)) {
    let _ = THREAD.try_with(|thread| {
        if let Ok(mut thread) = thread.try_borrow_mut() {
            work(&mut thread);
        }
    });
}

/// Returns the op with this name, or `None` while the thread is being torn down. `at_end` is called
/// when the thread ends.
pub(super) fn name(name: &[u8], at_end: fn()) -> Option<OpName> {
    let find = |cache: &RefCell<NameCache>| {
        let mut cache = cache.try_borrow_mut().ok()?;
        cache.at_end = Some(at_end);
        Some(cache.names.find(name))
    };
    NAMES.try_with(find).ok().flatten()
}

pub(super) fn op_starts(call: &OpCall) {
    with_thread(|thread| thread.start(call));
}

/// Closes an op. An op that was not opened is ignored.
pub(super) fn op_ends(key: usize) {
    with_thread(|thread| thread.end(key));
}

/// Reports the output of an op that is still open.
pub(super) fn op_returns(output: &OpOutput) {
    with_thread(|thread| {
        let direction = if thread.nodes > 0 { Direction::Backward } else { Direction::Forward };
        if let Some(action) = output.op.action() {
            output.report(action.name(), direction);
        }
    });
}

impl Thread {
    #[inline(always)]
    fn start(&mut self, call: &OpCall) {
        match call.words() {
            Some(words) => InputsBuilder::with_words(words, |it| self.start_with(call, Some(it))),
            None => self.start_with(call, None),
        }
    }

    #[inline(always)]
    fn start_with(&mut self, call: &OpCall, inputs: Option<&InputsBuilder>) {
        let Some(action) = call.op.action() else { return };
        let is_node = call.is_backward || call.op.is_node();
        let mut start = OpStart { inputs, ..OpStart::new(action) };
        if let Ok(sequence) = u32::try_from(call.sequence) {
            // Profilers use 0 for "no sequence number", but in autograd 0 is the first node of a
            // thread. In the first step, that is the first layer. It is therefore replaced by a
            // number that autograd never reaches.
            start.sequence = if sequence == 0 { OpStart::FIRST_SEQUENCE } else { sequence };
            // A node and its forward op are linked by sequence number and thread. A forward op
            // therefore uses its own thread.
            let thread = if is_node { call.forward_thread } else { call.thread };
            start.forward_thread = u32::try_from(thread).unwrap_or(0);
        }
        if is_node || self.nodes > 0 {
            start.direction = Direction::Backward;
        }
        if let Some(scope) = OpScope::open(&start) {
            self.nodes += u32::from(is_node);
            self.open.push(OpenOp { key: call.key(), scope, is_node });
        }
    }

    #[inline(always)]
    fn end(&mut self, key: usize) {
        match self.open.pop() {
            Some(op) if op.key == key => self.close(op),
            Some(op) => {
                self.open.push(op);
                self.end_inside(key);
            }
            None => {}
        }
    }

    /// Closes all ops inside the op `key`. Ops end in nesting order, unless libtorch moves one to
    /// another thread. Such an op is closed together with the op around it.
    #[cold]
    #[inline(never)]
    fn end_inside(&mut self, key: usize) {
        if let Some(position) = self.open.iter().rposition(|op| op.key == key) {
            while self.open.len() > position
                && let Some(op) = self.open.pop()
            {
                self.close(op);
            }
        }
    }

    #[inline(always)]
    fn close(&mut self, op: OpenOp) {
        self.nodes -= u32::from(op.is_node);
        op.scope.close();
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};

    use super::*;

    #[test]
    fn names_are_forgotten_once_when_their_thread_ends() {
        static FORGOTTEN: AtomicUsize = AtomicUsize::new(0);
        let forget = || {
            FORGOTTEN.fetch_add(1, Ordering::Relaxed);
        };
        let looks_up = move || {
            let find = |letters: &[u8]| name(letters, forget).map(|it| it.action.name());
            assert_eq!(find(b"aten::mm"), Some("aten::mm"));
            assert_eq!(find(b"aten::add"), Some("aten::add"));
            assert_eq!(FORGOTTEN.load(Ordering::Relaxed), 0);
        };
        std::thread::spawn(looks_up).join().expect("no panic");
        assert_eq!(FORGOTTEN.load(Ordering::Relaxed), 1);
    }
}
