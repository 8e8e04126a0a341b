//! What a numerics profiler is told.

use super::NumericsProfiler;
use crate::report::Setting;

/// What it was told.
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
    /// So many tensors of a step are kept until it ends.
    pub(super) most_tensors: usize,
    /// So many bytes of a step are written.
    pub(super) most_bytes: usize,
}

/// Tensors of recorded steps that are hashed.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Hashes {
    /// Batches only.
    Batches,
    /// In addition all tensors that are in the host's memory.
    OnHost,
    /// All tensors: those on devices are copied.
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
    /// As reports and records say them.
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

    /// Whether a batch is run again in which something was not finite.
    pub(super) const fn runs_again(&self) -> bool {
        self.stops || self.reruns
    }
}

impl NumericsProfiler {
    /// Of every so many steps one is recorded, beginning with the first; with 1 all are, with 0 none but those after something was
    /// not finite.
    #[must_use]
    pub fn every(mut self, steps: u64) -> Self {
        self.settings.every = steps;
        self.begin_step(&self.state());
        self
    }

    /// Whether every tensor of every step is looked at for NaN and infinity. It is, unless this says `false`: then only those of
    /// recorded steps.
    #[must_use]
    pub fn watch(mut self, watches: bool) -> Self {
        self.settings.watches = watches;
        self.begin_step(&self.state());
        self
    }

    /// Whether outputs of ops are looked at, too: recorded in recorded steps, with the module around the op, and watched in all
    /// others. Without it they are only looked at in the step after something was not finite, which names the op if it happens
    /// again, and where a batch is run again. Of ops only those count as not finite whose inputs are: a mask of infinities is none.
    ///
    /// What is not looked at: what an op returns of its inputs as it is (views), tensors that an op leaves empty on purpose, whole
    /// numbers, and lists that are changed in place. An op that others are part of is told after them.
    ///
    /// *Cost*: each number that an op returns is read; those that it is given only where what it returns is not finite.
    #[must_use]
    pub fn ops(mut self, looks: bool) -> Self {
        self.settings.looks_at_ops = looks;
        self.begin_step(&self.state());
        self
    }

    /// Whether the training is to end when a number is not finite, before it gets into the
    /// parameters if it was seen by then. This project's trainer asks
    /// [`reason_to_stop`](crate::ProfilerExt::reason_to_stop); a loop of one's own may. Before it
    /// ends the trainer runs forward and backward on that batch again, from the same parameters,
    /// with all of it recorded, unless the step was recorded already: the report says what that has
    /// shown.
    #[must_use]
    pub fn stop_on_nan(mut self, stops: bool) -> Self {
        self.settings.stops = stops;
        self
    }

    /// Whether this project's trainer runs a batch forward again, with all of it recorded, in which something was not finite for the
    /// first time, also where the training then goes on.
    ///
    /// *This changes what is learned* where a forward pass changes something: random numbers, as for dropout, or the running means of a
    /// batch normalisation. What the run logs is not changed, and gradients are those of the first pass.
    #[must_use]
    pub fn rerun(mut self, reruns: bool) -> Self {
        self.settings.reruns = reruns;
        self
    }

    /// Sets which tensors of recorded steps have a
    /// [hash](crate::report::numerics::RecordedTensor::hash) of all their numbers, by which `mlprof
    /// compare-numerics` proves that two are equal. Without a call these are batches and all
    /// tensors in the host's memory. With `true` tensors on devices have one, too; with `false`
    /// only batches do.
    ///
    /// *Cost*: one to two nanoseconds per number; with `true` a copy of each tensor from its
    /// device, which waits for the device.
    #[must_use]
    pub fn hash(mut self, hashes: bool) -> Self {
        self.settings.hashes = if hashes { Hashes::All } else { Hashes::Batches };
        self
    }

    /// Whether the first tensor that is not finite is saved, with what it was computed from where that is known, in
    /// `{stage}-{filename}[-{rank}].numerics.safetensors` in the [directory](Self::dirpath): `output` (or `loss`, …) and `input`, with
    /// role, name, step, thread, type and hash in the file's metadata. Numbers of 16 bits are saved as `F32`, which has all of them, and whole
    /// numbers as `F64`. Of more than 1 GiB nothing is saved; the report says so.
    #[must_use]
    pub fn save_tensors(mut self, saves: bool) -> Self {
        self.settings.saves = saves;
        self
    }

    /// What random numbers were seeded with, for the header of the record: where no trainer knows it, or another seed counts.
    #[must_use]
    pub fn seed(mut self, seed: u64) -> Self {
        self.settings.seed = Some(seed);
        self
    }

    /// How much of a step the record has at most: 20,000 tensors and 32 MiB unless this says something else. What there is no room for is
    /// counted, and the report says so. Rows of the report are of all tensors.
    #[must_use]
    pub fn most_per_step(mut self, tensors: usize, bytes: usize) -> Self {
        (self.settings.most_tensors, self.settings.most_bytes) = (tensors, bytes);
        self
    }
}
