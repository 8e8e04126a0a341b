//! Values and tensors, in the form that a checkpoint stores.

use std::collections::BTreeMap;
use std::str::FromStr;

pub use safetensors::Dtype;

use super::error::Result;

/// State of a module, an optimizer or a callback in a [`Checkpoint`](super::Checkpoint): named
/// values and tensors.
///
/// Values are stored as text. A value can have any type whose [`FromStr`] reads back the output of
/// its `Display`. Numbers keep all their bits, including `NaN` and `inf`.
///
/// # Examples
///
/// ```
/// use mlprof_train::{Dtype, SavedState, SavedTensor};
///
/// let mut state = SavedState::new();
/// state.set("best", 0.1 + 0.2);
/// state.set_tensor("average", SavedTensor::new(Dtype::U8, vec![2], vec![1, 2])?);
/// assert_eq!(state.get::<f64>("best")?, 0.1 + 0.2);
/// assert_eq!(state.tensor("average")?.shape(), [2]);
/// assert!(state.get::<u64>("steps").is_err());
/// # Ok::<(), mlprof_train::BoxError>(())
/// ```
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct SavedState {
    pub(super) values: BTreeMap<String, String>,
    pub(super) tensors: BTreeMap<String, SavedTensor>,
}

impl SavedState {
    /// Creates an empty state.
    pub fn new() -> Self {
        Self::default()
    }

    /// Returns whether there is neither a value nor a tensor.
    pub(super) fn is_empty(&self) -> bool {
        self.values.is_empty() && self.tensors.is_empty()
    }

    /// Sets a value and replaces an earlier value of that name.
    pub fn set(&mut self, name: &str, value: impl ToString) {
        self.values.insert(name.to_owned(), value.to_string());
    }

    /// Sets a value if there is one, and removes an earlier one otherwise.
    pub fn set_option(&mut self, name: &str, value: Option<impl ToString>) {
        match value {
            Some(value) => self.set(name, value),
            None => drop(self.values.remove(name)),
        }
    }

    /// Returns the value of that name.
    ///
    /// # Errors
    ///
    /// Returns an error if the value does not exist, or if it is not of type `T`.
    pub fn get<T: FromStr>(&self, name: &str) -> Result<T> {
        self.get_option(name)?.ok_or_else(|| format!("it has no value {name:?}").into())
    }

    /// Returns the value of that name, or `None` if it does not exist.
    ///
    /// # Errors
    ///
    /// Returns an error if the value is not of type `T`.
    pub fn get_option<T: FromStr>(&self, name: &str) -> Result<Option<T>> {
        let Some(text) = self.values.get(name) else { return Ok(None) };
        match text.parse() {
            Ok(value) => Ok(Some(value)),
            Err(_) => Err(format!("its value {name:?} is invalid: {text:?}").into()),
        }
    }

    /// Returns the values, by name.
    pub(super) fn values(&self) -> impl Iterator<Item = (&str, &str)> {
        self.values.iter().map(|(name, value)| (name.as_str(), value.as_str()))
    }

    /// Sets a tensor and replaces an earlier tensor of that name.
    pub fn set_tensor(&mut self, name: &str, tensor: SavedTensor) {
        self.tensors.insert(name.to_owned(), tensor);
    }

    /// Returns the tensor of that name.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor does not exist.
    pub fn tensor(&self, name: &str) -> Result<&SavedTensor> {
        self.tensors.get(name).ok_or_else(|| format!("it has no tensor {name:?}").into())
    }

    /// Returns the tensors, by name.
    pub fn tensors(&self) -> impl Iterator<Item = (&str, &SavedTensor)> {
        self.tensors.iter().map(|(name, tensor)| (name.as_str(), tensor))
    }

    /// Returns the tensor of that name, if it has this data type and shape.
    ///
    /// # Errors
    ///
    /// Returns an error if the tensor does not exist, or if it has another data type or shape.
    pub fn tensor_like(&self, name: &str, dtype: Dtype, shape: &[usize]) -> Result<&SavedTensor> {
        let tensor = self.tensor(name)?;
        if (tensor.dtype, tensor.shape()) != (dtype, shape) {
            let found = (tensor.dtype, tensor.shape());
            return Err(format!(
                "its tensor {name:?} has the type {} and the shape {:?} instead of {dtype} and \
                 {shape:?}",
                found.0, found.1
            )
            .into());
        }
        Ok(tensor)
    }
}

/// Elements of a tensor in host memory, row by row, as little-endian bytes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct SavedTensor {
    dtype: Dtype,
    shape: Vec<usize>,
    bytes: Vec<u8>,
}

impl SavedTensor {
    /// Creates a tensor from these bytes.
    ///
    /// # Errors
    ///
    /// Returns an error if the number of bytes does not match the shape and the data type.
    pub fn new(dtype: Dtype, shape: Vec<usize>, bytes: Vec<u8>) -> Result<Self> {
        let bits = shape.iter().try_fold(dtype.bitsize(), |bits, side| bits.checked_mul(*side));
        if bits != bytes.len().checked_mul(8) {
            let length = bytes.len();
            return Err(format!(
                "a tensor of type {dtype} and shape {shape:?} cannot have {length} \
                                bytes"
            )
            .into());
        }
        Ok(Self { dtype, shape, bytes })
    }

    /// Returns the data type of the elements.
    pub fn dtype(&self) -> Dtype {
        self.dtype
    }

    /// Returns the number of elements along each dimension.
    pub fn shape(&self) -> &[usize] {
        &self.shape
    }

    /// Returns the elements, row by row, as little-endian bytes.
    pub fn bytes(&self) -> &[u8] {
        &self.bytes
    }
}

impl safetensors::View for &SavedTensor {
    fn dtype(&self) -> Dtype {
        self.dtype
    }

    fn shape(&self) -> &[usize] {
        &self.shape
    }

    fn data(&self) -> std::borrow::Cow<'_, [u8]> {
        (&self.bytes[..]).into()
    }

    fn data_len(&self) -> usize {
        self.bytes.len()
    }
}
