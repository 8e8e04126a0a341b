//! Element types of tensors: rounding, and spacing of representable numbers.

/// Element type of a tensor, as far as a comparison needs it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum ElementType {
    /// Integers and booleans.
    Integer,
    /// Floating-point numbers.
    Float(FloatFormat),
    /// A type of unknown layout, such as a quantized one.
    Other,
}

/// Layout of a floating-point format.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct FloatFormat {
    /// Number of stored fraction bits.
    fraction_bits: u32,
    /// Exponent of the smallest normal number.
    least_exponent: i32,
}

const F64: FloatFormat = FloatFormat { fraction_bits: 52, least_exponent: -1022 };
const F32: FloatFormat = FloatFormat { fraction_bits: 23, least_exponent: -126 };
const F16: FloatFormat = FloatFormat { fraction_bits: 10, least_exponent: -14 };
const BF16: FloatFormat = FloatFormat { fraction_bits: 7, least_exponent: -126 };
const E5M2: FloatFormat = FloatFormat { fraction_bits: 2, least_exponent: -14 };
const E4M3: FloatFormat = FloatFormat { fraction_bits: 3, least_exponent: -6 };
const E8M0: FloatFormat = FloatFormat { fraction_bits: 0, least_exponent: -127 };
const E3M2: FloatFormat = FloatFormat { fraction_bits: 2, least_exponent: -2 };
const E2M3: FloatFormat = FloatFormat { fraction_bits: 3, least_exponent: 0 };
const E2M1: FloatFormat = FloatFormat { fraction_bits: 1, least_exponent: 0 };

/// Names of floating-point types in Rust's frameworks, PyTorch, JAX and safetensors.
const FLOATS: [(&str, FloatFormat); 17] = [
    ("e5m2", E5M2),
    ("e4m3", E4M3),
    ("e8m0", E8M0),
    ("e3m2", E3M2),
    ("e2m3", E2M3),
    ("e2m1", E2M1),
    ("f4", E2M1),
    ("bf16", BF16),
    ("bfloat16", BF16),
    ("f16", F16),
    ("float16", F16),
    ("half", F16),
    ("f32", F32),
    ("float32", F32),
    ("f64", F64),
    ("float64", F64),
    ("double", F64),
];

impl ElementType {
    /// Returns the type with this name, such as `bf16`, `f8e4m3` or `float8_e5m2fnuz`.
    pub(super) fn of(name: &str) -> Self {
        let name = name.to_ascii_lowercase();
        if let Some((_, format)) = FLOATS.iter().find(|(known, _)| name.contains(known)) {
            return Self::Float(*format);
        }
        let digits = name.trim_start_matches(|letter: char| letter.is_ascii_alphabetic());
        let letters = &name[..name.len() - digits.len()];
        let is_integer = match letters {
            "bool" | "long" | "short" | "byte" | "char" => digits.is_empty(),
            "i" | "u" | "int" | "uint" => digits.bytes().all(|digit| digit.is_ascii_digit()),
            _ => false,
        };
        if is_integer { Self::Integer } else { Self::Other }
    }

    /// Returns the relative distance up to which two numbers may differ by rounding alone.
    pub(super) fn rounding(self) -> f64 {
        match self {
            Self::Integer => 0.0,
            Self::Float(F64) => 1e-10,
            Self::Float(F16) => 1e-2,
            Self::Float(BF16) => 5e-2,
            // With so few bits, a single rounding error covers nearly the whole tolerance.
            // Neighbouring numbers are up to 2⁻³ apart in e4m3, and 2⁻² in e5m2.
            Self::Float(format) if format.fraction_bits <= 3 => {
                1.2 * f64::powi(2.0, -(format.fraction_bits as i32))
            }
            Self::Float(_) | Self::Other => 1e-4,
        }
    }

    /// Returns the type with the larger spacing.
    pub(super) fn coarser(self, other: Self) -> Self {
        match (self, other) {
            (Self::Float(one), Self::Float(two)) if one.fraction_bits > two.fraction_bits => other,
            (Self::Integer | Self::Other, Self::Float(_)) => other,
            _ => self,
        }
    }

    /// Returns the distance between two numbers in units in the last place, after rounding both to
    /// the type. `None` for a type of unknown layout.
    pub(super) fn ulps(self, one: f64, other: f64) -> Option<u64> {
        let place = |number: f64| match self {
            Self::Integer => Some(i128::from(number.round() as i64)),
            Self::Float(format) => Some(format.place(number)),
            Self::Other => None,
        };
        let apart = place(one)?.abs_diff(place(other)?);
        Some(u64::try_from(apart).unwrap_or(u64::MAX))
    }
}

impl FloatFormat {
    /// Returns the index of a finite number among the format's numbers, where 0 has index 0.
    /// Subnormal numbers count, and the exponent has no upper limit.
    fn place(self, number: f64) -> i128 {
        let bits = number.abs().to_bits();
        // This is the exponent of the power of two below the number. It is not used for subnormal
        // `f64` numbers.
        let exponent = (bits >> 52) as i32 - 1023;
        let magnitude = if exponent < self.least_exponent || self == F64 {
            let spacing = self.least_exponent - self.fraction_bits as i32;
            match self == F64 {
                true => i128::from(bits),
                false => {
                    i128::from((number.abs() * f64::powi(2.0, -spacing)).round_ties_even() as i64)
                }
            }
        } else {
            let fraction = (bits & ((1 << 52) - 1)) as f64;
            let fraction =
                (fraction * f64::powi(2.0, self.fraction_bits as i32 - 52)).round_ties_even();
            let binade = i128::from(exponent - self.least_exponent) + 1;
            (binade << self.fraction_bits) + fraction as i128
        };
        if number < 0.0 { -magnitude } else { magnitude }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn ulps(name: &str, one: f64, other: f64) -> Option<u64> {
        ElementType::of(name).ulps(one, other)
    }

    #[test]
    fn ulps_are_those_of_the_type() {
        for (name, next) in [
            ("f64", 1.0 + f64::EPSILON),
            ("f32", 1.0 + f64::from(f32::EPSILON)),
            ("f16", 1.0 + 1.0 / 1024.0),
            ("bf16", 1.0 + 1.0 / 128.0),
            ("f8e4m3", 1.125),
            ("float8_e5m2fnuz", 1.25),
            ("i64", 2.0),
            ("bool", 0.0),
        ] {
            assert_eq!(ulps(name, 1.0, next), Some(1), "{name}");
            assert_eq!(ulps(name, next, 1.0), Some(1), "{name}");
            assert_eq!(ulps(name, -1.0, -1.0), Some(0), "{name}");
        }
        assert_eq!(ulps("quantized", 1.0, 2.0), None);
        // The distance to the next power of two is the number of values in a binade.
        assert_eq!(ulps("f16", 4.0, 8.0), Some(1024));
        assert_eq!(ulps("e4m3", 4.0, -4.0), Some(2 * (8 + 8 * 8)));
    }

    #[test]
    fn places_are_those_of_the_bits() {
        let bits_apart = |one: f32, other: f32| u64::from(other.to_bits() - one.to_bits());
        for (one, other) in [(1e-45_f32, 1e-38), (0.0, f32::MIN_POSITIVE), (0.1, 3e38)] {
            let apart = ulps("f32", one.into(), other.into());
            assert_eq!(apart, Some(bits_apart(one, other)), "{one} {other}");
        }
        let least = f64::powi(2.0, -24);
        assert_eq!(ulps("f16", -least, least), Some(2));
        assert_eq!(ulps("f16", 0.0, f64::powi(2.0, -14)), Some(1024));
        assert_eq!(ulps("f64", 0.0, f64::from_bits(1)), Some(1));
        assert_eq!(ulps("f64", -0.0, 0.0), Some(0));
    }

    #[test]
    fn types_are_known_by_the_names_that_frameworks_have() {
        let rounding = |name| ElementType::of(name).rounding();
        for name in ["i64", "u8", "int32", "uint8", "bool", "long", "I32"] {
            assert_eq!(rounding(name), 0.0, "{name}");
        }
        for name in ["f8e4m3", "float8_e4m3fn", "F8_E4M3"] {
            assert_eq!(ElementType::of(name), ElementType::Float(E4M3), "{name}");
        }
        assert_eq!((rounding("f32"), rounding("bfloat16")), (1e-4, 5e-2));
        assert!((rounding("e4m3") - 0.15).abs() + (rounding("e5m2") - 0.3).abs() < 1e-9);
        assert_eq!((rounding("none"), rounding("quantized")), (1e-4, 1e-4));
        let mixed = ElementType::of("f32").coarser(ElementType::of("bf16"));
        assert_eq!(mixed, ElementType::of("bf16").coarser(ElementType::of("i64")));
        assert_eq!(mixed, ElementType::Float(BF16));
    }
}
