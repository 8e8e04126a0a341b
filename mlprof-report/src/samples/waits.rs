//! Attribution of waiting time to functions of the program and the calls in which they wait.
//!
//! The innermost function of a waiting thread is nearly always one of a few functions of the C
//! library. The wait is therefore attributed to the innermost function outside of the C library and
//! Rust's standard library.

use std::cmp::Reverse;
use std::collections::{HashMap, HashSet};

use crate::samples::{ActionSamples, SampledCode, Samples};
use mlprof_events::OrderExt;

/// Waiting time of one function.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Waits {
    /// Waiting function of the program, as an index into [`Samples::functions`].
    pub(crate) function: u32,
    /// Innermost function, in which the thread waits, as an index into [`Samples::functions`].
    pub(crate) inside: u32,
    pub(crate) ticks: u64,
}

/// Returns the waits of an action, longest first.
pub(crate) fn of_action(samples: &Samples, action: &ActionSamples) -> Vec<Waits> {
    of_action_where(samples, action, |_way_up| true)
}

/// Returns the waits of an action inside functions with names that `is_such` accepts.
pub(crate) fn of_action_inside(
    samples: &Samples,
    action: &ActionSamples,
    is_such: impl Fn(&str) -> bool,
) -> Vec<Waits> {
    let is_inside = |function: &u32| {
        samples.functions.get(*function as usize).is_some_and(|code| is_such(&code.name))
    };
    of_action_where(samples, action, |way_up| way_up.iter().any(is_inside))
}

/// Returns the waits of stacks for which `is_wanted` returns `true`. Its argument contains the
/// functions of a stack, innermost first.
fn of_action_where(
    samples: &Samples,
    action: &ActionSamples,
    is_wanted: impl Fn(&[u32]) -> bool,
) -> Vec<Waits> {
    let is_of_it = in_action(samples, action);
    let mut sums: HashMap<(u32, u32), u64> = HashMap::new();
    for (index, node) in samples.stacks.iter().enumerate() {
        if node.waiting_ticks == 0 || !is_of_it.contains(&(index as u32)) {
            continue;
        }
        let Some(inside) = node.function else { continue };
        let way_up =
            std::iter::successors(Some(node), |node| samples.stacks.get(node.parent? as usize));
        let is_waiting = |function: &u32| {
            samples.functions.get(*function as usize).is_some_and(is_of_the_program)
        };
        let way_up: Vec<u32> = way_up.filter_map(|node| node.function).collect();
        if !is_wanted(&way_up) {
            continue;
        }
        let function = way_up.iter().copied().find(is_waiting).unwrap_or(inside);
        *sums.entry((function, inside)).or_default() += node.waiting_ticks;
    }
    let waits = |((function, inside), ticks)| Waits { function, inside, ticks };
    let mut all: Vec<Waits> = sums.into_iter().map(waits).collect();
    all.order_by_key(|waits| (Reverse(waits.ticks), waits.function, waits.inside));
    all
}

/// Returns the indices of the action's nodes and their descendants. Parents come before their
/// children.
fn in_action(samples: &Samples, action: &ActionSamples) -> HashSet<u32> {
    let mut inside = HashSet::new();
    for (index, node) in samples.stacks.iter().enumerate() {
        let is_it =
            node.action.as_ref() == Some(&action.action) && node.sub_stage == action.sub_stage;
        if is_it || node.parent.is_some_and(|parent| inside.contains(&parent)) {
            inside.insert(index as u32);
        }
    }
    inside
}

fn is_of_the_program(code: &SampledCode) -> bool {
    const SYSTEM: [&str; 6] =
        ["libc.so", "libc-", "libpthread", "ld-linux", "[vdso]", "libmlprof_runtime"];
    const STANDARD: [&str; 4] = ["std::", "core::", "alloc::", "__rust"];
    let name = code.name.trim_start_matches(['<', '&', '(', '*']);
    let is_system = SYSTEM.iter().any(|library| code.library.starts_with(library));
    let is_unknown = code.library.is_empty();
    // If debug information contains only lines, names have no paths. The file then identifies the
    // standard library.
    let is_standard_file = code
        .file
        .as_ref()
        .is_some_and(|file| file.starts_with("/rustc/") || file.contains("/rust/library/"));
    !is_system
        && !is_unknown
        && !is_standard_file
        && !STANDARD.iter().any(|path| name.starts_with(path))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples::{SampleCounts, StackNode};

    fn code(name: &str, library: &str, file: Option<&str>) -> SampledCode {
        let file = file.map(str::to_owned);
        SampledCode { name: name.to_owned(), library: library.to_owned(), file, line: None }
    }

    #[test]
    fn the_waiting_function_is_the_innermost_one_of_the_program() {
        let functions = vec![
            code("app::load", "app", Some("src/main.rs")),
            code("<std::sync::mpsc::Receiver<T>>::recv", "app", None),
            code("lock_contended", "app", Some("/rustc/0a/library/std/src/sys/futex.rs")),
            code("syscall", "libc.so.6", None),
            code("app::save", "app", None),
        ];
        let action = |name: &str| StackNode {
            parent: None,
            action: Some(name.to_owned()),
            sub_stage: None,
            function: None,
            working_ticks: 9,
            waiting_ticks: 0,
        };
        let node = |parent, function, waiting_ticks| StackNode {
            parent: Some(parent),
            function: Some(function),
            action: None,
            waiting_ticks,
            ..action("")
        };
        let stacks = vec![
            action("step"),
            node(0, 0, 0),
            node(1, 1, 0),
            node(2, 2, 0),
            node(3, 3, 5),
            node(0, 4, 0),
            node(5, 3, 8),
            action("other"),
            node(7, 4, 99),
            node(1, 3, 1),
            node(0, 3, 2),
        ];
        let samples = Samples { functions, stacks, ..Samples::default() };
        let step = ActionSamples {
            action: "step".to_owned(),
            sub_stage: None,
            all: SampleCounts::default(),
            squared_ticks: 0,
            functions: Vec::new(),
        };
        let waits = |function, inside, ticks| Waits { function, inside, ticks };
        // A wait without a function of the program is attributed to the C library.
        let expected = [waits(4, 3, 8), waits(0, 3, 6), waits(3, 3, 2)];
        assert_eq!(of_action(&samples, &step), expected);
    }
}
