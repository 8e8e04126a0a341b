//! An event as it stands in a file. What is not needed is skipped.

use std::borrow::Cow;
use std::fmt;

use serde::Deserialize;
use serde::de::{Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde_json::value::RawValue;

use crate::trace::{Message, PlaceId};

#[derive(Deserialize)]
pub(super) struct Event<'a> {
    #[serde(borrow, default)]
    pub(super) ph: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) cat: Cow<'a, str>,
    #[serde(borrow, default)]
    pub(super) name: Cow<'a, str>,
    #[serde(default)]
    pub(super) pid: Place,
    #[serde(default)]
    pub(super) tid: Place,
    /// In microseconds, as all times.
    #[serde(borrow, default)]
    pub(super) ts: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) dur: Option<&'a RawValue>,
    #[serde(default)]
    pub(super) id: Integer,
    #[serde(borrow, default)]
    pub(super) args: Option<&'a RawValue>,
}

/// What slices have besides.
#[derive(Deserialize, Default)]
pub(super) struct SliceArguments<'a> {
    #[serde(default)]
    pub(super) correlation: Integer,
    #[serde(default, rename = "Sequence number")]
    pub(super) sequence: Integer,
    #[serde(default, alias = "Bytes")]
    pub(super) bytes: Integer,
    #[serde(default)]
    pub(super) flops: Integer,
    #[serde(default)]
    pub(super) stream: Integer,
    /// Of waits for an event.
    #[serde(default)]
    pub(super) wait_on_stream: Integer,
    #[serde(default, rename = "wait_on_cuda_event_record_corr_id")]
    pub(super) recorded_by: Integer,
    #[serde(borrow, default, rename = "Input Dims", alias = "Input dims")]
    pub(super) shapes: Option<&'a RawValue>,
    /// Where ranks meet.
    #[serde(borrow, default, rename = "Collective name")]
    pub(super) collective: Option<Cow<'a, str>>,
    #[serde(default, rename = "Seq")]
    pub(super) collective_number: Integer,
    #[serde(borrow, default)]
    pub(super) dtype: Option<&'a RawValue>,
    #[serde(default, rename = "In msg nelems")]
    pub(super) in_elements: Integer,
    #[serde(default, rename = "Out msg nelems")]
    pub(super) out_elements: Integer,
    #[serde(default, rename = "Group size")]
    pub(super) group_size: Integer,
    #[serde(borrow, default, rename = "Process Group Name")]
    pub(super) group: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "Process Group Ranks")]
    pub(super) ranks: Option<&'a RawValue>,
    #[serde(borrow, default, rename = "Called from")]
    pub(super) called_from: Option<Cow<'a, str>>,
    /// Of kernels.
    #[serde(borrow, default)]
    pub(super) grid: Option<&'a RawValue>,
    #[serde(borrow, default)]
    pub(super) block: Option<&'a RawValue>,
    #[serde(default, rename = "registers per thread")]
    pub(super) registers: Integer,
    #[serde(default, rename = "shared memory")]
    pub(super) shared_memory: Integer,
    #[serde(default, rename = "est. achieved occupancy %")]
    pub(super) occupancy: Integer,
}

impl SliceArguments<'_> {
    /// The message of a collective, as [`Details::message`](crate::trace::Details::message); `None`
    /// where its size is not known.
    pub(super) fn message(&self) -> Option<String> {
        let collective = self.collective.as_deref().filter(|name| !name.is_empty())?;
        let (sent, received) = (self.in_elements.natural(), self.out_elements.natural());
        let text = |value: Option<&RawValue>| {
            value.map_or("", |value| value.get().trim_matches('"')).to_owned()
        };
        let message = Message {
            collective: collective.to_owned(),
            dtype: text(self.dtype),
            in_elements: sent,
            out_elements: received,
            group_size: self.group_size.natural(),
            group: text(self.group),
            ranks: text(self.ranks),
        };
        (sent > 0 || received > 0).then(|| message.json())
    }

    /// As [`Details::launch`](crate::trace::Details::launch); `None` for what is no kernel.
    pub(super) fn launch(&self) -> Option<String> {
        let sizes = |list: &RawValue| -> String {
            list.get().chars().filter(|letter| letter.is_ascii_digit() || *letter == ',').collect()
        };
        let (grid, block) = (sizes(self.grid?), sizes(self.block?));
        let (registers, shared) = (self.registers.natural(), self.shared_memory.natural());
        let occupancy = self.occupancy.natural();
        Some(format!(
            "regs:{registers} static_shared:0 dynamic_shared:{shared} grid:{grid} block:{block} \
             occ_pct:{occupancy}"
        ))
    }
}

/// What instants of memory say.
#[derive(Deserialize, Default)]
pub(super) struct MemoryArguments {
    #[serde(default, rename = "Addr")]
    pub(super) address: Integer,
    #[serde(default, rename = "Bytes")]
    pub(super) bytes: Integer,
    #[serde(default, rename = "Total Allocated")]
    pub(super) allocated: Integer,
    #[serde(default, rename = "Total Reserved")]
    pub(super) reserved: Integer,
    /// 0: the host.
    #[serde(default, rename = "Device Type")]
    pub(super) device_type: Integer,
    #[serde(default, rename = "Device Id")]
    pub(super) device: Integer,
}

/// What names processes and threads.
#[derive(Deserialize, Default)]
pub(super) struct NameArguments<'a> {
    #[serde(borrow, default)]
    pub(super) name: Option<Cow<'a, str>>,
    #[serde(borrow, default)]
    pub(super) labels: Option<Cow<'a, str>>,
    #[serde(default)]
    pub(super) sort_index: Integer,
}

/// A whole number, where there is one.
#[derive(Debug, Clone, Copy, Default, PartialEq)]
pub(super) struct Integer(pub(super) Option<i64>);

impl Integer {
    /// The number of a stream; -1, also without its sign, stands for none.
    pub(super) fn stream(self) -> Option<i32> {
        self.0.and_then(|stream| i32::try_from(stream).ok())
    }

    pub(super) fn natural(self) -> u64 {
        self.0.and_then(|value| u64::try_from(value).ok()).unwrap_or(0)
    }
}

/// The number or text of a process or thread.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Place(pub(super) PlaceId);

impl Default for Place {
    fn default() -> Self {
        Self(PlaceId::Number(0))
    }
}

/// Takes whatever stands there.
struct Anything;

enum Found {
    Number(i64),
    Text(String),
    Nothing,
}

impl<'de> Visitor<'de> for Anything {
    type Value = Found;

    fn expecting(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str("a value")
    }

    fn visit_bool<E>(self, value: bool) -> Result<Found, E> {
        Ok(Found::Number(i64::from(value)))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Found, E> {
        Ok(Found::Number(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Found, E> {
        // Flow numbers of some recorders are addresses: any number will do that is the same again.
        Ok(Found::Number(value.cast_signed()))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Found, E> {
        Ok(Found::Number(value as i64))
    }

    fn visit_str<E>(self, value: &str) -> Result<Found, E> {
        Ok(Found::Text(value.to_owned()))
    }

    fn visit_unit<E>(self) -> Result<Found, E> {
        Ok(Found::Nothing)
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut list: A) -> Result<Found, A::Error> {
        while list.next_element::<IgnoredAny>()?.is_some() {}
        Ok(Found::Nothing)
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Found, A::Error> {
        while map.next_entry::<IgnoredAny, IgnoredAny>()?.is_some() {}
        Ok(Found::Nothing)
    }
}

impl<'de> Deserialize<'de> for Integer {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(Anything)? {
            Found::Number(number) => Some(number),
            Found::Text(text) => number_of(&text),
            Found::Nothing => None,
        }))
    }
}

/// Numbers stand as texts, too: `"12"`, `"0x7f"`.
fn number_of(text: &str) -> Option<i64> {
    match text.strip_prefix("0x") {
        Some(digits) => u64::from_str_radix(digits, 16).ok().map(u64::cast_signed),
        None => text.parse().ok(),
    }
}

impl<'de> Deserialize<'de> for Place {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Ok(Self(match deserializer.deserialize_any(Anything)? {
            Found::Number(number) => PlaceId::Number(number),
            Found::Text(text) => match text.parse() {
                Ok(number) => PlaceId::Number(number),
                Err(_) => PlaceId::Text(text.into()),
            },
            Found::Nothing => PlaceId::Number(0),
        }))
    }
}
