//! What is looked at on the screen: which process, in which order its actions are, and how far down.

use profiler_events::live::{ActionState, Activity, ProcessState};

/// By what actions are sorted that are inside of the same one.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Order {
    #[default]
    Time,
    Calls,
    Name,
}

impl Order {
    pub(super) fn next(self) -> Self {
        match self {
            Self::Time => Self::Calls,
            Self::Calls => Self::Name,
            Self::Name => Self::Time,
        }
    }

    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Time => "time",
            Self::Calls => "calls",
            Self::Name => "name",
        }
    }
}

/// All that decides what is on the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    /// All processes that listen; one that has ended stays as it was last.
    pub(super) processes: Vec<Watched>,
    pub(super) chosen: usize,
    pub(super) order: Order,
    /// So many rows of actions are above the screen.
    pub(super) scrolled: usize,
    pub(super) shows_help: bool,
    /// What became of the last thing that was asked for.
    pub(super) message: String,
}

/// A process, and what it said last.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) state: ProcessState,
    pub(super) has_ended: bool,
}

impl View {
    pub(super) fn chosen(&self) -> Option<&Watched> {
        self.processes.get(self.chosen)
    }

    /// Looks at the next process, or the one before.
    pub(super) fn turn(&mut self, forward: bool) {
        let count = self.processes.len().max(1);
        self.chosen = (self.chosen + if forward { 1 } else { count - 1 }) % count;
        self.scrolled = 0;
    }

    /// Goes on in the list of actions, or back.
    pub(super) fn scroll(&mut self, down: bool) {
        let actions = self.chosen().and_then(|it| it.state.activity.as_ref());
        let last = actions.map_or(0, |it| it.actions.len().saturating_sub(1));
        self.scrolled = match down {
            true => (self.scrolled + 1).min(last),
            false => self.scrolled.saturating_sub(1),
        };
    }

    /// A process has said something.
    pub(super) fn hear(&mut self, state: ProcessState) {
        match self.processes.iter_mut().find(|it| it.state.process == state.process) {
            Some(known) => *known = Watched { state, has_ended: false },
            None => self.processes.push(Watched { state, has_ended: false }),
        }
    }

    pub(super) fn has_ended(&mut self, process: u32) {
        let known = self.processes.iter_mut().filter(|it| it.state.process == process);
        known.for_each(|it| it.has_ended = true);
    }
}

/// The actions of a process in the order in which they are shown, each with how deep inside of others it is.
pub(super) fn rows(activity: &Activity, order: Order) -> Vec<(usize, &ActionState)> {
    let mut rows = Vec::with_capacity(activity.actions.len());
    add(activity, order, None, 0, &mut rows);
    rows
}

fn add<'a>(
    activity: &'a Activity,
    order: Order,
    around: Option<usize>,
    depth: usize,
    rows: &mut Vec<(usize, &'a ActionState)>,
) {
    let all = activity.actions.iter().enumerate();
    // What is around an action stands before it, so that nothing is inside of itself.
    let mut inside: Vec<_> = all
        .filter(|(number, it)| it.around == around && around.is_none_or(|outer| outer < *number))
        .collect();
    inside.sort_by(|(_, a), (_, b)| match order {
        Order::Time => b.seconds.total_cmp(&a.seconds).then_with(|| a.name.cmp(&b.name)),
        Order::Calls => b.calls.cmp(&a.calls).then_with(|| a.name.cmp(&b.name)),
        Order::Name => a.name.cmp(&b.name),
    });
    for (number, action) in inside {
        rows.push((depth, action));
        add(activity, order, Some(number), depth + 1, rows);
    }
}
