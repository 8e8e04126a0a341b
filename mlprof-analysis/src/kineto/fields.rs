//! Tolerant structs: a missing, duplicate or mistyped field does not affect the other fields.

/// Declares a struct and its field-by-field deserialization from an object. For duplicate fields,
/// the last one counts. The field types must accept any value, as
/// [`Integer`](super::values::Integer) does.
macro_rules! tolerant_struct {
    (
        $(#[$about:meta])*
        pub(super) struct $name:ident<'a> {
            $($(#[$of_field:meta])* $field:ident: $kind:ty = $($key:literal)|+,)*
        }
    ) => {
        $(#[$about])*
        #[derive(Default)]
        pub(super) struct $name<'a> {
            $($(#[$of_field])* pub(super) $field: $kind,)*
        }

        impl<'de: 'a, 'a> serde::Deserialize<'de> for $name<'a> {
            fn deserialize<D: serde::Deserializer<'de>>(from: D) -> Result<Self, D::Error> {
                struct Fields<'a>(std::marker::PhantomData<&'a ()>);

                impl<'de: 'a, 'a> serde::de::Visitor<'de> for Fields<'a> {
                    type Value = $name<'a>;

                    fn expecting(&self, out: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
                        out.write_str("an object")
                    }

                    fn visit_map<A: serde::de::MapAccess<'de>>(
                        self,
                        mut map: A,
                    ) -> Result<Self::Value, A::Error> {
                        let mut all = $name::default();
                        while let Some(key) = map.next_key::<$crate::kineto::values::Key<'de>>()? {
                            match key.as_str() {
                                $($($key)|+ => all.$field = map.next_value()?,)*
                                _ => {
                                    map.next_value::<serde::de::IgnoredAny>()?;
                                }
                            }
                        }
                        Ok(all)
                    }
                }

                from.deserialize_map(Fields(std::marker::PhantomData))
            }
        }
    };
}

pub(super) use tolerant_struct;
