//! The collector, which creates timers for threads and collects the samples of their handlers.

use std::collections::{HashMap, HashSet};
use std::ptr;
use std::sync::atomic::Ordering;

use super::handler::{SNAPSHOT, on_signal};
use super::left_behind::{self, LeftBehind};
use super::process_layout::{Libraries, UnwindSnapshot};
use super::refusals::Refusals;
use super::retired_snapshots::RetiredSnapshots;
use super::sampled_threads::{EndedThreads, Member, Tally};
use super::samples_so_far::{SampleData, Totals};
use super::slot::Slots;
use super::stacks::LastPlaces;
use super::threads::{name_of, threads};
use super::timer::{self, Signal};
use crate::{SamplerError, SamplerSettings};
use mlprof_events::open_scopes;
use mlprof_events::own_thread::NAME_PREFIX;

/// Maximum processor time in nanoseconds that a thread may use while it counts as idle. This much
/// is spent at the end of the handler and to resume the wait.
const STILL_IDLE_NANOSECONDS: u64 = 50_000;

pub(super) struct Collector {
    settings: SamplerSettings,
    signal: Option<Signal>,
    slots: Slots,
    members: HashMap<i32, Member>,
    /// Threads whose lease has ended and whose handler may still be running.
    leaving: Vec<Member>,
    refusals: Refusals,
    /// Number of completed rounds.
    rounds: u64,
    /// Threads that are not sampled: mlprof's own, including the collector's.
    left_out: HashSet<i32>,
    libraries: Libraries,
    retired: RetiredSnapshots,
    /// Session of the active recorder.
    running: u64,
    totals: Totals,
    ended: EndedThreads,
    record: Vec<u64>,
    last_offset: u64,
}

impl Collector {
    pub(super) fn new(settings: SamplerSettings) -> Result<Self, SamplerError> {
        left_behind::free_unused();
        let mut libraries = Libraries::default();
        libraries.update();
        let totals = Totals {
            started: timer::monotonic(),
            processor_started: timer::processor_time_of_process(),
            ..Totals::default()
        };
        let mut collector = Self {
            settings,
            signal: None,
            slots: Slots::new(),
            members: HashMap::new(),
            leaving: Vec::new(),
            refusals: Refusals::default(),
            rounds: 0,
            left_out: HashSet::new(),
            libraries,
            retired: RetiredSnapshots::default(),
            running: 0,
            totals,
            ended: EndedThreads::default(),
            record: Vec::new(),
            last_offset: 0x9e37_79b9,
        };
        // Taking the signal can fail, and the libraries that a snapshot points into are then
        // dropped.
        collector.signal = Some(Signal::take(on_signal)?);
        collector.publish_world();
        Ok(collector)
    }

    /// Returns the ring size in words. It is enough for the deepest samples of two rounds at 1,000
    /// Hz.
    fn ring_words(&self) -> usize {
        (self.settings.hz as usize * 8).next_power_of_two().clamp(4096, 1 << 16)
    }

    pub(super) fn enter_session(&mut self, running: u64, alive: &[u64]) {
        self.drain();
        self.running = running;
        self.totals.tree.retain_sessions(alive);
        // Nodes of the tree have new ids now.
        self.members.values_mut().for_each(|member| member.place = None);
    }

    /// Finds new and ended threads, takes samples from the rings, and checks idle threads.
    pub(super) fn round(&mut self) {
        self.rounds += 1;
        self.find_threads();
        self.refresh_names();
        self.drain();
        self.look_after_idle_threads();
        self.take_leave();
        self.retired.free_unused();
    }

    fn publish_world(&mut self) {
        let snapshot = self.libraries.snapshot(self.settings);
        let before = SNAPSHOT.swap(Box::into_raw(Box::new(snapshot)), Ordering::SeqCst);
        self.retire(before);
    }

    fn retire(&mut self, snapshot: *mut UnwindSnapshot) {
        if !snapshot.is_null() {
            // SAFETY: `publish_world` created the pointer with `Box::into_raw`, and the caller has
            // swapped it out of `SNAPSHOT`. Only handlers that were inside a slot at that moment
            // may have it.
            unsafe { self.retired.add(snapshot, self.slots.all()) };
        }
    }

    fn find_threads(&mut self) {
        // If no file descriptor is available, the set of threads is unknown and stays unchanged.
        let Some(threads) = threads() else { return };
        self.members.values_mut().for_each(|member| member.is_present = false);
        self.left_out.retain(|thread| threads.contains(thread));
        self.refusals.retain(&threads);
        let mut new = Vec::new();
        for thread in threads {
            match self.members.get_mut(&thread) {
                Some(member) => member.is_present = true,
                None if self.left_out.contains(&thread) => {}
                None if self.refusals.is_due(thread, self.rounds) => new.push(thread),
                None => {}
            }
        }
        let gone: Vec<i32> =
            self.members.iter().filter(|(_, member)| !member.is_present).map(|(n, _)| *n).collect();
        gone.into_iter().for_each(|thread| self.let_go(thread));
        let mut has_new = false;
        for thread in new {
            has_new |= self.adopt(thread);
        }
        // The snapshot must be published before the timers of new threads run, because handlers
        // find their stacks in it.
        if self.libraries.have_changed() {
            self.libraries.update();
            self.publish_world();
        } else if has_new {
            self.publish_world();
        }
        self.hand_out_scopes();
    }

    /// Refreshes the names of threads after 1, 2, 4, … rounds. Most threads set their name when
    /// they begin, which may be after they were first seen.
    fn refresh_names(&mut self) {
        for member in self.members.values_mut() {
            member.rounds += 1;
            if member.rounds.is_power_of_two() {
                member.refresh_name();
            }
        }
        let is_ours = |member: &&Member| member.name.starts_with(NAME_PREFIX);
        let ours: Vec<i32> =
            self.members.values().filter(is_ours).map(|member| member.thread).collect();
        for thread in ours {
            // The thread blocks all signals, so it has no samples.
            self.let_go(thread);
            self.left_out.insert(thread);
        }
    }

    /// Assigns a slot and a timer to a thread, and returns `true` on success. The timer does not
    /// run yet.
    fn adopt(&mut self, thread: i32) -> bool {
        let name = name_of(thread);
        if name.starts_with(NAME_PREFIX) {
            self.left_out.insert(thread);
            return false;
        }
        let Some(slot) = self.slots.take(self.ring_words()) else {
            self.refusals.add(thread, self.rounds);
            return false;
        };
        slot.is_main.store(thread == std::process::id().cast_signed(), Ordering::Relaxed);
        let is_made = self.signal.as_ref().is_some_and(|signal| timer::make(slot, thread, signal));
        if !is_made {
            slot.lease.end(); // without a timer, no handler can have run
            self.slots.give_back(slot);
            // A thread that has ended meanwhile does not count as refused.
            if timer::processor_time_of(thread).is_some() {
                self.refusals.add(thread, self.rounds);
            }
            return false;
        }
        self.refusals.take_back(thread);
        let member = Member {
            slot,
            thread,
            name,
            rounds: 0,
            tally: Tally { threads: 1, ..Tally::default() },
            place: None,
            idle_until: None,
            dropped_before: 0,
            is_present: true,
        };
        let member = Member { dropped_before: member.ring().dropped(), ..member };
        self.members.insert(thread, member);
        true
    }

    /// Publishes the open scopes of all threads to their handlers, and starts the timers of new
    /// threads.
    fn hand_out_scopes(&mut self) {
        open_scopes::with_addresses(|addresses| {
            for member in self.members.values() {
                let address = addresses.get(&member.thread).map_or(ptr::null(), |found| found.0);
                member.slot.scopes.store(address.cast_mut(), Ordering::Relaxed);
            }
        });
        let period = self.settings.period();
        for member in self.members.values().filter(|member| !member.has_begun()) {
            // The timers start at different offsets, because timers that expire at the same moment
            // would disturb each other.
            self.last_offset = self.last_offset.wrapping_mul(0x5851_f42d_4c95_7f2d).wrapping_add(1);
            timer::run(member.timer(), (self.last_offset >> 33) % period, period);
            member.slot.has_begun.store(true, Ordering::Relaxed);
        }
    }

    /// Stops sampling a thread that has ended or is to be left out from now on.
    fn let_go(&mut self, thread: i32) {
        let Some(member) = self.members.remove(&thread) else { return };
        member.slot.lease.end();
        self.leaving.push(member);
        self.take_leave();
    }

    /// Deletes the timers of threads that are no longer sampled, and takes their slots back once no
    /// handler is inside.
    fn take_leave(&mut self) {
        let is_at_rest = |member: &mut Member| member.slot.lease.is_at_rest();
        let left: Vec<Member> = self.leaving.extract_if(.., is_at_rest).collect();
        for mut member in left {
            timer::delete(member.timer());
            self.take_samples(&mut member);
            self.slots.give_back(member.slot);
            self.ended.add(member);
        }
    }

    /// Takes all samples out of the rings.
    fn drain(&mut self) {
        let mut members = std::mem::take(&mut self.members);
        members.values_mut().for_each(|member| self.take_samples(member));
        self.members = members;
    }

    fn take_samples(&mut self, member: &mut Member) {
        let written = member.ring().written();
        while member.ring().take(written, &mut self.record) {
            let Some(added) = self.totals.tree.add(&self.record, self.running) else { continue };
            self.totals.samples += 1;
            self.totals.ticks += added.working + added.waiting + added.stalled;
            self.totals.cost += added.cost;
            member.place = Some(added.node);
            member.tally.working += added.working;
            member.tally.waiting += added.waiting;
            member.tally.stalled += added.stalled;
        }
        let dropped = member.ring().dropped();
        self.totals.dropped += dropped - member.dropped_before;
        member.dropped_before = dropped;
    }

    fn look_after_idle_threads(&mut self) {
        let (now, period) = (timer::monotonic(), self.settings.period());
        let Totals { tree, unsampled, .. } = &mut self.totals;
        for member in self.members.values_mut() {
            if !member.slot.is_idle.load(Ordering::Acquire) {
                continue;
            }
            let Some(time) = timer::processor_time_of(member.thread) else { continue };
            let used = time.saturating_sub(member.slot.idle_since.load(Ordering::Relaxed));
            let until = *member.idle_until.get_or_insert(now);
            let ticks = (now - until) / period;
            if used < STILL_IDLE_NANOSECONDS {
                member.tally.waiting += ticks;
                if let Some(place) = member.place {
                    tree.add_waiting(place, ticks);
                }
                member.idle_until = Some(until + ticks * period);
                continue;
            }
            *unsampled += used;
            member.idle_until = None;
            member.slot.is_idle.store(false, Ordering::Relaxed);
            timer::run(member.timer(), period, period);
        }
    }

    /// Returns `true` if every known thread has been sampled.
    pub(super) fn has_seen_all(&mut self) -> bool {
        self.drain();
        self.members.values().all(|member| member.place.is_some())
    }

    /// Returns the place of each thread at its last sample.
    pub(super) fn last_places(&mut self) -> LastPlaces {
        self.drain();
        let place = |member: &Member| (member.thread, member.name.clone(), member.place);
        LastPlaces {
            threads: self.members.values().map(place).collect(),
            tree: self.totals.tree.clone(),
            libraries: self.libraries.clone(),
        }
    }

    /// Ends all timers and gives the signal back. The collected samples are kept.
    pub(super) fn stop(&mut self) {
        self.drain();
        self.look_after_idle_threads();
        self.totals.stopped = Some(timer::monotonic());
        self.totals.processor_stopped = timer::processor_time_of_process();
        let members: Vec<i32> = self.members.keys().copied().collect();
        for thread in members {
            if let Some(member) = self.members.get_mut(&thread) {
                member.refresh_name();
            }
            self.let_go(thread);
        }
        let snapshot = SNAPSHOT.swap(ptr::null_mut(), Ordering::SeqCst);
        self.retire(snapshot);
        self.is_at_rest();
        self.slots.free_spare();
    }

    /// Returns `true` if no handler uses a resource of the stopped collector any more. Gives the
    /// signal back after the last timer is deleted.
    pub(super) fn is_at_rest(&mut self) -> bool {
        self.take_leave();
        self.retired.free_unused();
        if self.leaving.is_empty()
            && let Some(signal) = self.signal.take()
        {
            signal.give_back();
        }
        self.leaving.is_empty() && self.retired.is_empty()
    }

    /// Returns the number of the signal that interrupts threads, if there is one.
    pub(super) fn signal(&self) -> Option<libc::c_int> {
        self.signal.as_ref().map(|signal| signal.number)
    }

    /// Returns all data for a report, as of now.
    pub(super) fn found(&mut self) -> SampleData {
        self.drain();
        self.totals.refused = self.refusals.count();
        let (nanoseconds, processor) = self.spans();
        SampleData {
            hz: self.settings.hz,
            totals: self.totals.clone(),
            threads: self.ended.and(self.members.values().chain(&self.leaving)),
            libraries: self.libraries.clone(),
            nanoseconds,
            processor,
        }
    }

    /// Returns how long sampling has run, in nanoseconds, and the processor time that the process
    /// used meanwhile.
    fn spans(&self) -> (u64, u64) {
        let totals = &self.totals;
        let (now, used) = match totals.stopped {
            Some(stopped) => (stopped, totals.processor_stopped),
            None => (timer::monotonic(), timer::processor_time_of_process()),
        };
        (now - totals.started, used.saturating_sub(totals.processor_started))
    }
}

impl Drop for Collector {
    fn drop(&mut self) {
        if self.is_at_rest() {
            return;
        }
        left_behind::keep(LeftBehind {
            snapshots: std::mem::take(&mut self.retired),
            libraries: std::mem::take(&mut self.libraries),
            leaving: std::mem::take(&mut self.leaving),
            signal: self.signal.take(),
        });
    }
}
