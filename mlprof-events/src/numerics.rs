//! Tensors whose numbers a profiler may look at, and what is said of them.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Interest;

/// What a tensor is for in a training.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TensorRole {
    /// What a step learns from, as the program has told of it; else what the first module of the step was given.
    Batch,
    /// What a module's forward has returned.
    Output,
    /// What an op has returned, on the way to the loss or in the optimizer.
    OpOutput,
    /// What an op of the backward pass has returned.
    BackwardOpOutput,
    /// What the backward pass begins with.
    Loss,
    /// What the backward pass has left for a parameter, as the optimizer finds it.
    Gradient,
    /// A parameter before the optimizer's step.
    Parameter,
    /// By how much the optimizer's step has changed a parameter.
    Update,
}

impl TensorRole {
    /// The word for it: `batch`, `output`, `op_output`, `backward_op_output`, `loss`, `gradient`, `parameter`, `update`.
    #[doc(hidden)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Batch => "batch",
            Self::Output => "output",
            Self::OpOutput => "op_output",
            Self::BackwardOpOutput => "backward_op_output",
            Self::Loss => "loss",
            Self::Gradient => "gradient",
            Self::Parameter => "parameter",
            Self::Update => "update",
        }
    }

    /// Whether an op has returned it.
    #[doc(hidden)]
    pub const fn is_of_op(self) -> bool {
        matches!(self, Self::OpOutput | Self::BackwardOpOutput)
    }

    /// What a profiler must be interested in to be told.
    #[doc(hidden)]
    pub const fn interest(self) -> Interest {
        if self.is_of_op() { Interest::OP_OUTPUTS } else { Interest::NUMERICS }
    }
}

impl fmt::Display for TensorRole {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(self.name())
    }
}

/// Reads a tensor's numbers, in any number of pieces, each in the order that they have in it.
pub trait NumberReader {
    /// Numbers of 32 bits.
    fn read_f32(&mut self, numbers: &[f32]);
    /// Numbers of 64 bits.
    fn read_f64(&mut self, numbers: &[f64]);
    /// Numbers of another type, or such as do not lie next to each other. `least_normal`: the smallest
    /// positive number of their type that is not subnormal; 0 if there is none.
    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, least_normal: f64);
}

/// A tensor as a framework has it.
pub trait TensorNumbers {
    /// The type of its elements, such as `f32` or `bf16`.
    fn element_type(&self) -> &'static str;

    /// Its shape; empty for a single number.
    fn shape(&self) -> Vec<u64>;

    /// Has `reader` read all of it; false if that cannot be done without waiting for a device, or not at all.
    fn read(&self, reader: &mut dyn NumberReader) -> bool;

    /// The same, and waits for the device if it has to: for what must be known to the bit, as of the batch of a recorded step. Unless a
    /// framework's hook says how, as [`read`](Self::read).
    fn read_waiting(&self, reader: &mut dyn NumberReader) -> bool {
        self.read(reader)
    }

    /// For a tensor that [`read`](Self::read) cannot read: has the device that it is on make a few numbers of it, and does not
    /// wait for them. `None` if that is not possible either, which it is not unless a framework's hook says how.
    fn reduce(&self, _reduction: Reduction) -> Option<Box<dyn ReducedNumbers>> {
        None
    }
}

/// What a device is to make of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// How many of its numbers are NaN and how many infinite, of all that [`Reduced`] has: for steps that are only watched. Some six
    /// ops.
    NotFinite,
    /// All of [`Reduced`]: some thirty ops.
    Statistics,
}

/// What a device makes of a tensor, while that goes on. What was launched for it is the profiler's own, and no op of the program.
pub trait ReducedNumbers: Send {
    /// Waits for the device; `None` if it has failed.
    fn read(self: Box<Self>) -> Option<Reduced>;
}

/// What a device has made of a tensor's numbers. Sums and extremes are those of the finite ones.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reduced {
    /// How many are NaN.
    pub nans: u64,
    /// How many are infinite.
    pub infinities: u64,
    /// How many are 0.
    pub zeros: u64,
    /// How many are not 0 and smaller than the smallest normal number of their type, where the device can tell.
    pub subnormals: u64,
    /// The smallest.
    pub minimum: f64,
    /// The largest.
    pub maximum: f64,
    /// The smallest absolute value that is not 0.
    pub least_magnitude: f64,
    /// A number near their mean, which deviations are from.
    pub shift: f64,
    /// The sum of the deviations.
    pub deviation: f64,
    /// The sum of the squares of the deviations.
    pub deviation_squares: f64,
    /// The sum of the absolute values.
    pub absolute: f64,
    /// The sum of the squares.
    pub squares: f64,
    /// Of every so many numbers, of all of them, one, beginning with the first: evenly spread, and no more than a sample has.
    pub sample: Vec<f64>,
}

/// A tensor at one place of a training, while it is there. Nothing of it is read unless a profiler does.
#[derive(Clone, Copy)]
pub struct ObservedTensor<'told> {
    /// What it is for.
    pub role: TensorRole,
    /// The module that has returned it (`[module]Linear: head`), the op (`aten::log`), or the parameter's name.
    pub name: &'told str,
    /// Itself.
    pub tensor: &'told dyn TensorNumbers,
    /// What it was computed from, where the hook knows: a module's input, all inputs of an op.
    pub input: Option<&'told dyn TensorNumbers>,
}

impl fmt::Debug for ObservedTensor<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ObservedTensor");
        shown.field("role", &self.role).field("name", &self.name);
        shown.field("shape", &self.tensor.shape()).finish_non_exhaustive()
    }
}

/// Whether they are the same tensor at the same place.
impl PartialEq for ObservedTensor<'_> {
    fn eq(&self, other: &Self) -> bool {
        let address = |one: &Self| std::ptr::from_ref(one.tensor).cast::<()>();
        (self.role, self.name) == (other.role, other.name) && address(self) == address(other)
    }
}

/// Where the elements of a tensor are that do not lie next to each other, in the order of its places: counted in elements from its
/// first one. `shape` and `strides` are of the same length.
pub fn strided_offsets<'tensor>(
    shape: &'tensor [usize],
    strides: &'tensor [isize],
) -> impl Iterator<Item = isize> + 'tensor {
    let count: usize = shape.iter().product();
    (0..count).map(move |mut place| {
        let mut offset = 0;
        for (side, stride) in shape.iter().zip(strides).rev() {
            offset += (place % side).cast_signed() * stride;
            place /= side;
        }
        offset
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_follow_the_strides() {
        let all = |shape: &[usize], strides: &[isize]| {
            strided_offsets(shape, strides).collect::<Vec<_>>()
        };
        assert_eq!(all(&[2, 3], &[3, 1]), [0, 1, 2, 3, 4, 5]);
        assert_eq!(all(&[3, 2], &[1, 3]), [0, 3, 1, 4, 2, 5]);
        assert_eq!(all(&[2, 2], &[0, 1]), [0, 1, 0, 1]);
        assert_eq!(all(&[], &[]), [0]);
        assert_eq!(all(&[4, 0], &[1, 1]), [0_isize; 0]);
    }
}
