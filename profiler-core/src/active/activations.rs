//! All activations of the process, and what threads see of them at a glance.

use std::sync::atomic::{AtomicBool, AtomicU16, AtomicU64, Ordering};
use std::sync::{Arc, PoisonError};

use super::owner::Owner;
use crate::{Interest, Profiler};
use mlprof_events::forking::{Mutex, MutexGuard};
use mlprof_events::{UnattributedReason, UnattributedWork};

const INTEREST_BITS: u32 = u16::BITS;

/// The key of what is active above what that wants; 0 where nothing is wanted.
static STATE: AtomicU64 = AtomicU64::new(0);

/// What is active, as threads remember it. Changes whenever another profiler may be the one to tell.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Key(u64);

impl Key {
    pub(super) const NONE: Self = Self(0);

    /// Of an activation that every thread reports to.
    const fn lone(generation: u64) -> Self {
        Self(generation << 1)
    }

    /// Of several that are told apart by thread.
    const fn several(number: u64) -> Self {
        Self(number << 1 | 1)
    }

    #[inline(always)]
    pub(super) const fn is_several(self) -> bool {
        self.0 & 1 == 1
    }
}

/// What [`STATE`] says.
#[derive(Clone, Copy)]
pub(super) struct State(u64);

impl State {
    #[inline(always)]
    pub(super) fn load() -> Self {
        Self(STATE.load(Ordering::Relaxed))
    }

    /// What some active profiler wants.
    #[inline(always)]
    pub(super) const fn interest(self) -> Interest {
        Interest::from_bits(self.0 as u16)
    }

    /// Whether something is active that wants all of this.
    #[inline(always)]
    pub(super) const fn wants(self, interest: Interest) -> bool {
        self.0 != 0 && self.interest().contains(interest)
    }

    #[inline(always)]
    pub(super) const fn key(self) -> Key {
        Key(self.0 >> INTEREST_BITS)
    }

    /// Until [`Activations::publish`] the key is one that no thread remembers.
    pub(super) fn take_slow_path() {
        if STATE.load(Ordering::Relaxed) != 0 {
            STATE.fetch_or(STRANGE, Ordering::Relaxed);
        }
    }
}

/// The highest bit, which no number of an activation ever reaches.
const STRANGE: u64 = 1 << 63;

static ACTIVATIONS: Mutex<Activations> = Mutex::new(Activations {
    last: 0,
    several: 0,
    beside: None,
    besides: Vec::new(),
    stack: Vec::new(),
});

/// A profiler that is active.
#[derive(Clone)]
pub(super) struct Activation {
    /// What ends it; above 0, never used twice.
    pub(super) number: u64,
    /// By which threads remember who is told; as above.
    pub(super) generation: u64,
    pub(super) owner: Arc<Owner>,
    /// As it was given.
    pub(super) profiler: Arc<dyn Profiler>,
    /// Who is told: it, and the one that is beside all others.
    pub(super) told: Arc<dyn Profiler>,
    /// The bits of what that one wants.
    pub(super) wish: Arc<AtomicU16>,
    pub(super) unattributed: Arc<UnattributedWork>,
    /// Whether a thread has opened a scope under it.
    pub(super) is_used: Arc<AtomicBool>,
    /// Whether its report says that work of devices is the whole process's.
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

/// Who a thread reports to.
pub(super) enum Told<'all> {
    To(&'all Activation),
    /// To none of the trainings; `None` if there is none.
    Nobody(Option<UnattributedReason>),
}

pub(super) struct Activations {
    /// The last number that was given to anything.
    last: u64,
    /// Changes with the activations while there are several owners.
    several: u64,
    /// Is told of whatever any other is told of, and of what nobody is told of.
    beside: Option<Activation>,
    /// All that are beside others: what it consists of.
    besides: Vec<Arc<dyn Profiler>>,
    /// In the order of activation; the last one of its owner is active for that one.
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

    /// Its number.
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

    /// Has a profiler told of everything, which consists of `besides`. What is active already is combined with
    /// those. Its number.
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

    /// Has one of those that are beside others be none of them any more. Whoever is told together
    /// with it is so until [`set_beside`](Self::set_beside).
    pub(super) fn forget_beside(&mut self, profiler: &Arc<dyn Profiler>) {
        self.besides.retain(|beside| !Arc::ptr_eq(beside, profiler));
    }

    /// What is not active any more, to be dropped outside of the lock.
    pub(super) fn remove(&mut self, number: u64) -> Option<Activation> {
        if let Some(gone) = self.beside.take_if(|beside| beside.number == number) {
            self.besides.clear();
            self.changed();
            return Some(gone);
        }
        let position = self.stack.iter().position(|entry| entry.number == number)?;
        let gone = self.stack.remove(position);
        // Whatever its code did since the other one began is in the other one's report.
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

    /// The one that is active for each owner.
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

    /// Says what is active and wanted now, and answers the key.
    pub(super) fn publish(&self) -> Key {
        let wishes = self.tops().chain(&self.beside).map(Activation::wish);
        let interest = wishes.fold(Interest::NONE, |all, wish| all | wish);
        let key = self.key();
        let is_off = interest == Interest::NONE || key == Key::NONE;
        let state = if is_off { 0 } else { key.0 << INTEREST_BITS | u64::from(interest.bits()) };
        STATE.store(state, Ordering::Release);
        key
    }

    /// The key of this moment, and who a thread of this owner reports to.
    pub(super) fn look_up(&self, owner: Option<&Arc<Owner>>) -> (Key, Told<'_>) {
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
        (key, told.map_or(Told::Nobody(reason), Told::To))
    }

    fn lone(&self) -> Option<&Activation> {
        let mut tops = self.tops();
        tops.next().filter(|_| tops.next().is_none())
    }
}

/// Whether a thread may report to the only training that there is, whose it is not. Not one that had a
/// training of its own beside this one: that one is over.
fn is_open_to(lone: &Activation, owner: Option<&Arc<Owner>>) -> bool {
    let began = lone.owner.began.load(Ordering::Relaxed);
    let mut chain = owner.into_iter().flat_map(Owner::chain);
    chain.all(|owner| began > owner.ended.load(Ordering::Relaxed))
}
