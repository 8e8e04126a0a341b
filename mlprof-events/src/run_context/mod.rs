//! Position of the process in a distributed run: rank, local rank, world size, and the run's
//! directory.

mod launchers;

use std::path::PathBuf;
use std::sync::Once;

use crate::files::{StandardStream, print};
use crate::forking::apart_from_forks;

/// Context of a run, passed to its profiler at `Profiler::setup`.
#[derive(Debug, Clone, PartialEq, Eq)]
#[non_exhaustive]
pub struct RunContext {
    /// Index of this process among all processes of the run on all nodes, counted from 0.
    pub rank: u32,
    /// Index of this process among those on its own node, counted from 0. It selects the process's
    /// device.
    pub local_rank: u32,
    /// Number of processes in the run; 1 for most runs.
    pub world_size: u32,
    /// The trainer's own directory. Reports are written there if a file name but no directory was
    /// given.
    pub log_dir: Option<PathBuf>,
    /// Seed of the random number generators, if the trainer knows it.
    pub seed: Option<u64>,
}

impl Default for RunContext {
    /// Returns the context of a single process without a directory.
    fn default() -> Self {
        Self { rank: 0, local_rank: 0, world_size: 1, log_dir: None, seed: None }
    }
}

impl RunContext {
    /// Reads rank, local rank and world size from the variables that launchers set. It uses the
    /// first launcher in this list with both a rank and a world size:
    ///
    /// | launcher | rank | local rank | world size |
    /// |---|---|---|---|
    /// | torchrun, and by hand | `RANK` | `LOCAL_RANK` | `WORLD_SIZE` |
    /// | Open MPI's `mpirun` | `OMPI_COMM_WORLD_RANK` | `OMPI_COMM_WORLD_LOCAL_RANK` | `OMPI_COMM_WORLD_SIZE` |
    /// | MPICH's and Intel's `mpirun` | `PMI_RANK` | `MPI_LOCALRANKID` | `PMI_SIZE` |
    /// | SLURM's `srun` | `SLURM_PROCID` | `SLURM_LOCALID` | `SLURM_STEP_NUM_TASKS`, else `SLURM_NTASKS` |
    ///
    /// If the local rank is missing or invalid, the rank is used, which is correct when all
    /// processes are on one node. Empty variables count as missing.
    ///
    /// *SLURM* sets `SLURM_NTASKS` to the number of tasks that a job requested. It does so even in
    /// the batch script and in a shell of `salloc`, where only one process runs. So only tasks of
    /// `srun` are accepted:
    ///
    /// - A task knows its step (`SLURM_STEP_NUM_TASKS`, `SLURM_STEP_ID`), or it is not the first
    ///   (`SLURM_PROCID` above 0).
    /// - Its job is not named `bash` or `interactive`, which is Lightning's rule.
    ///
    /// Every other process counts as a single process.
    ///
    /// If no launcher variables are set, this is the only process of its run. The same result is
    /// used for invalid variables: a rank that is not below the world size, a text, or a rank above
    /// 0 without a world size. A warning on standard error then reports the problem once per
    /// process, because several such processes would write to the same files.
    pub fn from_environment() -> Self {
        let (run, problem) = launchers::read(|name| {
            // A value that is not valid Unicode is as invalid as a text that is not a number.
            crate::environment::variable(name).map(|value| value.to_string_lossy().into_owned())
        });
        if let Some(problem) = problem {
            static SAID: Once = Once::new();
            SAID.call_once(|| {
                let warning = format!("warning: {problem} (Reported once.)\n");
                // A failure is ignored: if standard error is closed, the warning cannot be shown.
                let _ = apart_from_forks(|| print(StandardStream::Error, warning.as_bytes()));
            });
        }
        run
    }

    /// Sets the seed of the random number generators. The numerics profiler records it, so that two
    /// runs with different seeds can be distinguished.
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

    /// Sets rank and world size. The local rank is set to the rank, which is correct when all
    /// processes are on one node.
    #[must_use]
    pub fn with_rank(mut self, rank: u32, world_size: u32) -> Self {
        (self.rank, self.local_rank, self.world_size) = (rank, rank, world_size);
        self
    }

    /// Sets the local rank. Call it after [`with_rank`](Self::with_rank), which also sets the local
    /// rank.
    #[must_use]
    pub fn with_local_rank(mut self, local_rank: u32) -> Self {
        self.local_rank = local_rank;
        self
    }

    /// Reads the given variables like [`from_environment`](Self::from_environment), but prints no
    /// warning.
    #[doc(hidden)]
    pub fn from_variables(variables: &[(&str, &str)]) -> Self {
        launchers::read(launchers::lookup_in(variables)).0
    }
}
