//! Performs random operations, valid and invalid ones, on several threads and compares the counts
//! with a model.

mod model;
mod random;
mod worker;

use std::sync::Arc;
use std::sync::mpsc::{self, Receiver, Sender};

use mlprof_core::{
    Action, AdvancedProfiler, Inner, NeverStarted, Profiler, Report, RunContext, Session,
    SimpleProfiler, Stage,
};

use self::model::{ACTIONS, Model};
use self::random::Random;
use self::worker::Deed;
use crate::{Outcome, Scale};

/// Environment variable that selects a single case by its number.
const CASE: &str = "MLPROF_TORTURE_CASE";

const NAMES: [&str; ACTIONS] = ["one", "two", "three", "four", "five", "six"];

const STAGES: [Stage; 4] = [Stage::Fit, Stage::Validate, Stage::Test, Stage::SanityCheck];

/// Maximum number of open calls in a report.
const LISTED: u64 = 1000;

pub fn fuzz(scale: Scale) -> Outcome {
    std::panic::set_hook(Box::new(|panic| {
        // The deliberate panics of a case have no message and are not printed.
        if panic.payload_as_str().is_some() {
            eprintln!("{panic}");
        }
    }));
    let cases = match std::env::var(CASE).map(|case| case.parse::<u64>()) {
        Ok(Ok(case)) => case..case + 1,
        Ok(Err(error)) => return Err(format!("{CASE}: {error}")),
        Err(_) => 0..scale.of(200_000).into(),
    };
    let (mut deeds, mut reports) = (0, 0);
    for case in cases.clone() {
        // Each case runs on a separate thread, whose end discards all guards that are still open.
        let played = std::thread::spawn(move || Case::new(case).play()).join();
        let played = played.unwrap_or_else(|_| Err("a panic".to_owned()));
        let done = played.map_err(|wrong| format!("{wrong}; again with {CASE}={case}"))?;
        deeds += done.deeds;
        reports += done.reports;
    }
    Ok(format!("{} cases, {deeds} deeds, {reports} reports", cases.end - cases.start))
}

#[derive(Default)]
struct Done {
    deeds: usize,
    reports: usize,
}

/// A profiler that prints nothing.
struct Quiet<P>(P);

impl<P: Profiler> Profiler for Quiet<P> {
    fn start(&self, action: Action) {
        self.0.start(action);
    }

    fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        self.0.stop(action)
    }

    fn inner(&self) -> Inner<'_> {
        Inner::of(&self.0)
    }

    fn describe(&self) {
        self.summary();
        self.teardown(None);
    }
}

/// The profiler and action that a guard will stop, if any.
type Target = Option<(usize, usize)>;

/// Channels of a thread: its deeds, and for each manual stop whether it succeeded.
type Worker = (Sender<Vec<Deed>>, Receiver<Vec<bool>>);

struct Case {
    random: Random,
    profilers: [Arc<dyn Profiler>; 2],
    actions: [Action; ACTIONS],
    models: [Model; 2],
    /// Active sessions, each with the index of its profiler.
    sessions: Vec<(Session, usize)>,
    /// Open guards by thread.
    guards: Vec<Vec<Target>>,
    done: Done,
}

impl Case {
    fn new(seed: u64) -> Self {
        let mut random = Random::new(seed);
        // With one thread, the state can be compared at any time, so most cases have one.
        let threads = if random.is_one_in(4) { 2 + random.below(3) } else { 1 };
        Self {
            random,
            profilers: [
                Arc::new(Quiet(SimpleProfiler::new())),
                Arc::new(Quiet(AdvancedProfiler::new())),
            ],
            actions: NAMES.map(Action::new),
            models: [Model::new(threads), Model::new(threads)],
            sessions: Vec::new(),
            guards: (0..threads).map(|_| Vec::new()).collect(),
            done: Done::default(),
        }
    }

    fn play(mut self) -> Result<Done, String> {
        let forgets = self.random.is_one_in(2);
        let (profilers, actions) = (self.profilers.clone(), self.actions);
        std::thread::scope(|scope| {
            let workers: Vec<_> = (0..self.guards.len())
                .map(|_| {
                    let (tell, rounds) = mpsc::channel();
                    let (done, answers) = mpsc::channel();
                    let profilers = &profilers;
                    scope.spawn(move || worker::work(profilers, actions, &rounds, &done, forgets));
                    (tell, answers)
                })
                .collect();
            for _ in 0..1 + self.random.below(6) {
                self.change_stage();
                self.compare()?;
                let reports = if self.random.is_one_in(4) { 1 + self.random.below(3) } else { 0 };
                self.play_round(&workers, |case| (0..reports).try_for_each(|_| case.read()))?;
                self.compare()?;
            }
            // The assignment of calls to stages is not deterministic here, but no call may be lost
            // or added.
            if self.random.is_one_in(4) {
                self.play_round(&workers, |case| {
                    (0..8).for_each(|_| case.change_stage_only());
                    case.read()
                })?;
            }
            Ok::<_, String>(())
        })?;
        Ok(self.done)
    }

    /// Lets all threads perform deeds, and calls `meanwhile` concurrently.
    fn play_round(
        &mut self,
        workers: &[Worker],
        meanwhile: impl FnOnce(&mut Self) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut right = Vec::new();
        for (thread, (tell, _)) in workers.iter().enumerate() {
            let deeds = self.make_deeds(thread);
            let expected = deeds.iter().filter_map(|deed| self.expect(thread, *deed));
            right.push(expected.collect::<Vec<_>>());
            tell.send(deeds).map_err(|_| format!("thread {thread} has ended"))?;
        }
        meanwhile(self)?;
        for (thread, ((_, answers), right)) in workers.iter().zip(right).enumerate() {
            let stopped = answers.recv().map_err(|_| format!("thread {thread} has ended"))?;
            if stopped != right {
                return Err(format!("thread {thread} stopped {stopped:?}, {right:?} is right"));
            }
        }
        Ok(())
    }

    fn make_deeds(&mut self, thread: usize) -> Vec<Deed> {
        let mut guards = self.guards[thread].len();
        let deeds = (0..self.random.below(40)).map(|_| {
            let deed = Deed::random(&mut self.random, guards);
            match deed {
                Deed::Open(..) | Deed::OpenActive(_) => guards += 1,
                Deed::Close(_) | Deed::Forget(_) => guards -= 1,
                _ => {}
            }
            deed
        });
        let deeds: Vec<_> = deeds.collect();
        self.done.deeds += deeds.len();
        deeds
    }

    /// Performs the deed on the models. Returns the expected result of a manual stop.
    fn expect(&mut self, thread: usize, deed: Deed) -> Option<bool> {
        match deed {
            Deed::Open(profiler, action) => self.open(thread, Some((profiler, action))),
            Deed::OpenActive(action) => self.open(thread, self.active(action)),
            Deed::Close(guard) => {
                let target = self.guards[thread].remove(guard);
                self.stop(thread, target);
            }
            Deed::Forget(guard) => drop(self.guards[thread].remove(guard)),
            Deed::Start(profiler, action) => self.models[profiler].start(thread, action),
            Deed::Stop(profiler, action) => {
                return Some(self.models[profiler].stop(thread, action));
            }
            Deed::Calls(profiler, action, calls) => {
                let model = &mut self.models[profiler];
                (0..calls).for_each(|_| {
                    model.start(thread, action);
                    model.stop(thread, action);
                });
            }
            Deed::Recursion(profiler, action, depth) => {
                let model = &mut self.models[profiler];
                (0..depth).for_each(|_| model.start(thread, action));
                assert!((0..depth).all(|_| model.stop(thread, action)), "they are open");
            }
            Deed::Panic(profiler, action) => {
                let targets = [Some((profiler, action)), self.active(0), Some((profiler, 0))];
                targets.iter().for_each(|target| self.start(thread, *target));
                targets.iter().rev().for_each(|target| self.stop(thread, *target));
            }
        }
        None
    }

    fn active(&self, action: usize) -> Target {
        self.sessions.last().map(|(_, profiler)| (*profiler, action))
    }

    fn open(&mut self, thread: usize, target: Target) {
        self.start(thread, target);
        self.guards[thread].push(target);
    }

    fn start(&mut self, thread: usize, target: Target) {
        if let Some((profiler, action)) = target {
            self.models[profiler].start(thread, action);
        }
    }

    fn stop(&mut self, thread: usize, target: Target) {
        if let Some((profiler, action)) = target {
            self.models[profiler].stop(thread, action);
        }
    }

    /// Changes the stage while no thread performs deeds.
    fn change_stage(&mut self) {
        let (profiler, stage) = (self.random.below(2), STAGES[self.random.below(STAGES.len())]);
        match self.random.below(8) {
            0 | 1 => {
                let own = self.profilers[profiler].clone();
                self.sessions.push((
                    Session::begin(own, stage, &RunContext::default()).expect("a profiler"),
                    profiler,
                ));
                self.models[profiler].begin(stage);
            }
            2 | 3 if !self.sessions.is_empty() => {
                // Usually, the session that began last ends first.
                let last = self.sessions.len() - 1;
                let one_of =
                    if self.random.is_one_in(3) { self.random.below(last + 1) } else { last };
                let (session, profiler) = self.sessions.remove(one_of);
                drop(session);
                self.models[profiler].end(None);
            }
            4 | 5 => self.change_stage_only(),
            _ => {}
        }
    }

    /// Changes the stage at any time, without a session.
    fn change_stage_only(&mut self) {
        let (profiler, stage) = (self.random.below(2), STAGES[self.random.below(STAGES.len())]);
        let ended = (!self.random.is_one_in(3)).then_some(stage);
        if self.random.is_one_in(2) {
            self.profilers[profiler].setup(stage, &RunContext::default());
            self.models[profiler].begin(stage);
        } else {
            self.profilers[profiler].teardown(ended);
            self.models[profiler].end(ended);
        }
    }

    /// Creates reports and parses them again.
    fn read(&mut self) -> Result<(), String> {
        for profiler in &self.profilers {
            profiler.summary();
            let report = profiler.report().ok_or("no report")?;
            let read = report.to_json().and_then(|json| Report::from_json(&json));
            if read.map_err(|error| error.to_string())? != report {
                return Err("a report is another one after it was read back".to_owned());
            }
            self.done.reports += 1;
        }
        Ok(())
    }

    /// Compares the counts while no thread performs deeds.
    fn compare(&mut self) -> Result<(), String> {
        for (profiler, model) in self.profilers.iter().zip(&self.models) {
            let report = profiler.report().ok_or("no report")?;
            let (counted, right) = (calls_and_open(&report), model.report());
            if counted != (right.0, right.1.min(LISTED)) {
                return Err(format!("{counted:?} counted, {right:?} is right"));
            }
            self.done.reports += 1;
        }
        Ok(())
    }
}

/// Returns the number of calls of each action, and the number of calls listed as open.
fn calls_and_open(report: &Report) -> ([u64; ACTIONS], u64) {
    let (rows, open): (Vec<_>, _) = match report {
        Report::Simple(report) => {
            (report.actions.iter().map(|row| (&row.action, row.calls)).collect(), &report.open)
        }
        Report::Advanced(report) => {
            (report.actions.iter().map(|row| (&row.action, row.calls)).collect(), &report.open)
        }
        _ => return ([0; ACTIONS], 0),
    };
    let calls_of = |name| {
        let rows = rows.iter().filter(|(action, _)| action.as_str() == name);
        rows.map(|(_, calls)| calls).sum()
    };
    (NAMES.map(calls_of), open.len() as u64)
}
