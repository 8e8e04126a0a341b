//! A thread that performs given deeds with guards, valid and invalid ones.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use mlprof_core::{Action, ActiveScope, Profiler, ProfilerExt, Scope, profile_dynamic};

use super::model::ACTIONS;
use super::random::Random;

/// An operation of a thread. Profilers, actions and guards are given by index.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// Opens an action of a profiler and keeps the guard.
    Open(usize, usize),
    /// Opens an action of the active profiler, as macros do, and keeps the guard.
    OpenActive(usize),
    /// Drops a guard, the latest or another one.
    Close(usize),
    /// Forgets a guard with `mem::forget`.
    Forget(usize),
    /// Starts an action manually; a manual stop may find no open call.
    Start(usize, usize),
    Stop(usize, usize),
    /// Opens and closes an action several times.
    Calls(usize, usize, usize),
    /// Opens an action recursively to this depth.
    Recursion(usize, usize, usize),
    /// Opens several actions and panics.
    Panic(usize, usize),
}

impl Deed {
    /// Returns a random deed for a thread with `guards` guards.
    pub fn random(random: &mut Random, guards: usize) -> Self {
        let (profiler, action) = (random.below(2), random.below(ACTIONS));
        // Usually, the innermost guard is dropped first, as in correct programs.
        let guard =
            guards.saturating_sub(1 + if random.is_one_in(4) { random.below(guards) } else { 0 });
        match random.below(20) {
            0..=4 => Self::Open(profiler, action),
            5..=6 => Self::OpenActive(action),
            7..=11 if guards > 0 => Self::Close(guard),
            12 if guards > 0 => Self::Forget(guard),
            13 => Self::Start(profiler, action),
            14..=16 => Self::Stop(profiler, action),
            17 => Self::Calls(profiler, action, random.below(20)),
            18 if random.is_one_in(4) => Self::Recursion(profiler, action, random.below(200)),
            19 if random.is_one_in(2) => Self::Panic(profiler, action),
            _ => Self::Calls(profiler, action, 1),
        }
    }
}

enum Guard<'case> {
    Own { _scope: Scope<'case> },
    Active { _scope: ActiveScope },
}

/// Performs deeds until the channel is closed. Sends the results of the manual stops after each
/// round.
pub fn work(
    profilers: &[Arc<dyn Profiler>; 2],
    actions: [Action; ACTIONS],
    rounds: &Receiver<Vec<Deed>>,
    done: &Sender<Vec<bool>>,
    forgets: bool,
) {
    let mut guards: Vec<Guard<'_>> = Vec::new();
    for deeds in rounds {
        let mut stopped = Vec::new();
        for deed in deeds {
            match deed {
                Deed::Open(profiler, action) => {
                    guards
                        .push(Guard::Own { _scope: profilers[profiler].profile(actions[action]) });
                }
                Deed::OpenActive(action) => {
                    guards.push(Guard::Active { _scope: profile_dynamic!(actions[action]) });
                }
                Deed::Close(guard) => drop(guards.remove(guard)),
                Deed::Forget(guard) => std::mem::forget(guards.remove(guard)),
                Deed::Start(profiler, action) => profilers[profiler].start(actions[action]),
                Deed::Stop(profiler, action) => {
                    stopped.push(profilers[profiler].stop(actions[action]).is_ok());
                }
                Deed::Calls(profiler, action, calls) => {
                    (0..calls).for_each(|_| drop(profilers[profiler].profile(actions[action])));
                }
                Deed::Recursion(profiler, action, depth) => {
                    recurse(&*profilers[profiler], actions[action], depth);
                }
                Deed::Panic(profiler, action) => {
                    let panicking = AssertUnwindSafe(|| {
                        let _outer = profilers[profiler].profile(actions[action]);
                        let _active = profile_dynamic!(actions[0]);
                        let _inner = profilers[profiler].profile(actions[0]);
                        std::panic::panic_any(());
                    });
                    assert!(catch_unwind(panicking).is_err());
                }
            }
        }
        if done.send(stopped).is_err() {
            break;
        }
    }
    if forgets {
        guards.into_iter().for_each(std::mem::forget);
    }
}

fn recurse(profiler: &dyn Profiler, action: Action, depth: usize) {
    if depth > 0 {
        let _scope = profiler.profile(action);
        recurse(profiler, action, depth - 1);
    }
}
