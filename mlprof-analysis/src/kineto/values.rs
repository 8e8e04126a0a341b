//! Field values that accept any JSON type.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};

use crate::trace::PlaceId;

/// Name of a field. Most names have no escapes, so they are borrowed.
#[derive(Deserialize)]
pub(super) struct Key<'a>(#[serde(borrow)] pub(super) Cow<'a, str>);

impl Key<'_> {
    pub(super) fn as_str(&self) -> &str {
        &self.0
    }
}

/// A text. Numbers are converted to text, and all other values become empty.
#[derive(Debug, Clone, Default, PartialEq)]
pub(super) struct Text<'a>(pub(super) Cow<'a, str>);

impl std::ops::Deref for Text<'_> {
    type Target = str;

    fn deref(&self) -> &str {
        &self.0
    }
}

/// An integer, or `None` if the value is not a number.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Integer(pub(super) Option<i64>);

impl Integer {
    /// Returns the stream id. -1, also as an unsigned number, means "no stream".
    pub(super) fn stream(self) -> Option<i32> {
        self.0.and_then(|stream| i32::try_from(stream).ok())
    }

    pub(super) fn natural(self) -> u64 {
        self.0.and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
    }

    /// Returns all 64 bits, because addresses and ids are unsigned. 0 if the value is missing.
    pub(super) fn bits(self) -> u64 {
        self.0.unwrap_or(0).cast_unsigned()
    }

    /// Returns the correlation id, or 0 if there is none. -1, also as an unsigned number, means "no
    /// id".
    pub(super) fn correlation(self) -> u64 {
        let bits = self.bits();
        let is_none = bits == u64::MAX || bits == u64::from(u32::MAX);
        if is_none { 0 } else { bits }
    }
}

/// Id of a process or thread, which is a number or a text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place(pub(super) PlaceId);

impl Default for Place {
    fn default() -> Self {
        Self(PlaceId::Number(0))
    }
}

/// Visitor that accepts any value.
struct Anything;

enum AnyValue<'de> {
    Number(i64),
    /// A number with a fraction.
    Real(f64),
    Text(Cow<'de, str>),
    Nothing,
}

impl<'de> Visitor<'de> for Anything {
    type Value = AnyValue<'de>;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<AnyValue<'de>, E> {
        Ok(AnyValue::Number(i64::from(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<AnyValue<'de>, E> {
        Ok(AnyValue::Number(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<AnyValue<'de>, E> {
        // Some recorders use addresses as flow ids, so any injective conversion to `i64` is
        // sufficient.
        Ok(AnyValue::Number(value.cast_signed()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<AnyValue<'de>, E> {
        Ok(AnyValue::Real(value))
    }

    fn visit_str<E>(self, value: &str) -> Result<AnyValue<'de>, E> {
        Ok(AnyValue::Text(Cow::Owned(value.to_owned())))
    }

    fn visit_borrowed_str<E>(self, value: &'de str) -> Result<AnyValue<'de>, E> {
        Ok(AnyValue::Text(Cow::Borrowed(value)))
    }

    fn visit_unit<E>(self) -> Result<AnyValue<'de>, E> {
        Ok(AnyValue::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<AnyValue<'de>, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(AnyValue::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<AnyValue<'de>, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(AnyValue::Nothing)
    }
}

impl<'de: 'a, 'a> Deserialize<'de> for Text<'a> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(Anything)? {
            AnyValue::Text(text) => text,
            AnyValue::Number(number) => number.to_string().into(),
            AnyValue::Real(number) => number.to_string().into(),
            AnyValue::Nothing => Cow::default(),
        }))
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(Anything)? {
            AnyValue::Number(number) => Some(number),
            AnyValue::Real(number) => Some(number as i64),
            AnyValue::Text(text) => number_of(&text),
            AnyValue::Nothing => None,
        }))
    }
}

/// Parses a number from a text such as `"12"`, `"0x7f"` or `"12.0"`.
pub(super) fn number_of(text: &str) -> Option<i64> {
    let text = text.trim();
    if let Some(digits) = text.strip_prefix("0x") {
        return u64::from_str_radix(digits, 16).ok().map(u64::cast_signed);
    }
    let whole = || text.parse::<u64>().ok().map(u64::cast_signed);
    let real = || text.parse::<f64>().ok().filter(|it| it.abs() < 9e15).map(|it| it as i64);
    text.parse().ok().or_else(whole).or_else(real)
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(Anything)? {
            AnyValue::Number(number) => PlaceId::Number(number),
            AnyValue::Real(number) => PlaceId::Number(number as i64),
            AnyValue::Text(text) => match number_of(&text) {
                Some(number) => PlaceId::Number(number),
                None => PlaceId::Text(text.as_ref().into()),
            },
            AnyValue::Nothing => PlaceId::Number(0),
        }))
    }
}
