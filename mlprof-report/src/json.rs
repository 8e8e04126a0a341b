//! Indented JSON of reports.
//!
//! Reports have about 500 fields. serde_json inlines the code for the punctuation around each of
//! them, which adds several seconds of compile time. Here each kind of punctuation and number is a
//! function that is not inlined.

use std::io::{Result, Write};

use serde::Serialize;
use serde_json::ser::{Formatter, PrettyFormatter, Serializer};

/// Returns the same text as [`serde_json::to_string_pretty`].
///
/// # Errors
///
/// Returns the errors of the value's `Serialize` implementation.
pub(crate) fn to_string(value: &impl Serialize) -> serde_json::Result<String> {
    let mut text = Vec::new();
    let formatter = Outlined(PrettyFormatter::new());
    value.serialize(&mut Serializer::with_formatter(&mut text, formatter))?;
    // serde_json writes only valid UTF-8, so the conversion cannot fail.
    String::from_utf8(text).map_err(serde::ser::Error::custom)
}

/// Formatter that forwards to the inner one through functions that are not inlined.
struct Outlined(PrettyFormatter<'static>);

macro_rules! outlined {
    ($($name:ident($($argument:ident: $type:ty),*);)+) => {$(
        #[inline(never)]
        fn $name<W: ?Sized + Write>(&mut self, writer: &mut W $(, $argument: $type)*) -> Result<()> {
            self.0.$name(writer $(, $argument)*)
        }
    )+};
}

impl Formatter for Outlined {
    outlined! {
        write_null();
        write_bool(value: bool);
        write_i64(value: i64);
        write_u8(value: u8);
        write_u32(value: u32);
        write_u64(value: u64);
        write_f32(value: f32);
        write_f64(value: f64);
        begin_array();
        end_array();
        begin_array_value(first: bool);
        end_array_value();
        begin_object();
        end_object();
        begin_object_key(first: bool);
        end_object_key();
        begin_object_value();
        end_object_value();
    }
}

#[cfg(all(test, not(loom)))]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn the_text_is_that_of_serde_json() {
        let value = json!({
            "empty": {}, "none": [], "null": null, "true": true, "text": "a\n\"b\" ä",
            "numbers": [0, -1, u64::MAX, i64::MIN, 0.1, 1e300, -2.5],
            "nested": [{ "a": [{ "b": [[], [1]] }] }, {}],
        });
        let expected = serde_json::to_string_pretty(&value).expect("JSON");
        assert_eq!(to_string(&value).expect("JSON"), expected);
        assert_eq!(to_string(&f64::NAN).expect("JSON"), "null");
        assert_eq!(to_string(&(1_u8, 2_u32, 0.5_f32)).expect("JSON"), "[\n  1,\n  2,\n  0.5\n]");
    }
}
