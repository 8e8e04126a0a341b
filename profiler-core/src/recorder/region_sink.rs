//! Delivers device regions to the session in which they were opened.

use std::sync::{Arc, PoisonError};

use super::attach::Closed;
use super::regions::Regions;
use super::{Recorder, Session, Sessions, Table};
use crate::Stage;
use crate::hook::{DeviceEvent, RegionSink};
use mlprof_events::forking::{Mutex, apart_from_forks};

impl<T: Table> Recorder<T> {
    /// Returns the sink for device regions that are opened now or later.
    pub(crate) fn region_sink(&self) -> Arc<dyn RegionSink> {
        Arc::new(SessionsSink { sessions: self.sessions.clone(), regions: |it| &mut it.regions })
    }

    /// Returns the sink for the device time of actions.
    pub(crate) fn device_time_sink(&self) -> Arc<dyn RegionSink> {
        Arc::new(SessionsSink {
            sessions: self.sessions.clone(),
            regions: |it| &mut it.device_time,
        })
    }
}

/// Sink that adds regions to the sessions of a recorder.
struct SessionsSink<T: Table> {
    sessions: Arc<Mutex<Sessions<T>>>,
    /// Selects the regions of a session that the sink adds to.
    regions: fn(&mut Session<T>) -> &mut Regions,
}

impl<T: Table> RegionSink for SessionsSink<T> {
    fn region(&self, event: &DeviceEvent, nanoseconds: u64) {
        apart_from_forks(|| {
            let _closed = Closed::begin();
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(session) = sessions.at(event.start.ticks()) {
                (self.regions)(session).add(event.action, nanoseconds);
            }
        });
    }

    fn lost(&self, why: &str) {
        apart_from_forks(|| {
            let _closed = Closed::begin();
            let mut sessions = self.sessions.lock().unwrap_or_else(PoisonError::into_inner);
            if let Some(session) = sessions.running.last_mut() {
                (self.regions)(session).add_lost(why, 1);
            }
        });
    }
}

impl<T: Table> Sessions<T> {
    /// Returns the session in which an event that began at `ticks` belongs.
    fn at(&mut self, ticks: u64) -> Option<&mut Session<T>> {
        let running = self.running.iter().rposition(|session| session.started <= ticks);
        let session = match (running, &mut self.finished) {
            (Some(position), _) => &mut self.running[position],
            (None, Some(finished)) => finished,
            (None, None) => self.running.first_mut()?,
        };
        // Ended sessions inside this one keep their own regions.
        let is_there = |inner: &Session<T>| {
            inner.started <= ticks && inner.ended.is_some_and(|end| ticks < end)
        };
        match session.inner.iter().position(is_there) {
            Some(position) => session.inner.get_mut(position),
            None => Some(session),
        }
    }
}

impl<T: Table> Session<T> {
    /// Adds the regions that `pick` selects, of this session and of the ended stages inside it.
    pub(super) fn add_regions(
        &self,
        pick: fn(&Self) -> &Regions,
        regions: &mut Vec<(Option<Stage>, Regions)>,
        sub_stage: Option<Stage>,
    ) {
        if !pick(self).is_empty() {
            regions.push((sub_stage, pick(self).clone()));
        }
        self.inner.iter().for_each(|inner| inner.add_regions(pick, regions, inner.stage));
    }
}
