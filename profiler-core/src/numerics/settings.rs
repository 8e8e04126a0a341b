//! Settings of the numerics profiler.

use super::NumericsProfiler;
use crate::report::Setting;

/// Current settings.
#[derive(Debug, Clone)]
pub(super) struct Settings {
    pub(super) every: u64,
    pub(super) watches: bool,
    pub(super) looks_at_ops: bool,
    pub(super) stops: bool,
    pub(super) reruns: bool,
    pub(super) hashes: Hashes,
    pub(super) saves: bool,
    pub(super) seed: Option<u64>,
    /// Maximum number of tensors to keep per step.
    pub(super) most_tensors: usize,
    /// Maximum number of bytes to write per step.
    pub(super) most_bytes: usize,
}

/// Tensors of recorded steps that are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hashes {
    /// Only batches.
    Batches,
    /// Batches and all tensors in host memory.
    OnHost,
    /// All tensors. Tensors on devices are copied for this.
    All,
}

impl Hashes {
    const fn name(self) -> &'static str {
        match self {
            Self::Batches => "batches",
            Self::OnHost => "on_host",
            Self::All => "all",
        }
    }
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            every: 10,
            watches: true,
            looks_at_ops: false,
            stops: false,
            reruns: false,
            hashes: Hashes::OnHost,
            saves: false,
            seed: None,
            most_tensors: 20_000,
            most_bytes: 32 << 20,
        }
    }
}

impl Settings {
    /// Returns the settings in the form used by reports and records.
    pub(super) fn told(&self) -> Vec<Setting> {
        let yes_or_no = |name, is| Setting::new(name, bool::to_string(&is));
        vec![
            Setting::new("every", self.every.to_string()),
            yes_or_no("watch", self.watches),
            yes_or_no("ops", self.looks_at_ops),
            yes_or_no("stop_on_nan", self.stops),
            yes_or_no("rerun", self.reruns),
            Setting::new("hash", self.hashes.name()),
            yes_or_no("save_tensors", self.saves),
            Setting::new("tensors_per_step", self.most_tensors.to_string()),
            Setting::new("bytes_per_step", self.most_bytes.to_string()),
        ]
    }

    /// Returns `true` if a batch with a non-finite value is run again.
    pub(super) const fn runs_again(&self) -> bool {
        self.stops || self.reruns
    }
}

impl NumericsProfiler {
    /// Records one in `steps` steps, beginning with the first. 1 records all steps. 0 records only
    /// the step after a non-finite value.
    #[must_use]
    pub fn every(mut self, steps: u64) -> Self {
        self.settings.every = steps;
        self.begin_step(&self.state());
        self
    }

    /// Enables or disables the check of every tensor in every step for NaN and infinity. It is
    /// enabled by default. Without it, only tensors of recorded steps are checked.
    #[must_use]
    pub fn watch(mut self, watches: bool) -> Self {
        self.settings.watches = watches;
        self.begin_step(&self.state());
        self
    }

    /// Enables or disables reading of op outputs. They are recorded in recorded steps, together
    /// with the module around the op, and checked in all other steps. By default, op outputs are
    /// only read in the step after a non-finite value and in the rerun of a batch. An op only
    /// counts as producing non-finite values if its inputs are finite. A mask of infinities
    /// therefore does not count.
    ///
    /// These outputs are not read:
    ///
    /// - views, which return their input unchanged
    /// - tensors that an op deliberately leaves uninitialised
    /// - integer tensors
    /// - lists that are changed in place
    ///
    /// An op that contains other ops is reported after them.
    ///
    /// *Cost*: every output value of an op is read. Inputs are read only if the output is not
    /// finite.
    #[must_use]
    pub fn ops(mut self, looks: bool) -> Self {
        self.settings.looks_at_ops = looks;
        self.begin_step(&self.state());
        self
    }

    /// Enables or disables ending the training at the first non-finite value. If the value is
    /// detected in time, the training ends before the optimizer changes the parameters. mlprof's
    /// trainer checks [`reason_to_stop`](crate::ProfilerExt::reason_to_stop), and a hand-written
    /// loop may also do so. Unless the step was recorded, the trainer first repeats forward and
    /// backward on that batch, from the same parameters, and records everything. The report shows
    /// the result.
    #[must_use]
    pub fn stop_on_nan(mut self, stops: bool) -> Self {
        self.settings.stops = stops;
        self
    }

    /// Enables or disables a recorded rerun of the first batch with a non-finite value, even if the
    /// training continues afterwards. mlprof's trainer runs the batch forward again.
    ///
    /// *This changes the training result* if a forward pass has side effects, such as random
    /// numbers for dropout or the running means of batch normalisation. The run's logs do not
    /// change, and the gradients of the first pass are used.
    #[must_use]
    pub fn rerun(mut self, reruns: bool) -> Self {
        self.settings.reruns = reruns;
        self
    }

    /// Selects the tensors of recorded steps that have a
    /// [hash](crate::report::numerics::RecordedTensor::hash) of all their values. `mlprof
    /// compare-numerics` uses it to prove that two tensors are equal.
    ///
    /// - `true` hashes all tensors, including those on devices.
    /// - `false` hashes only batches.
    /// - By default, batches and all tensors in host memory are hashed.
    ///
    /// *Cost*: 1 to 2 ns per value. With `true`, each tensor on a device is also copied, which
    /// waits for the device.
    #[must_use]
    pub fn hash(mut self, hashes: bool) -> Self {
        self.settings.hashes = if hashes { Hashes::All } else { Hashes::Batches };
        self
    }

    /// Enables or disables saving the first non-finite tensor, and its input if known. The file is
    /// `{stage}-{filename}[-{rank}].numerics.safetensors` in the [directory](Self::dirpath). It
    /// contains `output` (or `loss`, …) and `input`, with role, name, step, thread, type and hash
    /// in its metadata. 16-bit floats are saved as `F32`, without loss, and integers as `F64`.
    /// Tensors of more than 1 GiB are not saved, which the report mentions.
    #[must_use]
    pub fn save_tensors(mut self, saves: bool) -> Self {
        self.settings.saves = saves;
        self
    }

    /// Sets the random seed for the header of the record, if no trainer provides it or a different
    /// seed applies.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// Limits the size of a step in the record. The default is 20,000 tensors and 32 MiB. Dropped
    /// tensors are counted, and the report mentions them. The report's table covers all tensors.
    #[must_use]
    pub fn most_per_step(mut self, tensors: usize, bytes: usize) -> Self {
        (self.settings.most_tensors, self.settings.most_bytes) = (tensors, bytes);
        self
    }
}
