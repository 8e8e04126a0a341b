//! Tensors on devices. They are reduced there, and all results are read together at the end of the
//! step.

use super::NumericsProfiler;
use super::readers::{Fingerprint, HashReader};
use super::settings::Hashes;
use crate::report::numerics::{
    RecordedTensor, RecordedTensorParts, TensorStatistics, sampled_numbers,
};
use mlprof_events::{
    ObservedTensor, ReducedNumbers, Reduction, TensorNumbers, TensorRole, ThreadName,
};

/// Maximum number of pending reductions per step. Each uses some hundred bytes on its device.
const MOST_REDUCED: usize = 20_000;

/// Pending reduction on a device.
struct Reducing {
    count: u64,
    reduction: Reduction,
    numbers: Box<dyn ReducedNumbers>,
}

impl Reducing {
    fn begin(tensor: &dyn TensorNumbers, reduction: Reduction) -> Option<Self> {
        let numbers = tensor.reduce(reduction)?;
        Some(Self { count: tensor.shape().iter().product(), reduction, numbers })
    }

    /// Waits for the reduction and returns the statistics and the sample.
    fn read(self) -> Option<(TensorStatistics, Vec<f64>)> {
        let reduced = self.numbers.read()?;
        let statistics = match self.reduction {
            Reduction::NotFinite => {
                let mut statistics = TensorStatistics::default();
                statistics.count = self.count;
                statistics.nans = reduced.nans;
                statistics.infinities = reduced.infinities;
                statistics
            }
            Reduction::Statistics => TensorStatistics::of_reduced(self.count, &reduced),
        };
        Some((statistics, reduced.sample))
    }
}

/// Tensor of the current step whose device results arrive at the end of the step.
pub(super) struct Awaited {
    /// Known properties of the tensor, without statistics.
    tensor: RecordedTensor,
    /// Position in the order of the step.
    position: u64,
    numbers: Reducing,
    input: Option<Reducing>,
}

impl Awaited {
    fn read(self) -> Option<(RecordedTensor, u64)> {
        let (statistics, sample) = self.numbers.read()?;
        let input = self.input.and_then(Reducing::read).map(|(statistics, _)| statistics);
        let mut tensor = self.tensor;
        tensor.statistics = statistics;
        tensor.input = input;
        tensor.sample = sampled_numbers(&sample);
        Some((tensor, self.position))
    }
}

impl NumericsProfiler {
    /// Starts the reduction of a tensor that the host cannot read. In a step without recording, it
    /// only counts non-finite values.
    pub(super) fn reduce(&self, told: &ObservedTensor<'_>, is_recorded: bool) {
        let reduction = if is_recorded { Reduction::Statistics } else { Reduction::NotFinite };
        let is_full = self.state().awaited.len() >= MOST_REDUCED;
        if is_full {
            return self.state().dropped += 1;
        }
        let Some(numbers) = Reducing::begin(told.tensor, reduction) else {
            return self.state().unread += 1;
        };
        let input = told.input.and_then(|input| Reducing::begin(input, reduction));
        let shape = match told.role {
            TensorRole::Loss => Vec::new(),
            _ => told.tensor.shape(),
        };
        // For an update, the hook passes the parameter itself. Its hash would not be the hash of
        // the change.
        let is_hashed =
            is_recorded && self.settings.hashes == Hashes::All && told.role != TensorRole::Update;
        let fingerprint = match is_hashed {
            true => HashReader::of(told.tensor),
            false => Fingerprint::default(),
        };
        let mut running = self.state();
        let tensor = RecordedTensorParts {
            step: running.step,
            role: told.role,
            name: told.name.to_owned(),
            call: running.call(told.role, told.name),
            thread: ThreadName::of_this_thread().name,
            source: None,
            location: None,
            element_type: told.tensor.element_type().to_owned(),
            shape,
            statistics: TensorStatistics::default(),
            input: None,
            sample: Vec::new(),
            sketch: fingerprint.sketch,
            interval: None,
            hash: fingerprint.hash,
            not_finite_hash: fingerprint.not_finite_hash,
            is_rerun: running.is_rerun,
        }
        .build();
        let position = running.add_to_order(told.role, told.name, None);
        running.awaited.push(Awaited { tensor, position, numbers, input });
    }

    /// Reads the reductions of the current step, in the order in which the tensors were reported.
    /// It waits for devices outside the lock, because their work may have to report other events
    /// first.
    pub(super) fn read_reduced(&self, is_recorded: bool) {
        let awaited = std::mem::take(&mut self.state().awaited);
        if awaited.is_empty() {
            return;
        }
        let tensors: Vec<_> = awaited.into_iter().map(Awaited::read).collect();
        let mut running = self.state();
        for tensor in tensors {
            match tensor {
                Some((tensor, position)) => {
                    running.see_reduced(tensor, position, is_recorded, &self.settings);
                }
                None => running.unread += 1,
            }
        }
    }
}
