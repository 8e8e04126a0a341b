//! Data that became known only after it happened: calls of a device's driver, and the memory that
//! they allocated. They are inserted into the record of the calling thread.

use rustc_hash::FxHashMap;

use super::event::{Event, MemoryEvent};
use mlprof_events::OrderExt;
use mlprof_events::{Direction, DriverCall, PastMemoryChange, ShapeList};

/// Driver calls and memory changes of one thread, in chronological order.
#[derive(Default)]
pub(crate) struct DriverWork {
    pub(super) calls: Vec<DriverCall>,
    pub(super) memory: Vec<MemoryEvent>,
}

/// Groups calls and memory changes by thread.
pub(super) fn by_thread(
    calls: Vec<DriverCall>,
    memory: Vec<PastMemoryChange>,
) -> FxHashMap<u64, DriverWork> {
    let mut threads: FxHashMap<u64, DriverWork> = FxHashMap::default();
    for call in calls {
        threads.entry(call.thread).or_default().calls.push(call);
    }
    for PastMemoryChange { time, thread, change } in memory {
        threads.entry(thread).or_default().memory.push(MemoryEvent { time, change });
    }
    for thread in threads.values_mut() {
        sort(&mut thread.calls);
        thread.memory.order_by_key(|change| change.time);
    }
    threads
}

/// Sorts calls by their ends, inner calls first. Among nested calls with the same correlation
/// number only the outermost is kept, because a runtime library makes its driver calls inside its
/// own.
fn sort(calls: &mut Vec<DriverCall>) {
    calls.order_by_key(|call| (call.start, std::cmp::Reverse(call.end)));
    let mut outermost: FxHashMap<u32, (u64, u64)> = FxHashMap::default();
    calls.retain(|call| {
        let (start, end) = (call.start.ticks(), call.end.ticks());
        let known = outermost.get(&call.correlation).filter(|_| call.correlation != 0);
        if known.is_some_and(|around| around.0 <= start && end <= around.1) {
            return false;
        }
        outermost.insert(call.correlation, (start, end));
        true
    });
    calls.order_by_key(|call| (call.end, std::cmp::Reverse(call.start)));
}

/// Converts calls to events of a thread. `own` contains the thread's own events, sorted by end.
pub(super) fn as_events(
    calls: &[DriverCall],
    own: impl DoubleEndedIterator<Item = Event>,
) -> Vec<Event> {
    // The loop runs backwards, so that an enclosing event precedes the events inside it.
    let mut own = own.rev().filter(|event| !event.overlaps).peekable();
    let mut open: Vec<Event> = Vec::new();
    let mut events: Vec<Event> = Vec::with_capacity(calls.len());
    for call in calls.iter().rev() {
        while let Some(event) = own.next_if(|event| event.end >= call.end) {
            push(&mut open, event);
        }
        let event = Event {
            action: call.action,
            start: call.start,
            end: call.end.max(call.start),
            shapes: ShapeList::NONE,
            sequence: call.correlation,
            forward_thread: 0,
            context: None,
            depth: depth_at(&mut open, call),
            direction: Direction::Forward,
            is_unfinished: false,
            overlaps: false,
        };
        push(&mut open, event);
        events.push(event);
    }
    events.reverse();
    events
}

/// Adds an open event. `event` must not end later than those that are open.
fn push(open: &mut Vec<Event>, event: Event) {
    while open.last().is_some_and(|last| last.start > event.start) {
        open.pop();
    }
    open.push(event);
}

/// Returns the number of scopes that were open around the call.
fn depth_at(open: &mut Vec<Event>, call: &DriverCall) -> u16 {
    while open.last().is_some_and(|last| last.start > call.start) {
        open.pop();
    }
    open.last().map_or(0, |around| around.depth.saturating_add(1))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use mlprof_events::{Action, ActionKind, Timestamp};

    fn call(name: &str, start: u64, end: u64, correlation: u32) -> DriverCall {
        DriverCall {
            action: Action::of_kind(ActionKind::Launch, name, None),
            thread: 1,
            start: Timestamp::from_ticks(start),
            end: Timestamp::from_ticks(end),
            correlation,
        }
    }

    fn own(start: u64, end: u64, depth: u16) -> Event {
        let call = call("own", start, end, 0);
        Event { depth, ..as_events(&[call], std::iter::empty())[0] }
    }

    #[test]
    fn calls_lie_as_deep_as_the_scopes_around_them() {
        // The scopes are step(0..100) { op(10..40) { inner(20..30) }, op(50..90) }.
        let scopes = [own(20, 30, 2), own(10, 40, 1), own(50, 90, 1), own(0, 100, 0)];
        let calls = [
            call("in inner", 22, 25, 1),
            call("in op", 32, 40, 2),
            call("between", 42, 44, 3),
            call("at the end of op", 88, 90, 4),
            call("after all", 120, 130, 5),
        ];
        let events = as_events(&calls, scopes.iter().copied());
        let depths: Vec<_> = events.iter().map(|event| (event.sequence, event.depth)).collect();
        assert_eq!(depths, [(1, 3), (2, 2), (3, 1), (4, 2), (5, 0)]);
    }

    #[test]
    fn a_call_inside_a_call_of_the_same_correlation_is_not_told_of_twice() {
        let calls = vec![
            call("cuLaunchKernel", 12, 18, 7),
            call("cudaLaunchKernel", 10, 20, 7),
            call("cuStreamSynchronize", 30, 40, 0),
            call("cuCtxSynchronize", 31, 39, 0),
            call("cuLaunchKernel", 50, 60, 7),
        ];
        let mut threads = by_thread(calls, Vec::new());
        let calls = threads.remove(&1).expect("a thread").calls;
        let names: Vec<_> = calls.iter().map(|call| call.action.name()).collect();
        let expected =
            ["cudaLaunchKernel", "cuCtxSynchronize", "cuStreamSynchronize", "cuLaunchKernel"];
        assert_eq!(names, expected);
        let events = as_events(&calls, std::iter::empty());
        assert_eq!(events.iter().map(|event| event.depth).collect::<Vec<_>>(), [0, 1, 0, 0]);
    }
}
