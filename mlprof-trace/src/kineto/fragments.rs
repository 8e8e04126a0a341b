//! Cached pieces of JSON that many events share.

use std::collections::HashMap;
use std::ops::Range;

use super::concrete::push_concrete;
use crate::cycle::Cycle;
use crate::json::{push_escaped, push_integer};
use mlprof_events::{
    Action, ActionKind, Context, InputDetail, InputDetails, ShapeList, TensorShape,
};

/// Escaped names of actions.
pub(super) struct Names {
    known: Vec<Option<Name>>,
    text: Vec<u8>,
}

#[derive(Clone)]
struct Name {
    kind: ActionKind,
    is_of_engine: bool,
    text: Range<usize>,
}

/// Prefix of the names of the scopes that torch's engine opens around autograd nodes.
const ENGINE: &str = "autograd::engine::evaluate_function";

impl Names {
    pub(super) fn new() -> Self {
        Self { known: Vec::new(), text: Vec::new() }
    }

    #[inline]
    fn known(&mut self, action: Action) -> &Name {
        let index = action.index();
        if self.known.len() <= index {
            self.known.resize(index + 1, None);
        }
        let text = &mut self.text;
        self.known[index].get_or_insert_with(|| {
            let start = text.len();
            push_escaped(text, action.name());
            let is_of_engine = action.name().starts_with(ENGINE);
            Name { kind: action.kind(), is_of_engine, text: start..text.len() }
        })
    }

    #[inline]
    pub(super) fn kind(&mut self, action: Action) -> ActionKind {
        self.known(action).kind
    }

    /// Returns `true` if the action is a scope that torch's engine opens around a node.
    #[inline]
    pub(super) fn is_of_engine(&mut self, action: Action) -> bool {
        self.known(action).is_of_engine
    }

    /// Returns the text between the quotes of a JSON string.
    #[inline]
    pub(super) fn escaped(&mut self, action: Action) -> &[u8] {
        let text = self.known(action).text.clone();
        &self.text[text]
    }
}

/// Shapes and types as event arguments, each preceded by a comma.
pub(super) struct Shapes {
    known: HashMap<u32, Range<usize>>,
    text: Vec<u8>,
}

/// Maximum size of the cache in bytes, because lists that never recur must not fill the memory.
const MOST_TEXT: usize = 16 << 20;

impl Shapes {
    pub(super) fn new() -> Self {
        Self { known: HashMap::new(), text: Vec::new() }
    }

    /// Returns `,"Input Dims":…,"Input type":…`, or an empty text if there are no shapes.
    pub(super) fn arguments(&mut self, list: ShapeList) -> &[u8] {
        if list == ShapeList::NONE {
            return &[];
        }
        if let Some(range) = self.known.get(&list.number()) {
            return &self.text[range.clone()];
        }
        if self.text.len() > MOST_TEXT {
            self.text.clear();
            self.known.clear();
        }
        let start = self.text.len();
        if let Some(inputs) = list.inputs() {
            match list.details() {
                Some(details) => push_detailed(&mut self.text, &inputs, &details),
                None => push_arguments(&mut self.text, &inputs),
            }
        }
        let range = start..self.text.len();
        self.known.insert(list.number(), range.clone());
        &self.text[range]
    }
}

fn push_arguments(text: &mut Vec<u8>, inputs: &[TensorShape]) {
    text.extend_from_slice(b",\"Input Dims\":");
    push_list(text, inputs, push_dimensions);
    text.extend_from_slice(b",\"Input type\":");
    push_list(text, inputs, push_type);
    if inputs.iter().any(|input| matches!(input, TensorShape::Integers(_))) {
        text.extend_from_slice(b",\"Concrete Inputs\":");
        push_list(text, inputs, push_value);
    }
}

/// Appends the arguments of an op with detailed inputs.
fn push_detailed(text: &mut Vec<u8>, inputs: &[TensorShape], details: &InputDetails) {
    if !details.overload.is_empty() {
        text.extend_from_slice(b",\"Overload name\":\"");
        push_escaped(text, &details.overload);
        text.push(b'"');
    }
    if inputs.is_empty() {
        return;
    }
    text.extend_from_slice(b",\"Input Dims\":");
    push_list(text, inputs, push_dimensions);
    text.extend_from_slice(b",\"Input Strides\":");
    push_list(text, &details.inputs, push_strides);
    let known: Vec<_> = inputs.iter().zip(&details.inputs).collect();
    text.extend_from_slice(b",\"Input type\":");
    push_list(text, &known, |text, (input, detail)| match detail {
        InputDetail::Number(_) => text.extend_from_slice(b"\"Scalar\""),
        InputDetail::Numbers(_) => text.extend_from_slice(b"\"ScalarList\""),
        _ if matches!(input, TensorShape::Integers(_)) => text.extend_from_slice(b"\"\""),
        _ => push_type(text, input),
    });
    text.extend_from_slice(b",\"Concrete Inputs\":");
    push_list(text, &details.inputs, push_concrete);
}

fn push_strides(text: &mut Vec<u8>, detail: &InputDetail) {
    match detail {
        InputDetail::Strides(strides) => push_list(text, strides, push_number),
        InputDetail::Tensors(tensors) => push_list(text, tensors, push_strides),
        _ => text.extend_from_slice(b"[]"),
    }
}

/// Appends a list in the form `[one,two]`.
fn push_list<T>(text: &mut Vec<u8>, items: &[T], push: impl Fn(&mut Vec<u8>, &T)) {
    text.push(b'[');
    for (index, item) in items.iter().enumerate() {
        if index > 0 {
            text.push(b',');
        }
        push(text, item);
    }
    text.push(b']');
}

fn push_number(text: &mut Vec<u8>, number: &i64) {
    push_integer(text, *number);
}

fn push_dimensions(text: &mut Vec<u8>, input: &TensorShape) {
    match input {
        TensorShape::Tensor(_, dimensions) => push_list(text, dimensions, push_number),
        TensorShape::List(inputs) => push_list(text, inputs, push_dimensions),
        TensorShape::Integers(_) | TensorShape::NotATensor => text.extend_from_slice(b"[]"),
    }
}

fn push_type(text: &mut Vec<u8>, input: &TensorShape) {
    let name = match input {
        TensorShape::Tensor(dtype, _) => dtype.cpp_name(),
        TensorShape::List(_) => "TensorList",
        TensorShape::Integers(_) => "ScalarList",
        TensorShape::NotATensor => "",
    };
    text.push(b'"');
    push_escaped(text, name);
    text.push(b'"');
}

/// Appends a value as a string, as Kineto does.
fn push_value(text: &mut Vec<u8>, input: &TensorShape) {
    text.push(b'"');
    if let TensorShape::Integers(values) = input {
        push_list(text, values, push_number);
    }
    text.push(b'"');
}

/// Actions that were open at an op's call site, as an argument of an event that ran on another
/// thread.
pub(super) struct Contexts(HashMap<Context, Vec<u8>>);

impl Contexts {
    pub(super) fn new() -> Self {
        Self(HashMap::new())
    }

    /// Returns `,"Called from":"outer;inner","Called on thread":7`, or an empty text if there is no
    /// context.
    pub(super) fn arguments(&mut self, cycle: &Cycle, context: Option<Context>) -> &[u8] {
        let Some(context) = context else { return &[] };
        self.0.entry(context).or_insert_with(|| {
            let mut text = Vec::new();
            if let Some(context) = cycle.context(context) {
                text.extend_from_slice(b",\"Called from\":\"");
                for (index, action) in context.actions.iter().enumerate() {
                    if index > 0 {
                        text.push(b';');
                    }
                    push_escaped(&mut text, action.name());
                }
                text.extend_from_slice(b"\",\"Called on thread\":");
                push_integer(&mut text, context.thread);
                text.extend_from_slice(b",\"Called in step\":");
                push_integer(&mut text, context.step);
            }
            text
        })
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use mlprof_events::{DType, InputsBuilder};

    #[test]
    fn shapes_are_written_as_kineto_writes_them() {
        let mut inputs = InputsBuilder::new();
        inputs.tensor(DType::Float32, &[64, 784]);
        inputs.tensor(DType::Int64, &[]);
        inputs.not_a_tensor();
        inputs.list(2);
        inputs.tensor(DType::BFloat16, &[1; 12]);
        inputs.tensor(DType::Other, &[0]);
        let mut shapes = Shapes::new();
        let expected = ",\"Input Dims\":[[64,784],[],[],[[1,1,1,1,1,1,1,1,1,1,1,1],[0]]],\
                        \"Input type\":[\"float\",\"long int\",\"\",\"TensorList\"]";
        let list = ShapeList::intern(&inputs);
        for _ in 0..2 {
            assert_eq!(String::from_utf8_lossy(shapes.arguments(list)), expected);
        }
        inputs.clear();
        inputs.integers(&[2, -1]);
        let expected = ",\"Input Dims\":[[]],\"Input type\":[\"ScalarList\"],\
                        \"Concrete Inputs\":[\"[2,-1]\"]";
        let list = ShapeList::intern(&inputs);
        assert_eq!(String::from_utf8_lossy(shapes.arguments(list)), expected);
        let nothing = ShapeList::intern(&InputsBuilder::new());
        let expected = ",\"Input Dims\":[],\"Input type\":[]";
        assert_eq!(String::from_utf8_lossy(shapes.arguments(nothing)), expected);
        assert!(shapes.arguments(ShapeList::NONE).is_empty());
    }
}
