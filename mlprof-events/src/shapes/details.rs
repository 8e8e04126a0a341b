//! Details of an op's inputs in addition to their shapes and types: strides, numbers, and the
//! overload of the op's name.
//!
//! Details precede the inputs of a shape list. They begin with one word that contains their number
//! of words (`(0xfd << 32) | count`), followed by:
//!
//! * the length of the overload's name in bytes, and the name, eight bytes per word;
//! * for each input, `(kind << 32) | count` and `count` words. Kind 1 is the strides of a tensor, 2
//!   an integer, 3 a boolean, 4 a floating-point number, 5 a complex number (two words), 0 anything
//!   else. For kinds 254 (a list of numbers) and 255 (a list of tensors), `count` inputs follow
//!   instead.

/// Details of an op's inputs: see `InputsBuilder::set_words`.
#[derive(Debug, Clone, PartialEq, Default)]
#[non_exhaustive]
pub struct InputDetails {
    /// Overload of the op's name, such as `Tensor`; empty for the unnamed overload.
    pub overload: String,
    /// Details of each input.
    pub inputs: Vec<InputDetail>,
}

/// Details of an input in addition to its shape.
#[derive(Debug, Clone, PartialEq)]
pub enum InputDetail {
    /// Strides of a tensor, in elements.
    Strides(Vec<i64>),
    /// Details of each tensor in a list.
    Tensors(Vec<InputDetail>),
    /// A number or a boolean.
    Number(Number),
    /// A list of numbers or booleans.
    Numbers(Vec<Number>),
    /// An input without details.
    Unknown,
}

/// A number that was passed to an op.
#[derive(Debug, Clone, Copy, PartialEq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Number {
    Integer(i64),
    Switch(bool),
    Float(f64),
    Complex(f64, f64),
}

pub(super) const DETAILS: i64 = 0xfd;
const STRIDES: i64 = 1;
const INTEGER: i64 = 2;
const SWITCH: i64 = 3;
const FLOAT: i64 = 4;
const COMPLEX: i64 = 5;
const NUMBERS: i64 = 0xfe;
const TENSORS: i64 = 0xff;

/// Splits the words into those of the details, if there are any, and those of the inputs.
#[inline]
pub(super) fn split(words: &[i64]) -> (Option<&[i64]>, &[i64]) {
    match words.split_first() {
        Some((head, rest)) if *head >> 32 == DETAILS => {
            let count = (head & 0xffff_ffff) as usize;
            let (details, inputs) = rest.split_at(count.min(rest.len()));
            (Some(details), inputs)
        }
        _ => (None, words),
    }
}

/// Decodes the words of the details. Invalid words at the end are ignored.
pub(super) fn decode(words: &[i64]) -> InputDetails {
    let mut rest = words;
    let length = take(&mut rest, 1).first().map_or(0, |length| *length as usize);
    let letters = take(&mut rest, length.div_ceil(8));
    let letters: Vec<u8> =
        letters.iter().flat_map(|word| word.to_le_bytes()).take(length).collect();
    let overload = String::from_utf8_lossy(&letters).into_owned();
    let mut inputs = Vec::new();
    while let Some(input) = decode_input(&mut rest) {
        inputs.push(input);
    }
    InputDetails { overload, inputs }
}

fn take<'words>(rest: &mut &'words [i64], count: usize) -> &'words [i64] {
    let (taken, tail) = rest.split_at(count.min(rest.len()));
    *rest = tail;
    taken
}

fn decode_input(rest: &mut &[i64]) -> Option<InputDetail> {
    let head = *take(rest, 1).first()?;
    let (kind, count) = (head >> 32, (head & 0xffff_ffff) as usize);
    if kind == TENSORS || kind == NUMBERS {
        let parts = (0..count).map_while(|_| decode_input(rest));
        return Some(if kind == TENSORS {
            InputDetail::Tensors(parts.collect())
        } else {
            let number =
                |part| if let InputDetail::Number(number) = part { Some(number) } else { None };
            InputDetail::Numbers(parts.filter_map(number).collect())
        });
    }
    let words = take(rest, count);
    let float = |place: usize| words.get(place).map(|word| f64::from_bits(word.cast_unsigned()));
    let number = match kind {
        STRIDES => return Some(InputDetail::Strides(words.to_vec())),
        INTEGER => words.first().map(|word| Number::Integer(*word)),
        SWITCH => words.first().map(|word| Number::Switch(*word != 0)),
        FLOAT => float(0).map(Number::Float),
        COMPLEX => float(0).zip(float(1)).map(|(real, imaginary)| Number::Complex(real, imaginary)),
        _ => None,
    };
    Some(number.map_or(InputDetail::Unknown, InputDetail::Number))
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::shapes::{DType, InputsBuilder, ShapeList, TensorShape};

    const fn head(kind: i64, count: i64) -> i64 {
        (kind << 32) | count
    }

    fn detailed(scalar: f64) -> Vec<i64> {
        let letters = i64::from_le_bytes(*b"Scalar\0\0");
        let mut details = vec![6, letters, head(STRIDES, 2), 3, 1];
        details.extend([head(FLOAT, 1), scalar.to_bits().cast_signed()]);
        details.extend([head(NUMBERS, 2), head(SWITCH, 1), 1, head(INTEGER, 1), -7]);
        details.push(head(NUMBERS, 0));
        details.extend([head(TENSORS, 2), head(STRIDES, 0), 0, 0]);
        let mut words = vec![head(DETAILS, details.len() as i64)];
        words.extend(details);
        // The inputs are a matrix and several non-tensors.
        words.extend([head(DType::Float32 as i64, 2), 2, 3, 0, 0, 0, 0, 0]);
        words
    }

    #[test]
    fn details_stand_beside_the_shapes_and_change_none() {
        let mut inputs = InputsBuilder::new();
        let lists = [0.5, 0.25].map(|scalar| {
            inputs.set_words(&detailed(scalar));
            ShapeList::intern(&inputs)
        });
        assert_ne!(lists[0], lists[1]);
        inputs.set_words(&detailed(0.5)[detailed(0.5).len() - 8..]);
        let plain = ShapeList::intern(&inputs);
        for (list, scalar) in lists.into_iter().zip([0.5, 0.25]) {
            assert_eq!(list.without_details(), plain);
            assert_eq!(list.inputs(), plain.inputs());
            let details = list.details().expect("they were given");
            assert_eq!(details.overload, "Scalar");
            let expected = [
                InputDetail::Strides(vec![3, 1]),
                InputDetail::Number(Number::Float(scalar)),
                InputDetail::Numbers(vec![Number::Switch(true), Number::Integer(-7)]),
                InputDetail::Numbers(vec![]),
                InputDetail::Tensors(vec![InputDetail::Strides(vec![]), InputDetail::Unknown]),
                InputDetail::Unknown,
            ];
            assert_eq!(details.inputs, expected);
        }
        assert_eq!(plain.details(), None);
        assert_eq!(plain.without_details(), plain);
        let first = plain.inputs().and_then(|inputs| inputs.first().cloned());
        assert_eq!(first, Some(TensorShape::Tensor(DType::Float32, vec![2, 3])));
    }

    #[test]
    fn details_that_make_no_sense_do_no_harm() {
        for details in [&[][..], &[-1], &[i64::MAX], &[0, head(99, 7)], &[0, head(TENSORS, -1), -1]]
        {
            let mut words = vec![head(DETAILS, details.len() as i64)];
            words.extend(details);
            let (found, rest) = split(&words);
            assert_eq!((found, rest), (Some(details), &[][..]));
            assert!(decode(details).inputs.len() < 3);
        }
        assert_eq!(split(&[head(DETAILS, 9), 1]), (Some(&[1][..]), &[][..]));
    }
}
