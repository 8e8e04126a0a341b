//! Folded stacks of the samples, for drawing flame graphs.

use std::collections::HashMap;
use std::iter::successors;

use crate::folded::{CUT, Extent, Room, frame_name};
use crate::samples::{Samples, StackNode};
use mlprof_events::OrderExt;

impl Samples {
    /// Returns the working stacks in the format of `flamegraph.pl`, inferno and speedscope. Each
    /// line has the form `action;function;function ticks`, outermost frame first. The lines are in
    /// alphabetical order.
    ///
    /// Each frame appears in the lines of all stacks below it. The [limits](crate::folded) of flame
    /// graphs apply. Frames beyond the limits are replaced by one frame, [`CUT`], with all of their
    /// ticks.
    pub fn folded_stacks(&self) -> Vec<String> {
        self.folded(|node| node.working_ticks)
    }

    /// Returns the waiting stacks in the same format and with the same limits. They show the
    /// waiting functions and their callers.
    pub fn folded_waiting(&self) -> Vec<String> {
        self.folded(|node| node.waiting_ticks)
    }

    fn folded(&self, ticks: impl Fn(&StackNode) -> u64) -> Vec<String> {
        let mut folded = Folded::default();
        // Index of each node's stack in `folded`.
        let mut places: Vec<usize> = Vec::with_capacity(self.stacks.len());
        for node in &self.stacks {
            let above = node.parent.and_then(|parent| places.get(parent as usize)).copied();
            let place = folded.below(above, || frame_name(&self.name_of(node)));
            folded.stacks[place].ticks += ticks(node);
            places.push(place);
        }
        folded.lines()
    }
}

/// Folded stacks within the limits of flame graphs.
#[derive(Default)]
struct Folded {
    stacks: Vec<FoldedStack>,
    /// Stacks that replace truncated frames, by the stack above them or by `None` at the top.
    cuts: HashMap<Option<usize>, usize>,
    room: Room,
}

/// A stack with its innermost frame. Its parent contains the other frames.
struct FoldedStack {
    parent: Option<usize>,
    frame: String,
    extent: Extent,
    ticks: u64,
}

impl Folded {
    /// Returns the stack of a frame below another stack, or the stack that replaces truncated
    /// frames there.
    fn below(&mut self, above: Option<usize>, frame: impl FnOnce() -> String) -> usize {
        let around = above.map(|above| &self.stacks[above]);
        if let Some(above) = above.filter(|_| around.is_some_and(|around| around.frame == CUT)) {
            return above;
        }
        let frame = frame();
        let extent = around.map_or_else(Extent::default, |around| around.extent).with(&frame);
        if self.room.take(extent) {
            return self.push(FoldedStack { parent: above, frame, extent, ticks: 0 });
        }
        if let Some(cut) = self.cuts.get(&above) {
            return *cut;
        }
        let cut = self.push(FoldedStack { parent: above, frame: CUT.to_owned(), extent, ticks: 0 });
        self.cuts.insert(above, cut);
        cut
    }

    fn push(&mut self, stack: FoldedStack) -> usize {
        self.stacks.push(stack);
        self.stacks.len() - 1
    }

    /// Returns the lines in alphabetical order, without stacks that have no ticks.
    fn lines(&self) -> Vec<String> {
        let line = |stack: &FoldedStack| {
            let parent = |stack: &&FoldedStack| self.stacks.get(stack.parent?);
            let mut frames: Vec<&str> =
                successors(Some(stack), parent).map(|stack| stack.frame.as_str()).collect();
            frames.reverse();
            format!("{} {}", frames.join(";"), stack.ticks)
        };
        let mut lines: Vec<String> =
            self.stacks.iter().filter(|stack| stack.ticks > 0).map(line).collect();
        lines.order();
        lines
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::folded::{MOST_BYTES, MOST_FRAMES};
    use crate::samples::SampledCode;

    fn samples(functions: &[&str], stacks: Vec<StackNode>) -> Samples {
        let code = |name: &&str| SampledCode {
            name: (*name).to_owned(),
            library: String::new(),
            file: None,
            line: None,
        };
        Samples { functions: functions.iter().map(code).collect(), stacks, ..Samples::default() }
    }

    fn node(parent: Option<u32>, function: u32, working: u64, waiting: u64) -> StackNode {
        StackNode {
            parent,
            action: None,
            sub_stage: None,
            function: Some(function),
            working_ticks: working,
            waiting_ticks: waiting,
        }
    }

    #[test]
    fn work_and_waiting_are_folded_apart() {
        let action = StackNode {
            action: Some("train;step".to_owned()),
            function: None,
            ..node(None, 0, 1, 2)
        };
        let stacks = vec![
            action,
            node(Some(0), 0, 3, 0),
            node(Some(1), 1, 0, 5),
            node(Some(0), 1, 7, 11),
            node(None, 1, 0, 13),
        ];
        let samples = samples(&["multiply", "wait"], stacks);
        let work = ["train,step 1", "train,step;multiply 3", "train,step;wait 7"];
        assert_eq!(samples.folded_stacks(), work);
        let waiting =
            ["train,step 2", "train,step;multiply;wait 5", "train,step;wait 11", "wait 13"];
        assert_eq!(samples.folded_waiting(), waiting);
    }

    #[test]
    fn a_recursion_without_end_has_a_limit_and_loses_no_tick() {
        let depth = 100_000;
        let below = |number: u32| node(number.checked_sub(1), 0, 1, 2);
        let deep = samples(&["again"], (0..depth).map(below).collect());
        let ticks = |lines: &[String]| -> u64 {
            let ticks =
                lines.iter().filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
            ticks.sum()
        };
        for (lines, all) in [(deep.folded_stacks(), 100_000), (deep.folded_waiting(), 200_000)] {
            assert_eq!(ticks(&lines), all);
            assert!(lines.len() <= MOST_FRAMES + 1, "{}", lines.len());
            let bytes: usize = lines.iter().map(String::len).sum();
            assert!(bytes as u64 <= 2 * MOST_BYTES, "{bytes}");
            let cut = lines.iter().filter(|line| line.contains(";[cut] "));
            assert_eq!(cut.count(), 1, "what is left out is said");
        }
    }

    #[test]
    fn stacks_below_the_limit_become_one_line() {
        let mut stacks: Vec<_> =
            (0..MOST_FRAMES as u32).map(|number| node(number.checked_sub(1), 0, 0, 0)).collect();
        let last = stacks.len() as u32 - 1;
        stacks.extend([node(Some(last), 1, 2, 0), node(Some(last), 2, 3, 0)]);
        let below_both = stacks.len() as u32 - 1;
        stacks.push(node(Some(below_both), 1, 4, 0));
        let lines = samples(&["f", "one", "other"], stacks).folded_stacks();
        let [line] = &lines[..] else { panic!("{} lines", lines.len()) };
        assert!(line.ends_with("f;[cut] 9"), "{}", &line[line.len() - 20..]);
    }
}
