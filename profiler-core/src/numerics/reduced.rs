//! Tensors on devices: reduced where they are, and read together when the step ends.

use super::NumericsProfiler;
use crate::report::numerics::{RecordedTensor, TensorStatistics, finite_or_none};
use profiler_events::{
    ObservedTensor, Reduced, ReducedNumbers, TensorNumbers, TensorRole, ThreadName,
};

/// So many reductions of a step are kept until it ends. Each keeps some hundred bytes on its device.
const MOST_REDUCED: usize = 20_000;

/// Numbers that a device is working on.
struct Reducing {
    count: u64,
    numbers: Box<dyn ReducedNumbers>,
}

impl Reducing {
    fn begin(tensor: &dyn TensorNumbers) -> Option<Self> {
        let numbers = tensor.reduce()?;
        Some(Self { count: tensor.shape().iter().product(), numbers })
    }

    fn read(self) -> Option<(TensorStatistics, Reduced)> {
        let reduced = self.numbers.read()?;
        Some((TensorStatistics::of_reduced(self.count, &reduced), reduced))
    }
}

/// A tensor of the running step whose numbers come when that ends.
pub(super) struct Awaited {
    /// All that is known of it before.
    tensor: RecordedTensor,
    numbers: Reducing,
    input: Option<Reducing>,
}

impl Awaited {
    fn read(self) -> Option<RecordedTensor> {
        let (statistics, reduced) = self.numbers.read()?;
        let input = self.input.and_then(Reducing::read).map(|(statistics, _)| statistics);
        let sample = finite_or_none(&reduced.sample);
        Some(RecordedTensor { statistics, input, sample, ..self.tensor })
    }
}

impl NumericsProfiler {
    /// Has the device reduce a tensor that the host cannot read.
    pub(super) fn reduce(&self, told: &ObservedTensor<'_>) {
        let is_full = self.state().awaited.len() >= MOST_REDUCED;
        if is_full {
            return self.state().dropped += 1;
        }
        let Some(numbers) = Reducing::begin(told.tensor) else {
            return self.state().unread += 1;
        };
        let input = told.input.and_then(Reducing::begin);
        let shape = match told.role {
            TensorRole::Loss => Vec::new(),
            _ => told.tensor.shape(),
        };
        let mut running = self.state();
        let tensor = RecordedTensor {
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
            hash: None,
            is_rerun: running.is_rerun,
        };
        running.awaited.push(Awaited { tensor, numbers, input });
    }

    /// Reads what was reduced in the running step, in the order in which it was told of. Waits for devices outside of the lock:
    /// what they wait for may have to tell something first.
    pub(super) fn read_reduced(&self, is_recorded: bool) {
        let awaited = std::mem::take(&mut self.state().awaited);
        if awaited.is_empty() {
            return;
        }
        let tensors: Vec<Option<RecordedTensor>> = awaited.into_iter().map(Awaited::read).collect();
        let mut running = self.state();
        for tensor in tensors {
            match tensor {
                Some(tensor) => running.see_reduced(tensor, is_recorded, &self.settings),
                None => running.unread += 1,
            }
        }
    }
}
