//! Processes that train together, connected by TCP: rank 0 in the middle, all others to it.
//!
//! As simple as it can be and still real: to average, rank 0 gathers the numbers of all, adds them
//! up in the order of ranks and sends the means back, so that all ranks have the same, to the last
//! bit. What rank 0 carries grows with the number of ranks; many would form a ring instead.

mod join;
mod wire;

use std::net::TcpStream;
use std::time::Duration;

use mlprof_core::{RunContext, profile};

pub use self::join::Meeting;
use self::wire::{Kind, Link};

/// Why ranks cannot go on together.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// Where to meet was not said, or makes no sense.
    #[error("{0}")]
    Setting(String),
    /// The ranks did not all come together.
    #[error("the ranks did not come together: {0}")]
    Join(String),
    /// A rank ended, or does not answer any more.
    #[error("rank {rank} is lost: {why}")]
    Lost {
        /// Which.
        rank: u32,
        /// What the connection says.
        why: String,
    },
    /// A rank is somewhere else in the program than this one.
    #[error("rank {rank} has come to {theirs}, this rank to {ours}: they must run the same steps")]
    OutOfStep {
        /// Which.
        rank: u32,
        /// What it does.
        theirs: String,
        /// What this rank does.
        ours: String,
    },
    /// A result differs between ranks.
    #[error("rank {rank} has {theirs:016x} where rank 0 has {ours:016x}")]
    Different {
        /// Which.
        rank: u32,
        /// Its value.
        theirs: u64,
        /// That of rank 0.
        ours: u64,
    },
}

mlprof_core::debug_as_display!(GroupError);

/// The result of what several ranks do together.
pub type Result<T, E = GroupError> = std::result::Result<T, E>;

/// This process's connection to the others of its run. Every rank must call the same methods in
/// the same order; one that ends is noticed by the others at their next call.
pub struct ProcessGroup {
    world_size: u32,
    /// Of rank 0 to all others, in the order of ranks; of another to rank 0.
    links: Vec<Link>,
    is_root: bool,
}

impl std::fmt::Debug for ProcessGroup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ProcessGroup").finish_non_exhaustive()
    }
}

impl ProcessGroup {
    /// The group of a process that has no others.
    pub fn alone() -> Self {
        Self { world_size: 1, links: Vec::new(), is_root: true }
    }

    /// Waits until all ranks of `run` have met.
    ///
    /// # Errors
    ///
    /// Not all came within the meeting's patience, or some say that they belong to another run.
    pub fn join(run: &RunContext, meeting: &Meeting) -> Result<Self> {
        let _scope = profile!("join_process_group");
        let links = join::links(run, meeting)?;
        Ok(Self { world_size: run.world_size, links, is_root: run.rank == 0 })
    }

    /// Replaces `values` by their means over all ranks.
    ///
    /// # Errors
    ///
    /// A rank is lost or out of step. `values` may have changed by then.
    pub fn all_reduce_mean(&mut self, values: &mut [f32]) -> Result<()> {
        let _scope = profile!("all_reduce_mean");
        if !self.is_root {
            for link in &mut self.links {
                link.send(Kind::Mean, values)?;
                link.receive(Kind::Mean, values)?;
            }
            return Ok(());
        }
        let mut theirs = vec![0.0; values.len()];
        for link in &mut self.links {
            link.receive(Kind::Mean, &mut theirs)?;
            values.iter_mut().zip(&theirs).for_each(|(sum, value)| *sum += value);
        }
        let share = 1.0 / self.world_size as f32;
        values.iter_mut().for_each(|sum| *sum *= share);
        self.links.iter_mut().try_for_each(|link| link.send(Kind::Mean, values))
    }

    /// Replaces `values` by those of rank 0.
    ///
    /// # Errors
    ///
    /// As [`all_reduce_mean`](Self::all_reduce_mean).
    pub fn broadcast(&mut self, values: &mut [f32]) -> Result<()> {
        let _scope = profile!("broadcast");
        let is_root = self.is_root;
        self.links.iter_mut().try_for_each(|link| match is_root {
            true => link.send(Kind::Broadcast, values),
            false => link.receive(Kind::Broadcast, values),
        })
    }

    /// Makes sure that all ranks have come to the same result.
    ///
    /// # Errors
    ///
    /// [`GroupError::Different`], on every rank; and as
    /// [`all_reduce_mean`](Self::all_reduce_mean).
    pub fn check_equal(&mut self, value: u64) -> Result<()> {
        let mut outcome = Ok(());
        if self.is_root {
            let theirs: Vec<_> = self
                .links
                .iter_mut()
                .map(|link| link.receive_words(Kind::Compare).map(|[theirs, _]| theirs))
                .collect::<Result<_>>()?;
            let different = (1..).zip(theirs).find(|&(_, theirs)| theirs != value);
            let (rank, theirs) = different.unwrap_or((0, value));
            for link in &mut self.links {
                link.send_words(Kind::Verdict, [u64::from(rank), theirs])?;
                link.send_words(Kind::Verdict, [value, 0])?;
            }
            outcome = verdict(rank, theirs, value);
        }
        for link in self.links.iter_mut().filter(|_| !self.is_root) {
            link.send_words(Kind::Compare, [value, 0])?;
            let [rank, theirs] = link.receive_words(Kind::Verdict)?;
            let [ours, _] = link.receive_words(Kind::Verdict)?;
            outcome = verdict(rank as u32, theirs, ours);
        }
        outcome
    }
}

/// Rank 0 cannot differ from itself: it stands for nobody.
fn verdict(rank: u32, theirs: u64, ours: u64) -> Result<()> {
    if rank == 0 { Ok(()) } else { Err(GroupError::Different { rank, theirs, ours }) }
}

fn link(stream: TcpStream, rank: u32, patience: Duration) -> Result<Link> {
    Link::new(stream, rank, patience)
        .map_err(|error| GroupError::Join(format!("the connection to rank {rank}: {error}")))
}

#[cfg(test)]
mod tests;
