//! What is looked at on the screen: which process, in which order its actions are, and how far down.

use std::time::{Duration, Instant};

use mlprof_events::live::{ActionState, Activity, ProcessState};

use super::super::ProcessName;

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

/// What is below a training's steps.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum Body {
    /// Its actions and modules, inside of each other.
    #[default]
    Actions,
    /// What each of its threads is in.
    Threads,
    /// All processes side by side.
    Processes,
    /// What costs time that could be saved, by its report so far.
    Findings,
}

/// All that decides what is on the screen.
#[derive(Debug, Default)]
pub(super) struct View {
    /// All processes that listen; one that has ended stays as it was last.
    pub(super) processes: Vec<Watched>,
    pub(super) chosen: usize,
    pub(super) body: Body,
    pub(super) order: Order,
    /// So many rows of actions are above the screen.
    pub(super) scrolled: usize,
    pub(super) shows_help: bool,
    /// Whether also actions are shown that take next to no time.
    pub(super) shows_all: bool,
    /// What became of the last thing that was asked for.
    pub(super) message: String,
    /// So many processes have not answered yet.
    pub(super) unanswered: usize,
}

/// A process, and what it said last.
#[derive(Debug, Clone)]
pub(super) struct Watched {
    pub(super) name: ProcessName,
    pub(super) state: ProcessState,
    pub(super) has_ended: bool,
    /// It has not answered for long: it may be stopped.
    pub(super) is_silent: bool,
    /// Time of its last answer.
    pub(super) heard: Instant,
    /// What was found last, a paragraph each, or why nothing is known.
    pub(super) findings: Option<Result<Vec<String>, String>>,
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

    /// Shows something else; the actions, if it is shown already.
    pub(super) fn show(&mut self, body: Body) {
        self.body = if self.body == body { Body::Actions } else { body };
        self.scrolled = 0;
    }

    /// Goes on in the list below, or back.
    pub(super) fn scroll(&mut self, down: bool) {
        let chosen = self.chosen();
        let activity = chosen.and_then(|it| it.state.activity.as_ref());
        let count = match self.body {
            Body::Actions => activity.map_or(0, |it| it.actions.len()),
            Body::Threads => activity.map_or(0, |it| it.threads.len()),
            Body::Processes => self.processes.len(),
            Body::Findings => match chosen.and_then(|it| it.findings.as_ref()) {
                Some(Ok(findings)) => findings.len(),
                Some(Err(_)) | None => 0,
            },
        };
        let last = count.saturating_sub(1);
        self.scrolled = match down {
            true => (self.scrolled + 1).min(last),
            false => self.scrolled.saturating_sub(1),
        };
    }

    /// A process has said something.
    pub(super) fn hear(&mut self, name: ProcessName, state: ProcessState) {
        let findings = self.watched(name).and_then(|known| known.findings.take());
        let (has_ended, is_silent, heard) = (false, false, Instant::now());
        let watched = Watched { name, state, has_ended, is_silent, heard, findings };
        match self.watched(name) {
            Some(known) => *known = watched,
            None => self.processes.push(watched),
        }
    }

    fn watched(&mut self, name: ProcessName) -> Option<&mut Watched> {
        self.processes.iter_mut().find(|it| it.name == name)
    }

    /// Marks those that have said nothing for so long.
    pub(super) fn look_at_clock(&mut self, longest: Duration) {
        for watched in &mut self.processes {
            watched.is_silent = !watched.has_ended && watched.heard.elapsed() > longest;
        }
    }

    /// What was found in a process' report so far.
    pub(super) fn found(&mut self, name: ProcessName, findings: Result<Vec<String>, String>) {
        if let Some(known) = self.watched(name) {
            known.findings = Some(findings);
        }
    }

    pub(super) fn has_ended(&mut self, name: ProcessName) {
        if let Some(known) = self.watched(name) {
            (known.has_ended, known.is_silent) = (true, false);
        }
    }
}

/// The actions of a process in the order in which they are shown, each with its depth inside of
/// others. Those that [also stand inside of another one](is_also_inside) come last.
pub(super) fn rows(activity: &Activity, order: Order) -> Vec<(usize, &ActionState)> {
    let mut rows = Vec::with_capacity(activity.actions.len());
    add(activity, order, None, 0, &mut rows);
    rows
}

/// Smaller parts of the last steps have no row of their own, unless all are asked for.
pub(super) const LEAST_SHARE: f64 = 1e-3;

/// The rows but those that took less than [`LEAST_SHARE`] of `of` seconds, and how many these are.
/// What is inside of a row that is left out took no longer than it.
pub(super) fn without_small(
    rows: Vec<(usize, &ActionState)>,
    of: f64,
) -> (Vec<(usize, &ActionState)>, usize) {
    let all = rows.len();
    let mut kept: Vec<(usize, &ActionState)> = Vec::with_capacity(all);
    // From the end: what is around a row that is shown is shown, too.
    let mut shown_depth = 0;
    for (depth, action) in rows.into_iter().rev() {
        let is_around = shown_depth > depth;
        let is_large = action.seconds >= LEAST_SHARE * of;
        if is_around || is_large {
            shown_depth = depth;
            kept.push((depth, action));
        }
    }
    kept.reverse();
    let left_out = all - kept.len();
    (kept, left_out)
}

/// Whether a row that is inside of no other one also stands inside of one: it was open when
/// following began, so that it is not known what was around it, or it is called in two places.
pub(super) fn is_also_inside(activity: &Activity, action: &ActionState) -> bool {
    let is_same = |other: &ActionState| (&other.name, other.kind) == (&action.name, action.kind);
    action.around.is_none() && activity.actions.iter().any(|it| it.around.is_some() && is_same(it))
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
    inside.sort_by_cached_key(|(_, action)| is_also_inside(activity, action));
    for (number, action) in inside {
        rows.push((depth, action));
        add(activity, order, Some(number), depth + 1, rows);
    }
}
