//! Element types of tensors.

use serde::{Deserialize, Serialize};

/// Element type of a tensor.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[repr(u8)]
#[expect(missing_docs, reason = "the names say it")]
pub enum DType {
    Float64 = 1,
    Float32,
    Float16,
    BFloat16,
    Float8,
    Int64,
    Int32,
    Int16,
    Int8,
    UInt64,
    UInt32,
    UInt16,
    UInt8,
    Bool,
    Complex64,
    Complex128,
    Quantized,
    /// Any other type.
    Other,
}

impl DType {
    const ALL: [Self; 18] = [
        Self::Float64,
        Self::Float32,
        Self::Float16,
        Self::BFloat16,
        Self::Float8,
        Self::Int64,
        Self::Int32,
        Self::Int16,
        Self::Int8,
        Self::UInt64,
        Self::UInt32,
        Self::UInt16,
        Self::UInt8,
        Self::Bool,
        Self::Complex64,
        Self::Complex128,
        Self::Quantized,
        Self::Other,
    ];

    /// Returns the type with this discriminant, or [`Other`](Self::Other) for an unknown one.
    #[doc(hidden)]
    pub fn from_code(code: i64) -> Self {
        let index = usize::try_from(code - 1).unwrap_or(usize::MAX);
        Self::ALL.get(index).copied().unwrap_or(Self::Other)
    }

    /// Returns the name in Rust, such as `f32` and `bf16`.
    #[doc(hidden)]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Float64 => "f64",
            Self::Float32 => "f32",
            Self::Float16 => "f16",
            Self::BFloat16 => "bf16",
            Self::Float8 => "f8",
            Self::Int64 => "i64",
            Self::Int32 => "i32",
            Self::Int16 => "i16",
            Self::Int8 => "i8",
            Self::UInt64 => "u64",
            Self::UInt32 => "u32",
            Self::UInt16 => "u16",
            Self::UInt8 => "u8",
            Self::Bool => "bool",
            Self::Complex64 => "complex64",
            Self::Complex128 => "complex128",
            Self::Quantized => "quantized",
            Self::Other => "other",
        }
    }

    /// Returns the name in C++, which PyTorch's traces use for `Input type`.
    #[doc(hidden)]
    pub const fn cpp_name(self) -> &'static str {
        match self {
            Self::Float64 => "double",
            Self::Float32 => "float",
            Self::Float16 => "c10::Half",
            Self::BFloat16 => "c10::BFloat16",
            Self::Float8 => "c10::Float8",
            Self::Int64 => "long int",
            Self::Int32 => "int",
            Self::Int16 => "short int",
            Self::Int8 => "signed char",
            Self::UInt64 => "unsigned long",
            Self::UInt32 => "unsigned int",
            Self::UInt16 => "unsigned short",
            Self::UInt8 => "unsigned char",
            Self::Bool => "bool",
            Self::Complex64 => "c10::complex<float>",
            Self::Complex128 => "c10::complex<double>",
            Self::Quantized => "quantized",
            Self::Other => "",
        }
    }
}
