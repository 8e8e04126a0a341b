//! Which process of a run this is: rank, local rank, world size, and the run's directory.

mod launchers;

use std::path::PathBuf;
use std::sync::Once;

use crate::files::{StandardStream, print};
use crate::forking::apart_from_forks;

/// What a run tells its profiler at `Profiler::setup`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunContext {
    /// The number of this process among all of the run, from 0, over all nodes.
    pub rank: u32,
    /// The number of this process among those on its own node, from 0: which device is its own.
    pub local_rank: u32,
    /// How many processes take part; 1 for most runs.
    pub world_size: u32,
    /// The trainer's own directory: reports go there if a file name but no directory was given.
    pub log_dir: Option<PathBuf>,
    /// What random numbers were seeded with, where the trainer was told.
    pub seed: Option<u64>,
}

impl Default for RunContext {
    /// The only process of its run, without a directory.
    fn default() -> Self {
        Self { rank: 0, local_rank: 0, world_size: 1, log_dir: None, seed: None }
    }
}

impl RunContext {
    /// Rank, local rank and world size from the variables that launchers set. The first launcher
    /// of this list that says both rank and world size is believed:
    ///
    /// | launcher | rank | local rank | world size |
    /// |---|---|---|---|
    /// | torchrun, and by hand | `RANK` | `LOCAL_RANK` | `WORLD_SIZE` |
    /// | Open MPI's `mpirun` | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_LOCAL_RANK` | `OMPI_COMM_WORLD_SIZE` |
    /// | MPICH's and Intel's `mpirun` | `PMI_RANK` | `MPI_LOCALRANKID` | `PMI_SIZE` |
    /// | SLURM's `srun` | `SLURM_PROCID` | `SLURM_LOCALID` | `SLURM_STEP_NUM_TASKS`, else `SLURM_NTASKS` |
    ///
    /// A local rank that is not said, or makes no sense, is taken to be the rank, as it is when all
    /// processes are on one node. Empty variables count as missing.
    ///
    /// *SLURM* sets `SLURM_NTASKS` to what a job asked for even where nothing has started so many
    /// processes: in the batch script itself, and in a shell of `salloc`. So only tasks of `srun`
    /// are believed: those that know their step (`SLURM_STEP_NUM_TASKS`, `SLURM_STEP_ID`) or are
    /// not the first (`SLURM_PROCID` above 0), and not in a job that is named `bash` or
    /// `interactive`, as for Lightning. Everything else is a single process.
    ///
    /// Where no launcher says anything this is the only process of its run. The same where they
    /// make no sense (a rank that is not below the world size, text, a rank above 0 without a world
    /// size), and a warning on standard error then says so, once per process: several such
    /// processes would write to the same files.
    pub fn from_environment() -> Self {
        let (run, problem) = launchers::read(|name| {
            // Something that is not even text is as wrong as a text that is no number.
            crate::environment::variable(name).map(|value| value.to_string_lossy().into_owned())
        });
        if let Some(problem) = problem {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                let warning = format!("warning: {problem} (Said once.)\n");
                // Where standard error is closed there is nobody left to tell.
                let _ = apart_from_forks(|| print(StandardStream::Error, warning.as_bytes()));
            });
        }
        run
    }

    /// Says what random numbers were seeded with: what the numerics profiler's record has, by which two runs are told
    /// apart that began differently.
    #[must_use]
    pub const fn with_seed(mut self, seed: u64) -> Self {
        self.seed = Some(seed);
        self
    }

    /// Sets the trainer's directory.
    #[must_use]
    pub fn with_log_dir(mut self, log_dir: impl Into<PathBuf>) -> Self {
        self.log_dir = Some(log_dir.into());
        self
    }

    /// Sets rank and world size; the local rank becomes the rank, as it is when all processes are
    /// on one node.
    #[must_use]
    pub fn with_rank(mut self, rank: u32, world_size: u32) -> Self {
        (self.rank, self.local_rank, self.world_size) = (rank, rank, world_size);
        self
    }

    /// Sets the local rank. After [`with_rank`](Self::with_rank), which sets it too.
    #[must_use]
    pub fn with_local_rank(mut self, local_rank: u32) -> Self {
        self.local_rank = local_rank;
        self
    }

    /// As [`from_environment`](Self::from_environment), from these variables, in silence.
    #[doc(hidden)]
    pub fn from_variables(variables: &[(&str, &str)]) -> Self {
        launchers::read(launchers::lookup_in(variables)).0
    }
}
