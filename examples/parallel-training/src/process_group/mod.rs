//! Processes that train together, connected by TCP in a star with rank 0 at the centre.
//!
//! This is a minimal working implementation. To average, rank 0 gathers the numbers of all ranks,
//! adds them in rank order and sends the means back. All ranks therefore have bit-identical
//! results. The traffic of rank 0 grows with the number of ranks; larger runs would use a ring.

mod join;
mod wire;

use std::net::TcpStream;
use std::time::Duration;

use mlprof_core::{RunContext, profile};

pub use self::join::Meeting;
use self::wire::{Kind, Link};

/// An error of a group of ranks.
#[derive(thiserror::Error)]
#[non_exhaustive]
pub enum GroupError {
    /// The meeting point is missing or invalid.
    #[error("{0}")]
    Setting(String),
    /// Some ranks did not connect.
    #[error("cannot connect the ranks: {0}")]
    Join(String),
    /// A rank exited or no longer responds.
    #[error("lost rank {rank}: {why}")]
    Lost {
        /// The lost rank.
        rank: u32,
        /// Error of the connection.
        why: String,
    },
    /// A rank is at a different operation than this one.
    #[error(
        "rank {rank} is at {theirs}, but this rank is at {ours}: all ranks must run the same \
             steps"
    )]
    OutOfStep {
        /// The other rank.
        rank: u32,
        /// Operation of the other rank.
        theirs: String,
        /// Operation of this rank.
        ours: String,
    },
    /// A result differs between ranks.
    #[error("rank {rank} has the result {theirs:016x}, but rank 0 has {ours:016x}")]
    Different {
        /// The differing rank.
        rank: u32,
        /// Value of the differing rank.
        theirs: u64,
        /// Value of rank 0.
        ours: u64,
    },
}

mlprof_core::debug_as_display!(GroupError);

/// The result of a group operation.
pub type Result<T, E = GroupError> = std::result::Result<T, E>;

/// This process's connection to the other ranks of its run. Every rank must call the same methods
/// in the same order. If a rank exits, the others notice it in their next call.
pub struct ProcessGroup {
    world_size: u32,
    /// Connections in rank order. Rank 0 has one to every other rank, and other ranks have one to
    /// rank 0.
    links: Vec<Link>,
    is_root: bool,
}

impl std::fmt::Debug for ProcessGroup {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("ProcessGroup").finish_non_exhaustive()
    }
}

impl ProcessGroup {
    /// Creates the group of a single process.
    pub fn alone() -> Self {
        Self { world_size: 1, links: Vec::new(), is_root: true }
    }

    /// Waits until all ranks of `run` are connected.
    ///
    /// # Errors
    ///
    /// Returns an error if some ranks did not connect within the meeting's patience, or if some
    /// belong to another run.
    pub fn join(run: &RunContext, meeting: &Meeting) -> Result<Self> {
        let _scope = profile!("join_process_group");
        let links = join::links(run, meeting)?;
        Ok(Self { world_size: run.world_size, links, is_root: run.rank == 0 })
    }

    /// Replaces `values` with their means over all ranks.
    ///
    /// # Errors
    ///
    /// Returns an error if a rank is lost or out of step. `values` may have changed by then.
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

    /// Replaces `values` with those of rank 0.
    ///
    /// # Errors
    ///
    /// Returns the errors of [`all_reduce_mean`](Self::all_reduce_mean).
    pub fn broadcast(&mut self, values: &mut [f32]) -> Result<()> {
        let _scope = profile!("broadcast");
        let is_root = self.is_root;
        self.links.iter_mut().try_for_each(|link| match is_root {
            true => link.send(Kind::Broadcast, values),
            false => link.receive(Kind::Broadcast, values),
        })
    }

    /// Checks that all ranks have the same value.
    ///
    /// # Errors
    ///
    /// Returns [`GroupError::Different`] on every rank if values differ, and the errors of
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

/// Returns an error if the values differ. Rank 0 cannot differ from itself, so it means that no
/// rank differs.
fn verdict(rank: u32, theirs: u64, ours: u64) -> Result<()> {
    if rank == 0 { Ok(()) } else { Err(GroupError::Different { rank, theirs, ours }) }
}

fn link(stream: TcpStream, rank: u32, patience: Duration) -> Result<Link> {
    Link::new(stream, rank, patience).map_err(|error| {
        GroupError::Join(format!(
            "cannot use the connection to rank {rank}: \
                                                   {error}"
        ))
    })
}

#[cfg(test)]
mod tests;
