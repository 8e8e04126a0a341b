//! All activations of the process, and the word from which threads read their state.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::owner::Owner;
use crate::{Interest, Profiler};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{UnattributedReason, UnattributedWork};

const INTEREST_BITS: u32 = u16::BITS;

/// Key of the active profilers, above their combined interest bits. 0 if no profiler wants any
/// event.
static STATE: AtomicU64 = AtomicU64::new(0);

/// Identifies the current set of active profilers. Threads remember it with their cached profiler.
/// It changes whenever a thread may have to report to another profiler.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    pub(super) const NONE: Self = Self(0);

    /// Returns the key of a single activation, to which every thread reports.
    const fn lone(generation: u64) -> Self {
        Self(generation << 1)
    }

    /// Returns the key for several activations, between which each thread has to choose.
    const fn several(number: u64) -> Self {
        Self(number << 1 | 1)
    }

    #[inline(always)]
    pub(super) const fn is_several(self) -> bool {
        self.0 & 1 == 1
    }
}

/// A loaded value of [`STATE`].
#[derive(Clone, Copy)]
pub(super) struct State(u64);

impl State {
    #[inline(always)]
    pub(super) fn load() -> Self {
        Self(STATE.load(Ordering::Relaxed))
    }

    /// Returns the combined interest of all active profilers.
    #[inline(always)]
    pub(super) const fn interest(self) -> Interest {
        Interest::from_bits(self.0 as u16)
    }

    /// Returns `true` if active profilers want all of `interest`.
    #[inline(always)]
    pub(super) const fn wants(self, interest: Interest) -> bool {
        self.0 != 0 && self.interest().contains(interest)
    }

    #[inline(always)]
    pub(super) const fn key(self) -> Key {
        Key(self.0 >> INTEREST_BITS)
    }

    /// Sets a key that no thread remembers, until the next [`Activations::publish`].
    pub(super) fn take_slow_path() {
        if STATE.load(Ordering::Relaxed) != 0 {
            STATE.fetch_or(STRANGE, Ordering::Relaxed);
        }
    }
}

/// The highest bit, which the number of an activation never reaches.
const STRANGE: u64 = 1 << 63;

static ACTIVATIONS: Mutex<Activations> = Mutex::new(Activations {
    last: 0,
    several: 0,
    beside: None,
    besides: Vec::new(),
    stack: Vec::new(),
});

/// An active profiler.
#[derive(Clone)]
pub(super) struct Activation {
    /// Number that identifies the activation when it ends. It is above 0 and never reused.
    pub(super) number: u64,
    /// Number by which threads identify the profiler that they report to. It is above 0 and never
    /// reused, and it changes if `told` does.
    pub(super) generation: u64,
    pub(super) owner: Arc<Owner>,
    /// Profiler as passed by the caller.
    pub(super) profiler: Arc<dyn Profiler>,
    /// Profiler that receives the events: `profiler` combined with the side profilers.
    pub(super) told: Arc<dyn Profiler>,
    /// Interest bits of `told`.
    pub(super) wish: Arc<AtomicU16>,
    pub(super) unattributed: Arc<UnattributedWork>,
    /// Set when a thread has opened a scope under this activation.
    pub(super) is_used: Arc<AtomicBool>,
    /// Set when its report notes that device work covers the whole process.
    pub(super) says_shared: Arc<AtomicBool>,
}

impl Activation {
    pub(super) fn wish(&self) -> Interest {
        Interest::from_bits(self.wish.load(Ordering::Relaxed))
    }

    fn is_of(&self, owner: &Arc<Owner>) -> bool {
        Arc::ptr_eq(&self.owner, owner)
    }
}

/// The profiler that a thread reports to.
pub(super) enum ReportTarget<'all> {
    To(&'all Activation),
    /// The thread reports to none of the running trainings. `None` if no training runs.
    Nobody(Option<UnattributedReason>),
}

pub(super) struct Activations {
    /// The last number that was assigned.
    last: u64,
    /// Number that changes with the activations while there are several owners.
    several: u64,
    /// Side profiler. It receives all events of the other profilers and all events that belong to
    /// no training.
    beside: Option<Activation>,
    /// All side profilers, of which `beside` consists.
    besides: Vec<Arc<dyn Profiler>>,
    /// Activations in the order in which they began. The last one of each owner is the active one.
    stack: Vec<Activation>,
}

impl Activations {
    pub(super) fn lock() -> MutexGuard<'static, Self> {
        ACTIVATIONS.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn next(&mut self) -> u64 {
        self.last += 1;
        self.last
    }

    pub(super) fn beside(&self) -> Option<&Activation> {
        self.beside.as_ref()
    }

    pub(super) fn besides(&self) -> &[Arc<dyn Profiler>] {
        &self.besides
    }

    /// Adds an activation and returns its number.
    pub(super) fn push(&mut self, mut activation: Activation) -> u64 {
        let number = self.next();
        (activation.number, activation.generation) = (number, number);
        if activation.owner.activations.fetch_add(1, Ordering::Relaxed) == 0 {
            activation.owner.began.store(number, Ordering::Relaxed);
        }
        self.stack.push(activation);
        self.changed();
        number
    }

    /// Sets the side profiler, which consists of `besides`, and combines it with all existing
    /// activations. Returns the number of the activation.
    pub(super) fn set_beside(
        &mut self,
        mut beside: Activation,
        besides: Vec<Arc<dyn Profiler>>,
        combine: impl Fn(&Arc<dyn Profiler>, &[Arc<dyn Profiler>]) -> Arc<dyn Profiler>,
    ) -> u64 {
        let number = self.next();
        (beside.number, beside.generation) = (number, number);
        for index in 0..self.stack.len() {
            let generation = self.next();
            let entry = &mut self.stack[index];
            entry.told = combine(&entry.profiler, &besides);
            entry.wish.fetch_or(beside.wish().bits(), Ordering::Relaxed);
            entry.generation = generation;
        }
        self.beside = Some(beside);
        self.besides = besides;
        self.changed();
        number
    }

    /// Removes a profiler from the side profilers. Existing combinations keep it until
    /// [`set_beside`](Self::set_beside).
    pub(super) fn forget_beside(&mut self, profiler: &Arc<dyn Profiler>) {
        self.besides.retain(|beside| !Arc::ptr_eq(beside, profiler));
    }

    /// Removes an activation and returns it, so that the caller can drop it without the lock.
    pub(super) fn remove(&mut self, number: u64) -> Option<Activation> {
        if let Some(gone) = self.beside.take_if(|beside| beside.number == number) {
            self.besides.clear();
            self.changed();
            return Some(gone);
        }
        let position = self.stack.iter().position(|entry| entry.number == number)?;
        let gone = self.stack.remove(position);
        // Scopes that this training opened since the later one began are in the later one's report.
        let later = self.stack[position..].iter().filter(|later| later.is_of(&gone.owner));
        for later in later.filter(|later| later.is_used.load(Ordering::Relaxed)) {
            later.unattributed.overlap();
            gone.unattributed.overlap();
        }
        if gone.owner.activations.fetch_sub(1, Ordering::Relaxed) == 1 {
            gone.owner.ended.store(self.last, Ordering::Relaxed);
        }
        self.changed();
        Some(gone)
    }

    pub(super) fn all(&self) -> impl Iterator<Item = &Activation> {
        self.stack.iter().chain(&self.beside)
    }

    /// Returns the active activation of each owner.
    pub(super) fn tops(&self) -> impl Iterator<Item = &Activation> {
        let is_top = |(index, entry): &(usize, &Activation)| {
            !self.stack[index + 1..].iter().any(|later| later.is_of(&entry.owner))
        };
        self.stack.iter().enumerate().filter(is_top).map(|(_, entry)| entry)
    }

    fn changed(&mut self) {
        if self.tops().nth(1).is_some() {
            self.several = self.next();
        }
        self.publish();
    }

    fn key(&self) -> Key {
        let mut tops = self.tops();
        match (tops.next(), tops.next()) {
            (Some(_), Some(_)) => Key::several(self.several),
            (Some(lone), None) => Key::lone(lone.generation),
            (None, _) => self.beside.as_ref().map_or(Key::NONE, |it| Key::lone(it.generation)),
        }
    }

    /// Publishes the key and the combined interest, and returns the key.
    pub(super) fn publish(&self) -> Key {
        let wishes = self.tops().chain(&self.beside).map(Activation::wish);
        let interest = wishes.fold(Interest::NONE, |all, wish| all | wish);
        let key = self.key();
        let is_off = interest == Interest::NONE || key == Key::NONE;
        let state = if is_off { 0 } else { key.0 << INTEREST_BITS | u64::from(interest.bits()) };
        STATE.store(state, Ordering::Release);
        key
    }

    /// Returns the current key and the profiler that a thread of this owner reports to.
    pub(super) fn look_up(&self, owner: Option<&Arc<Owner>>) -> (Key, ReportTarget<'_>) {
        let mut chain = owner.into_iter().flat_map(Owner::chain);
        let told = match chain.find(|owner| owner.is_active()) {
            Some(owner) => self.stack.iter().rfind(|entry| entry.is_of(owner)),
            None => self.lone().filter(|lone| is_open_to(lone, owner)),
        };
        let key = self.key();
        let reason = match self.stack.is_empty() {
            true => None,
            false if key.is_several() => Some(UnattributedReason::SeveralTrainings),
            false => Some(UnattributedReason::TrainingEnded),
        };
        (key, told.map_or(ReportTarget::Nobody(reason), ReportTarget::To))
    }

    fn lone(&self) -> Option<&Activation> {
        let mut tops = self.tops();
        tops.next().filter(|_| tops.next().is_none())
    }
}

/// Returns `true` if a thread of `owner` may report to the only training, which belongs to another
/// owner. A thread may not if its own training ended during this one.
fn is_open_to(lone: &Activation, owner: Option<&Arc<Owner>>) -> bool {
    let began = lone.owner.began.load(Ordering::Relaxed);
    let mut chain = owner.into_iter().flat_map(Owner::chain);
    chain.all(|owner| began > owner.ended.load(Ordering::Relaxed))
}
