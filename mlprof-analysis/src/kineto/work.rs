//! Work of ops, computed from inputs as Kineto writes them.

use std::hash::{Hash, Hasher};

use mlprof_events::work::{bytes, flops};
use mlprof_events::{DType, TensorShape};
use rustc_hash::{FxHashMap, FxHasher};
use serde_json::Value;
use serde_json::value::RawValue;

use crate::trace::{Name, OpWork};

/// Inputs of an op as written in the trace.
#[derive(Clone, Copy)]
pub(super) struct WrittenInputs<'a> {
    pub(super) dimensions: &'a RawValue,
    pub(super) types: &'a RawValue,
    pub(super) values: Option<&'a RawValue>,
}

/// Work of each op with each list of inputs.
#[derive(Default)]
pub(super) struct WorkCache {
    known: FxHashMap<(Name, Name, u64), u32>,
}

impl WorkCache {
    /// Returns the index of the work in `works`. `shapes` is the interned text of the dimensions.
    pub(super) fn of(
        &mut self,
        (op, name): (&str, Name),
        shapes: Name,
        inputs: WrittenInputs<'_>,
        works: &mut Vec<OpWork>,
    ) -> u32 {
        let mut hasher = FxHasher::default();
        inputs.types.get().hash(&mut hasher);
        inputs.values.map(RawValue::get).hash(&mut hasher);
        *self.known.entry((name, shapes, hasher.finish())).or_insert_with(|| {
            works.push(work_of(op, inputs));
            works.len() as u32 - 1 // fewer than events
        })
    }
}

fn work_of(op: &str, inputs: WrittenInputs<'_>) -> OpWork {
    let list =
        |text: &RawValue| -> Vec<Value> { serde_json::from_str(text.get()).unwrap_or_default() };
    let values = inputs.values.map(list).unwrap_or_default();
    let types = list(inputs.types);
    let shapes: Vec<TensorShape> = list(inputs.dimensions)
        .iter()
        .enumerate()
        .map(|(place, sizes)| {
            let text = |list: &[Value]| {
                list.get(place).and_then(Value::as_str).unwrap_or_default().to_owned()
            };
            shape(sizes, &text(&types), &text(&values))
        })
        .collect();
    let dtype = shapes.iter().find_map(|shape| match shape {
        TensorShape::Tensor(dtype, _) if is_float(*dtype) => Some(*dtype),
        _ => None,
    });
    OpWork { flops: flops(op, &shapes), bytes: bytes(op, &shapes), dtype }
}

fn is_float(dtype: DType) -> bool {
    use DType::{BFloat16, Float8, Float16, Float32, Float64};
    matches!(dtype, Float64 | Float32 | Float16 | BFloat16 | Float8)
}

fn shape(sizes: &Value, kind: &str, value: &str) -> TensorShape {
    let sizes_of = |sizes: &Value| -> Option<Vec<i64>> {
        sizes.as_array()?.iter().map(Value::as_i64).collect()
    };
    match kind {
        "" => TensorShape::NotATensor,
        "Scalar" | "ScalarList" => {
            integers(value).map_or(TensorShape::NotATensor, TensorShape::Integers)
        }
        // The types of the tensors are not written.
        "TensorList" => {
            let tensors = sizes.as_array().into_iter().flatten();
            let tensors = tensors.filter_map(sizes_of);
            TensorShape::List(
                tensors.map(|sizes| TensorShape::Tensor(DType::Other, sizes)).collect(),
            )
        }
        kind => match sizes_of(sizes) {
            Some(sizes) => TensorShape::Tensor(dtype(kind), sizes),
            None => TensorShape::NotATensor,
        },
    }
}

/// Reads `3`, `True` and `[1, 2]`. `None` for other values.
fn integers(text: &str) -> Option<Vec<i64>> {
    let inside = text.trim().trim_start_matches('[').trim_end_matches(']');
    let numbers = inside.split(',').map(str::trim).filter(|number| !number.is_empty());
    let number = |number: &str| match number {
        "True" | "true" => Some(1),
        "False" | "false" => Some(0),
        number => number.parse().ok(),
    };
    let numbers: Vec<i64> = numbers.map(number).collect::<Option<_>>()?;
    (!text.trim().is_empty()).then_some(numbers)
}

/// Reads the name of a C++ type.
fn dtype(name: &str) -> DType {
    match name.strip_prefix("c10::").unwrap_or(name) {
        "double" => DType::Float64,
        "float" => DType::Float32,
        "Half" => DType::Float16,
        "BFloat16" => DType::BFloat16,
        name if name.starts_with("Float8") => DType::Float8,
        "long" | "long int" | "long long" => DType::Int64,
        "int" => DType::Int32,
        "short" | "short int" => DType::Int16,
        "signed char" => DType::Int8,
        "unsigned long" | "unsigned long int" => DType::UInt64,
        "unsigned int" => DType::UInt32,
        "unsigned short" | "short unsigned int" => DType::UInt16,
        "unsigned char" => DType::UInt8,
        "bool" => DType::Bool,
        "complex<float>" => DType::Complex64,
        "complex<double>" => DType::Complex128,
        _ => DType::Other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn raw(json: &str) -> Box<RawValue> {
        RawValue::from_string(json.to_owned()).expect("JSON")
    }

    #[track_caller]
    fn work(op: &str, dimensions: &str, types: &str, values: &str) -> OpWork {
        let (dimensions, types, values) = (raw(dimensions), raw(types), raw(values));
        let values = Some(&*values);
        work_of(op, WrittenInputs { dimensions: &dimensions, types: &types, values })
    }

    #[test]
    fn inputs_are_read_as_kineto_writes_them() {
        let product = work(
            "aten::mm",
            "[[2, 3], [3, 5]]",
            r#"["c10::BFloat16", "c10::BFloat16"]"#,
            r#"["", ""]"#,
        );
        let expected =
            OpWork { flops: Some(60), bytes: Some(2 * 31), dtype: Some(DType::BFloat16) };
        assert_eq!(product, expected);
        let kind = r#""c10::BFloat16""#;
        let convolution = work(
            "aten::convolution",
            "[[4,3,224,224],[768,3,16,16],[768],[],[],[],[],[],[]]",
            &format!(
                r#"[{kind},{kind},{kind},"ScalarList","ScalarList","ScalarList","Scalar","ScalarList","Scalar"]"#
            ),
            r#"["","","","[16, 16]","[0, 0]","[1, 1]","False","[0, 0]","1"]"#,
        );
        assert_eq!(convolution.flops, Some(924_844_032));
        assert_eq!(convolution.bytes, Some(3_589_632));
        let selected = work(
            "aten::index_select",
            "[[100, 8], [], [3]]",
            r#"["float", "Scalar", "long int"]"#,
            r#"["", "0", ""]"#,
        );
        assert_eq!(selected.bytes, Some(8 * 3 + 2 * 4 * 3 * 8));
        let unknown =
            work("aten::cat", "[[[4, 1], [4, 3]], []]", r#"["TensorList", "Scalar"]"#, "[]");
        assert_eq!(unknown, OpWork::default());
        assert_eq!(work("aten::mm", "3", "[]", "{}"), OpWork::default());
    }
}
