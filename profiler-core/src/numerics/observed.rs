//! Processing of tensors that hooks report.

use std::sync::atomic::Ordering;

use mlprof_events::{ObservedTensor, TensorRole, ThreadName};

use super::fault::Moment;
use super::readers::{CopyReader, Fingerprint, FiniteReader, HashReader};
use super::settings::Hashes;
use super::{FINITE, NOTHING, NumericsProfiler, STATISTICS, modules};
use crate::report::numerics::{self, RecordedTensorParts, StatisticsReader};

impl NumericsProfiler {
    /// Records the input of the step's first module as the batch, unless the program has reported a
    /// batch. It does so in recorded steps, and if that module's output is not finite.
    fn know_batch(&self, told: &ObservedTensor<'_>, is_recorded: bool) {
        match (told.role, told.input) {
            (TensorRole::Batch, _) => self.knows_batch.store(true, Ordering::Relaxed),
            (TensorRole::Output, Some(input))
                if !self.knows_batch.swap(true, Ordering::Relaxed) =>
            {
                let role = TensorRole::Batch;
                let batch = ObservedTensor { role, tensor: input, input: None, ..*told };
                self.record(&batch, is_recorded);
            }
            _ => {}
        }
    }

    pub(super) fn observe_tensor(&self, told: &ObservedTensor<'_>) {
        let wish = self.wish(told.role);
        if told.role.is_of_op() && !self.sees_ops.load(Ordering::Relaxed) {
            self.sees_ops.store(true, Ordering::Relaxed);
        }
        if wish == NOTHING || (wish == FINITE && told.role == TensorRole::Parameter) {
            return;
        }
        if wish == FINITE {
            let mut reader = FiniteReader::default();
            if !told.tensor.read(&mut reader) {
                return self.reduce(told, false);
            }
            if reader.is_finite() {
                if matches!(told.role, TensorRole::Batch | TensorRole::Output) {
                    self.knows_batch.store(true, Ordering::Relaxed);
                }
                if !told.role.is_of_op() {
                    self.state().add_to_order(told.role, told.name, Some(true));
                }
                return;
            }
        }
        self.record(told, wish == STATISTICS);
    }

    /// Records a tensor of a recorded step, or a non-finite tensor.
    fn record(&self, told: &ObservedTensor<'_>, is_recorded: bool) {
        self.know_batch(told, is_recorded);
        let mut shape = told.tensor.shape();
        let mut reader = StatisticsReader::of_shape(&shape);
        let mut copy = CopyReader::default();
        let keeps_copy = told.role == TensorRole::Parameter
            && self.state().keeps_copy(told.name, shape.iter().product());
        let is_read = match told.role {
            TensorRole::Update => told.tensor.read(&mut copy),
            _ if keeps_copy => told.tensor.read(&mut copy),
            TensorRole::Batch if is_recorded => told.tensor.read_waiting(&mut reader),
            _ => told.tensor.read(&mut reader),
        };
        if !is_read {
            return self.reduce(told, is_recorded);
        }
        let is_hashed = is_recorded
            && (self.settings.hashes != Hashes::Batches || told.role == TensorRole::Batch);
        let mut fingerprint = match is_hashed && told.role != TensorRole::Update {
            true => HashReader::of(told.tensor),
            false => Fingerprint::default(),
        };
        // Reading the inputs of all ops would cost more than reading all outputs.
        let looks_at_input = !told.role.is_of_op() || !reader.statistics().is_finite();
        let input = told.input.filter(|_| looks_at_input).and_then(|input| {
            let mut reader = StatisticsReader::of_shape(&input.shape());
            input.read(&mut reader).then(|| reader.statistics())
        });
        let mut running = self.state();
        if keeps_copy {
            copy.read_by(&mut reader);
            running.before_step.insert(told.name.to_owned(), copy.numbers());
        } else if told.role == TensorRole::Update {
            // In a step without recording, the previous values of the parameter are not known.
            let before = running.before_step.remove(told.name).unwrap_or_default();
            let update = copy.less(&before);
            update.read_by(&mut reader);
            if is_hashed {
                fingerprint = update.fingerprint();
            }
            if running.lacks_copy(told.name) && reader.statistics().is_finite() {
                return;
            }
        }
        if told.role == TensorRole::Loss {
            shape.clear();
        }
        let name = match modules::innermost().filter(|_| told.role.is_of_op()) {
            Some(module) => numerics::op_in_module(told.name, module.name()),
            None => told.name.to_owned(),
        };
        let mut tensor = RecordedTensorParts {
            step: running.step,
            role: told.role,
            call: running.call(told.role, &name),
            name,
            thread: ThreadName::of_this_thread().name,
            source: None,
            location: None,
            element_type: told.tensor.element_type().to_owned(),
            shape,
            statistics: reader.statistics(),
            input,
            sample: reader.sample(),
            sketch: fingerprint.sketch,
            interval: None,
            hash: fingerprint.hash,
            not_finite_hash: fingerprint.not_finite_hash,
            is_rerun: running.is_rerun,
        }
        .build();
        if !tensor.statistics.is_finite() {
            let place = mlprof_events::module_place(told.name);
            tensor.source = place.map(|place| format!("{}:{}", place.file, place.line));
        }
        let is_finite = tensor.statistics.is_finite();
        let position = running.add_to_order(told.role, told.name, Some(is_finite));
        let is_first = running.see_not_finite(&mut tensor, Moment { position, is_now: true });
        let saved = (is_first && self.settings.saves).then(|| tensor.clone());
        if is_recorded {
            running.see(tensor, &self.settings);
        }
        drop(running);
        if let Some(tensor) = saved {
            self.save(told, &tensor);
        }
    }
}
