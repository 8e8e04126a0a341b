//! Sizes of tensors, and elementwise ops of them.

use super::super::inputs::{Inputs, multiply};
use crate::{DType, TensorShape};

/// Type and dimensions of a tensor.
#[derive(Clone, Copy)]
pub(super) struct Tensor<'op> {
    pub(super) dtype: DType,
    pub(super) dimensions: &'op [i64],
}

impl<'op> Tensor<'op> {
    /// Returns the size of all elements. `None` if the type has no fixed size.
    pub(super) fn bytes(self) -> Option<u64> {
        self.elements()?.checked_mul(self.element()?)
    }

    /// Returns the number of elements.
    pub(super) fn elements(self) -> Option<u64> {
        multiply(self.dimensions)
    }

    /// Returns the size of one element.
    pub(super) fn element(self) -> Option<u64> {
        size_of(self.dtype)
    }

    /// Returns the size of a tensor of the same type with these dimensions.
    pub(super) fn sized<'size>(self, sizes: impl IntoIterator<Item = &'size i64>) -> Option<u64> {
        multiply(sizes)?.checked_mul(self.element()?)
    }

    pub(super) fn of(shape: &'op TensorShape) -> Option<Self> {
        match shape {
            TensorShape::Tensor(dtype, dimensions) => Some(Self { dtype: *dtype, dimensions }),
            _ => None,
        }
    }
}

impl<'op> Inputs<'op> {
    pub(super) fn tensor(self, place: usize) -> Option<Tensor<'op>> {
        Tensor::of(self.0.get(place)?)
    }

    /// Returns the tensors among the first `count` inputs, without those in lists.
    pub(super) fn tensors(self, count: usize) -> Vec<Tensor<'op>> {
        self.0.iter().take(count).filter_map(Tensor::of).collect()
    }

    /// Returns the tensors of the list at a position.
    pub(super) fn list(self, place: usize) -> Option<Vec<Tensor<'op>>> {
        match self.0.get(place)? {
            TensorShape::List(tensors) => tensors.iter().map(Tensor::of).collect(),
            _ => None,
        }
    }
}

/// Returns the size of one element in bytes. `None` if it is not fixed.
pub(super) fn size_of(dtype: DType) -> Option<u64> {
    Some(match dtype {
        DType::Complex128 => 16,
        DType::Float64 | DType::Int64 | DType::UInt64 | DType::Complex64 => 8,
        DType::Float32 | DType::Int32 | DType::UInt32 => 4,
        DType::Float16 | DType::BFloat16 | DType::Int16 | DType::UInt16 => 2,
        DType::Float8 | DType::Int8 | DType::UInt8 | DType::Bool => 1,
        DType::Quantized | DType::Other => return None,
    })
}

/// Returns the sum, or `None` if a part is unknown.
pub(super) fn sum(parts: impl IntoIterator<Item = Option<u64>>) -> Option<u64> {
    parts.into_iter().try_fold(0_u64, |sum, part| sum.checked_add(part?))
}

/// Returns the bytes of all these tensors.
pub(super) fn all<'op>(tensors: impl IntoIterator<Item = Tensor<'op>>) -> Option<u64> {
    sum(tensors.into_iter().map(Tensor::bytes))
}

/// Output of an elementwise op.
#[derive(Clone, Copy, PartialEq)]
pub(super) enum Output {
    /// Of the common type of the inputs.
    Promoted,
    /// Of the common type, which is a floating-point type. For integers, the output has another
    /// type.
    Float,
    /// One byte per element.
    Flags,
    /// The first input.
    InPlace,
}

/// Returns the bytes of an elementwise op.
pub(super) fn elementwise(tensors: &[Tensor<'_>], output: Output) -> Option<u64> {
    let first = *tensors.first()?;
    let sizes = common_sizes(tensors)?;
    let written = match output {
        Output::InPlace => first.bytes()?,
        Output::Flags => multiply(&sizes)?,
        Output::Promoted | Output::Float => {
            let dtype = promoted(tensors)?;
            if output == Output::Float && category(dtype)? < Category::Float {
                return None;
            }
            multiply(&sizes)?.checked_mul(size_of(dtype)?)?
        }
    };
    all(tensors.iter().copied())?.checked_add(written)
}

/// Returns the dimensions to which all tensors are broadcast, or `None` if they do not fit.
pub(super) fn common_sizes(tensors: &[Tensor<'_>]) -> Option<Vec<i64>> {
    let rank = tensors.iter().map(|tensor| tensor.dimensions.len()).max()?;
    let mut sizes = vec![1; rank];
    for tensor in tensors {
        let before = rank - tensor.dimensions.len();
        for (size, other) in sizes.iter_mut().skip(before).zip(tensor.dimensions) {
            match (*size, *other) {
                (1, other) => *size = other,
                (size, other) if size != other && other != 1 => return None,
                _ => {}
            }
        }
    }
    Some(sizes)
}

#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Category {
    Bool,
    Integer,
    Float,
    Complex,
}

fn category(dtype: DType) -> Option<Category> {
    use DType as D;
    Some(match dtype {
        D::Bool => Category::Bool,
        D::Int64 | D::Int32 | D::Int16 | D::Int8 => Category::Integer,
        D::UInt64 | D::UInt32 | D::UInt16 | D::UInt8 => Category::Integer,
        D::Float64 | D::Float32 | D::Float16 | D::BFloat16 | D::Float8 => Category::Float,
        D::Complex64 | D::Complex128 => Category::Complex,
        D::Quantized | D::Other => return None,
    })
}

/// Returns the common type by torch's rules. A tensor without dimensions takes part only if no
/// other tensor has its category. `None` in cases that depend on more than the types.
fn promoted(tensors: &[Tensor<'_>]) -> Option<DType> {
    let (scalars, arrays): (Vec<_>, Vec<_>) =
        tensors.iter().partition(|tensor| tensor.dimensions.is_empty());
    let Some(common) = promoted_types(&arrays)? else { return promoted_types(&scalars)? };
    for scalar in scalars {
        if category(scalar.dtype)? > category(common)? {
            return None;
        }
    }
    Some(common)
}

/// Returns the common type of tensors of one kind. The inner `None` stands for no tensors.
#[expect(clippy::option_option, reason = "an unknown type is not the same as no tensor")]
fn promoted_types(tensors: &[&Tensor<'_>]) -> Option<Option<DType>> {
    let mut common = None;
    for tensor in tensors {
        common = Some(match common {
            None => tensor.dtype,
            Some(known) => promote(known, tensor.dtype)?,
        });
    }
    Some(common)
}

fn promote(one: DType, other: DType) -> Option<DType> {
    let (first, second) = (category(one)?, category(other)?);
    if one == other || first > second {
        return Some(one);
    }
    if second > first {
        return Some(other);
    }
    let signed =
        |dtype: DType| matches!(dtype, DType::Int64 | DType::Int32 | DType::Int16 | DType::Int8);
    if first == Category::Integer && signed(one) != signed(other) {
        return None;
    }
    match size_of(one)?.cmp(&size_of(other)?) {
        std::cmp::Ordering::Greater => Some(one),
        std::cmp::Ordering::Less => Some(other),
        // Half precision of both kinds.
        std::cmp::Ordering::Equal => Some(DType::Float32),
    }
}
