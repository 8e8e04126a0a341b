//! Recording infrastructure shared by the profilers: per-thread tables, stages, and thread
//! registration.
//!
//! Every thread records into its own table without locks. A [`Recorder`] hands out the tables. A
//! report reads all of them while their threads continue to write.
//!
//! A *session* is the time between two resets: a stage, a nested stage, or the time outside of any
//! stage. Each thread has one table per session. When a session begins, every thread takes a new
//! table at its next action. Thus no table has to be cleared while its thread is running.

pub(crate) mod arena;
mod attach;
mod collected;
pub(crate) mod header;
pub(crate) mod index;
pub(crate) mod locked_table;
pub(crate) mod mapped;
mod nesting;
pub(crate) mod overhead;
mod region_sink;
pub(crate) mod regions;
mod session;
#[cfg(feature = "sampling")]
mod session_numbers;
pub(crate) mod stack;
pub(crate) mod steps;

use std::ops::{Deref, DerefMut};
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

#[cfg(all(test, not(loom)))]
pub(crate) use self::attach::attaches;
use self::attach::{Attached, Closed, ThreadTable, next_number};
pub(crate) use self::collected::{Collected, Part};
use self::session::{Session, Sessions};
use self::stack::Stack;
use crate::{Action, NeverStarted, Observation, Stage};
use mlprof_events::clock::{self, Clock, Rate};
use mlprof_events::forking::{self, Mutex, MutexGuard, apart_from_forks};
use mlprof_events::startup;
use mlprof_events::{Ended, Stages, ThreadName};

/// Session number that no thread's table has.
const NO_SESSION: u64 = u64::MAX;

/// Kinds of tables. A thread caches one table of each kind. Stack samples show the open actions of
/// the first kind that has any.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// Table of a profiler that can take stack samples itself.
    CallTree,
    Rows,
    Counters,
    Memory,
}

const KINDS: usize = Kind::Memory as usize + 1;
const _: () = assert!(KINDS == mlprof_events::open_scopes::TABLES);

/// Table that one thread records into. Only the owning thread may call `start`, `stop` and their
/// slow forms. Any thread may call the other methods at any time.
pub(crate) trait Table: Send + Sync + 'static {
    /// Copy of the recorded data, for reports.
    type Snapshot: Clone + Default + Send;
    /// Record of a scope's measurements.
    type Record;

    /// Kind of the table.
    const KIND: Kind;

    fn new() -> Self;
    /// Starts an action on the fast path, which requires a clock that [is in
    /// line](Clock::is_in_line). All other cases end in one call of
    /// [`start_slow`](Self::start_slow), so that no registers have to be saved over a call.
    fn start(&self, action: Action, clock: &Clock);
    /// Starts an action that is new to this table or nested very deeply.
    fn start_slow(&self, action: Action, clock: &Clock);
    /// Stops the action if it is the innermost one and not nested very deeply. Otherwise calls
    /// `elsewhere` as its last operation.
    fn stop(
        &self,
        action: Action,
        elsewhere: impl FnOnce() -> Result<(), NeverStarted>,
    ) -> Result<(), NeverStarted>;
    /// Stops the innermost open call of the action. Returns `false` if the thread has not started
    /// it.
    fn stop_slow(&self, action: Action, clock: &Clock) -> bool;
    /// Returns the thread's open scopes.
    fn stack(&self) -> &Stack<Self::Record>;
    fn snapshot(&self) -> Self::Snapshot;
    /// Adds the data that another thread recorded, or the same thread in another session.
    fn merge(into: &mut Self::Snapshot, from: &Self::Snapshot);
}

/// Hands out per-thread tables and collects them.
pub(crate) struct Recorder<T: Table> {
    number: u64,
    clock: Clock,
    /// Number of the session that threads record into.
    session: AtomicU64,
    /// Number of the running session if the clock can be read in line, otherwise [`NO_SESSION`].
    /// One comparison decides if the fast path may be taken.
    fast_session: AtomicU64,
    /// Number of calls that no table could record, because their thread was being torn down or was
    /// inside the profiler.
    lost: AtomicU64,
    /// Set when the recorded actions are the program's. Such actions end start-up, and the report
    /// may show start-up.
    is_the_users: bool,
    /// Shared with the sinks of pending device regions.
    sessions: Arc<Mutex<Sessions<T>>>,
}

/// Locked sessions. The thread that holds them cannot [attach](attach).
struct Held<'recorder, T: Table> {
    // The lock is released first, because fields are dropped in declaration order.
    sessions: MutexGuard<'recorder, Sessions<T>>,
    _closed: Closed,
}

impl<T: Table> Deref for Held<'_, T> {
    type Target = Sessions<T>;

    fn deref(&self) -> &Sessions<T> {
        &self.sessions
    }
}

impl<T: Table> DerefMut for Held<'_, T> {
    fn deref_mut(&mut self) -> &mut Sessions<T> {
        &mut self.sessions
    }
}

impl<T: Table> Recorder<T> {
    pub(crate) fn new() -> Self {
        Self::with_role(true)
    }

    /// Returns a recorder that does not affect start-up, for a calibration or beside another
    /// recorder.
    pub(crate) fn aside() -> Self {
        Self::with_role(false)
    }

    fn with_role(is_the_users: bool) -> Self {
        forking::watch();
        let clock = Clock::new();
        let sessions = Sessions {
            running: Stages::outside(Session::new(None, clock.ticks())),
            finished: None,
        };
        let recorder = Self {
            number: next_number(),
            clock,
            session: AtomicU64::new(NO_SESSION),
            fast_session: AtomicU64::new(NO_SESSION),
            lost: AtomicU64::new(0),
            is_the_users,
            sessions: Arc::new(Mutex::new(sessions)),
        };
        recorder.publish(&recorder.sessions());
        recorder
    }

    fn sessions(&self) -> Held<'_, T> {
        let closed = Closed::begin();
        Held {
            sessions: self.sessions.lock().unwrap_or_else(PoisonError::into_inner),
            _closed: closed,
        }
    }

    /// Starts `action` in the table of the calling thread.
    ///
    /// *Cost*: one relaxed load, one thread-local read, and the cost of the table's start.
    #[inline(always)]
    pub(crate) fn start(&self, action: Action) {
        if !clock::IS_THERE {
            return;
        }
        // The thread-local is read first. The compiler may implement it as a call, and values
        // loaded before a call have to be saved.
        let (session, table) = attach::current::<T>();
        if session != self.fast_session.load(Ordering::Relaxed) {
            return self.start_elsewhere(action);
        }
        // SAFETY: the session belongs to this recorder, so the table has type `T`. This thread's
        // attachments keep the table alive until the thread attaches again, which `Table::start`
        // does not do.
        unsafe { &*table }.start(action, &self.clock);
    }

    /// Stops `action` in the table of the calling thread. *Cost*: like [`start`](Self::start).
    #[inline(always)]
    pub(crate) fn stop(&self, action: Action) -> Result<(), NeverStarted> {
        if !clock::IS_THERE {
            return Ok(());
        }
        let (session, table) = attach::current::<T>();
        if session != self.fast_session.load(Ordering::Relaxed) {
            return self.stop_elsewhere(action);
        }
        // SAFETY: the session belongs to this recorder, so the table has type `T`, and this
        // thread's attachments keep it alive. `Table::stop` no longer uses the table when it calls
        // `elsewhere`, which may attach again.
        unsafe { &*table }.stop(action, || self.stop_elsewhere(action))
    }

    #[cold]
    #[inline(never)]
    fn start_elsewhere(&self, action: Action) {
        match self.attach() {
            Some(attached) => attached.table.start_slow(action, &self.clock),
            None => {
                self.lost.fetch_add(1, Ordering::Relaxed);
            }
        }
    }

    /// Stops an action that is not simply the innermost one of the running session. Another action
    /// may be open inside it, or it was started in an ended or outer session.
    #[cold]
    #[inline(never)]
    fn stop_elsewhere(&self, action: Action) -> Result<(), NeverStarted> {
        let is_stopped =
            |attached: &Arc<ThreadTable<T>>| attached.table.stop_slow(action, &self.clock);
        // A thread without a table of the running session has no open action in it, so no table is
        // made.
        if self.attach_known().as_ref().is_some_and(is_stopped)
            || attach::tables_of(self.number).any(|attached| is_stopped(&attached))
        {
            return Ok(());
        }
        Err(NeverStarted(action))
    }

    /// Returns `true` if the calling thread has `action` open in any session. *Cost*: about 100 ns.
    pub(crate) fn is_open(&self, action: Action) -> bool {
        let tables = attach::tables_of::<T>(self.number);
        let mut open = tables.flat_map(|attached| attached.table.stack().open());
        open.any(|open| open.action == action)
    }

    /// Makes this thread's table of the running session its current one.
    fn attach(&self) -> Option<Arc<ThreadTable<T>>> {
        apart_from_forks(|| self.attach_now())
    }

    fn attach_now(&self) -> Option<Arc<ThreadTable<T>>> {
        // A session can end between the load of its number and the registration. The next number is
        // then used. The loop fails only if stages keep changing at every attempt.
        let attached = (0..16).find_map(|_| {
            let session = self.session.load(Ordering::Acquire);
            attach::attach(self.number, session, |thread| self.register(session, thread))
        })?;
        Some(Self::come_back(attached))
    }

    /// Makes this thread's table of the running session its current one, if the thread has such a
    /// table.
    fn attach_known(&self) -> Option<Arc<ThreadTable<T>>> {
        apart_from_forks(|| {
            let session = self.session.load(Ordering::Acquire);
            attach::attach(self.number, session, |_| None).map(Self::come_back)
        })
    }

    /// Accounts for the thread's return from a nested stage. The time spent in that stage counts as
    /// spent inside the scope that is open here.
    fn come_back(attached: Attached<T>) -> Arc<ThreadTable<T>> {
        if let Some(inner) = attached.inner {
            attached.table.table.stack().add_inner_time(inner.table.stack().take_outermost_time());
        }
        attached.table
    }

    fn register(&self, session: u64, thread: ThreadName) -> Option<Arc<ThreadTable<T>>> {
        if self.is_the_users {
            startup::note_first_action();
        }
        let mut sessions = self.sessions();
        let session = sessions.running.iter_mut().find(|running| running.number == session)?;
        session.fold_ended_threads();
        if self.is_the_users && session.startup.is_none() {
            session.startup = startup::claim();
        }
        let table = Arc::new(ThreadTable::new(thread, T::new()));
        session.tables.push(table.clone());
        Some(table)
    }

    /// Begins a stage, by the rules of [`Stages`]. Data recorded before the first stage belongs to
    /// that stage.
    pub(crate) fn begin(&self, stage: Stage) {
        clock::look_for_suspension();
        let now = self.clock.ticks();
        let mut sessions = self.sessions();
        match sessions.running.last_mut() {
            Some(outside) if outside.stage.is_none() && !outside.is_idle() => {
                outside.stage = Some(stage);
            }
            around => {
                let mut session = Session::new(Some(stage), now);
                session.unattributed =
                    around.map(|around| around.unattributed.clone()).unwrap_or_default();
                session.unattributed.retain(|unattributed| !unattributed.is_over());
                sessions.running.take_outside();
                sessions.running.begin(session);
            }
        }
        sessions.finished = None;
        self.publish(&sessions);
    }

    /// Ends `stage` if it runs. `None` stands for the stage that [`collect`](Self::collect)
    /// reports.
    pub(crate) fn end(&self, stage: Option<Stage>) {
        clock::look_for_suspension();
        let now = self.clock.ticks();
        let mut sessions = self.sessions();
        let Some(Ended { own: mut session, inside }) = sessions.running.end(stage) else { return };
        session.ended = Some(now);
        session.inner.extend(inside);
        match (session.stage, sessions.running.last_mut()) {
            (Some(Stage::SanityCheck), Some(outer)) => outer.inner.push(session),
            _ => sessions.finished = Some(session),
        }
        if sessions.running.is_empty() {
            sessions.running = Stages::outside(Session::new(None, now));
        }
        self.publish(&sessions);
    }

    /// Adds an observation to the running stage: a note, which is stored once, or work that no
    /// profiler receives.
    pub(crate) fn observe(&self, observation: &Observation<'_>) {
        match observation {
            Observation::StageNote(note) => {
                if let Some(running) = self.sessions().running.last_mut()
                    && !running.notes.iter().any(|known| known == note)
                {
                    running.notes.push((*note).to_owned());
                }
            }
            Observation::Unattributed(work) => {
                if let Some(running) = self.sessions().running.last_mut() {
                    running.unattributed.push(Arc::clone(work));
                }
            }
            _ => {}
        }
    }

    fn publish(&self, sessions: &Sessions<T>) {
        if let Some(session) = sessions.running.last() {
            self.session.store(session.number, Ordering::Release);
            let fast = if self.clock.is_in_line() { session.number } else { NO_SESSION };
            self.fast_session.store(fast, Ordering::Release);
        }
    }

    /// Collects the data of the running stage. If nothing was recorded since the last stage ended,
    /// collects that stage instead. Other threads continue to record meanwhile.
    pub(crate) fn collect(&self) -> Collected<T::Snapshot> {
        let now = self.clock.ticks();
        let mut sessions = self.sessions();
        let position = sessions.reported();
        let Sessions { running, finished } = &mut *sessions;
        let (session, inside) = match finished {
            Some(finished) if running[position].is_idle() => (finished, &mut [][..]),
            _ => {
                let (until, inside) = running.split_at_mut(position + 1);
                (&mut until[position], inside)
            }
        };
        let (mut parts, mut regions, mut device_time) = (Vec::new(), Vec::new(), Vec::new());
        let startup = session.startup().or_else(|| inside.iter().find_map(Session::startup));
        session.collect_into(&mut parts, None);
        session.add_regions(|it| &it.regions, &mut regions, None);
        session.add_regions(|it| &it.device_time, &mut device_time, None);
        let (unattributed, notes) = (session.unattributed.clone(), session.notes.clone());
        let (stage, started, rate) = (session.stage, session.started, Rate::now());
        let step_series = session.steps.series(stage, started, |ticks| rate.seconds(ticks));
        for session in inside {
            let stage = session.stage;
            session.collect_into(&mut parts, stage);
            session.add_regions(|it| &it.regions, &mut regions, stage);
            session.add_regions(|it| &it.device_time, &mut device_time, stage);
        }
        Collected {
            stage,
            started,
            ended: session.ended.unwrap_or(now),
            rate,
            startup,
            parts,
            regions,
            device_time,
            step_series,
            lost: self.lost.load(Ordering::Relaxed),
            unattributed,
            notes,
        }
    }
}
