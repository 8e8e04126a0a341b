//! A thread that does what it is told with guards, by the book or not.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::mpsc::{Receiver, Sender};

use mlprof_core::{Action, ActiveScope, Profiler, ProfilerExt, Scope, profile_dynamic};

use super::model::ACTIONS;
use super::random::Random;

/// Something that a thread does. Profilers, actions and guards by their numbers.
#[derive(Debug, Clone, Copy)]
pub enum Deed {
    /// Opens an action of a profiler, for a guard that is kept.
    Open(usize, usize),
    /// The same by what macros do, of whoever is active.
    OpenActive(usize),
    /// Drops a guard, the latest or another one.
    Close(usize),
    /// Forgets one.
    Forget(usize),
    /// By hand, for which there may be nothing to stop.
    Start(usize, usize),
    Stop(usize, usize),
    /// Opens and closes again, several times.
    Calls(usize, usize, usize),
    /// Inside of itself, so deep.
    Recursion(usize, usize, usize),
    /// Opens several, and panics.
    Panic(usize, usize),
}

impl Deed {
    /// Any of them, for a thread that has `guards` guards.
    pub fn random(random: &mut Random, guards: usize) -> Self {
        let (profiler, action) = (random.below(2), random.below(ACTIONS));
        // Mostly the innermost one, as guards are dropped by the book.
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

/// Does what comes until nothing comes any more; says of each round what could be stopped.
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
