//! Tensors whose values a profiler may read, and summaries of those values.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::Interest;

/// Role of a tensor in a training step.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[non_exhaustive]
pub enum TensorRole {
    /// Input of a step, as declared by the program. Otherwise it is the input of the first module
    /// in the step.
    Batch,
    /// Output of a module's forward pass.
    Output,
    /// Output of an op on the way to the loss or in the optimizer.
    OpOutput,
    /// Output of an op in the backward pass.
    BackwardOpOutput,
    /// The loss, with which the backward pass begins.
    Loss,
    /// Gradient of a parameter after the backward pass, as the optimizer receives it.
    Gradient,
    /// A parameter before the optimizer's step.
    Parameter,
    /// Change of a parameter by the optimizer's step.
    Update,
}

impl TensorRole {
    /// Returns the name of the role: `batch`, `output`, `op_output`, `backward_op_output`, `loss`,
    /// `gradient`, `parameter`, `update`.
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

    /// Returns `true` if the tensor is the output of an op.
    #[doc(hidden)]
    pub const fn is_of_op(self) -> bool {
        matches!(self, Self::OpOutput | Self::BackwardOpOutput)
    }

    /// Returns the interest that a profiler needs in order to receive tensors of this role.
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

/// Reader of a tensor's elements. They arrive in any number of pieces, each in the tensor's own
/// order.
pub trait NumberReader {
    /// Reads 32-bit elements.
    fn read_f32(&mut self, numbers: &[f32]);
    /// Reads 64-bit elements.
    fn read_f64(&mut self, numbers: &[f64]);
    /// Reads elements of another type, or elements that are not contiguous. `least_normal` is the
    /// smallest positive normal number of their type, or 0 if the type has no subnormal numbers.
    fn read_each(&mut self, numbers: &mut dyn Iterator<Item = f64>, least_normal: f64);
}

/// A tensor of some framework whose elements can be read.
pub trait TensorNumbers {
    /// Returns the type of the elements, such as `f32` or `bf16`.
    fn element_type(&self) -> &'static str;

    /// Returns the shape, which is empty for a single number.
    fn shape(&self) -> Vec<u64>;

    /// Passes all elements to `reader`. Returns `false` if that requires waiting for a device, or
    /// is impossible.
    fn read(&self, reader: &mut dyn NumberReader) -> bool;

    /// Passes all elements to `reader` and waits for the device if necessary. It is for values that
    /// must be known exactly, such as the batch of a recorded step. The default implementation
    /// calls [`read`](Self::read).
    fn read_waiting(&self, reader: &mut dyn NumberReader) -> bool {
        self.read(reader)
    }

    /// Starts to compute a few summary numbers on the tensor's device, without waiting for the
    /// result. It is for tensors that [`read`](Self::read) cannot read. The default implementation
    /// returns `None`, which means that this is not supported.
    fn reduce(&self, _reduction: Reduction) -> Option<Box<dyn ReducedNumbers>> {
        None
    }
}

/// Summary that a device computes from a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reduction {
    /// Computes only the numbers of NaN and infinite elements, out of all fields of [`Reduced`]. It
    /// takes about six ops and is for steps that are only monitored.
    NotFinite,
    /// Computes all fields of [`Reduced`], which takes about thirty ops.
    Statistics,
}

/// Summary that a device is still computing. The ops launched for it belong to the profiler and are
/// not ops of the program.
pub trait ReducedNumbers: Send {
    /// Waits for the device. Returns `None` if it has failed.
    fn read(self: Box<Self>) -> Option<Reduced>;
}

/// Summary of a tensor's elements. Sums and extremes cover the finite elements only.
#[derive(Debug, Clone, PartialEq, Default)]
pub struct Reduced {
    /// Number of NaN elements.
    pub nans: u64,
    /// Number of infinite elements.
    pub infinities: u64,
    /// Number of elements equal to 0.
    pub zeros: u64,
    /// Number of subnormal elements: not 0, but smaller than the smallest normal number of their
    /// type. It is counted only if the device can detect them.
    pub subnormals: u64,
    /// Smallest element.
    pub minimum: f64,
    /// Largest element.
    pub maximum: f64,
    /// Smallest absolute value other than 0.
    pub least_magnitude: f64,
    /// A number near the mean, from which deviations are measured.
    pub shift: f64,
    /// Sum of the deviations from `shift`.
    pub deviation: f64,
    /// Sum of the squared deviations from `shift`.
    pub deviation_squares: f64,
    /// Sum of the absolute values.
    pub absolute: f64,
    /// Sum of the squares.
    pub squares: f64,
    /// Sample of all elements at regular intervals, beginning with the first. Its length is
    /// limited.
    pub sample: Vec<f64>,
}

/// A tensor at one point of a training step. Its elements are read only if a profiler requests
/// them.
#[derive(Clone, Copy)]
pub struct ObservedTensor<'told> {
    /// Role of the tensor.
    pub role: TensorRole,
    /// Name of the module (`[module]Linear: head`) or op (`aten::log`) that returned the tensor, or
    /// of the parameter.
    pub name: &'told str,
    /// The tensor.
    pub tensor: &'told dyn TensorNumbers,
    /// Its input, if the hook knows it: a module's input or all inputs of an op.
    pub input: Option<&'told dyn TensorNumbers>,
}

impl fmt::Debug for ObservedTensor<'_> {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut shown = formatter.debug_struct("ObservedTensor");
        shown.field("role", &self.role).field("name", &self.name);
        shown.field("shape", &self.tensor.shape()).finish_non_exhaustive()
    }
}

/// Two observed tensors are equal if role, name and address are equal.
impl PartialEq for ObservedTensor<'_> {
    fn eq(&self, other: &Self) -> bool {
        let address = |one: &Self| std::ptr::from_ref(one.tensor).cast::<()>();
        (self.role, self.name) == (other.role, other.name) && address(self) == address(other)
    }
}

/// Returns the offset of each element in row-major order, for a tensor that is not contiguous.
/// Offsets are counted in elements from the first one. `shape` and `strides` must have the same
/// length.
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
