//! OpenTelemetry resource that describes this process.

use mlprof_core::RunContext;
use mlprof_events::program_name;
use mlprof_trace::internals::host_name;
use opentelemetry_proto::tonic::common::v1::any_value::Value;
use opentelemetry_proto::tonic::common::v1::{AnyValue, KeyValue};
use opentelemetry_proto::tonic::resource::v1::Resource;

use crate::random::random;

/// Returns the resource of this process. Attributes set by the user override the default ones. Must
/// be called where reading the environment is safe.
pub(super) fn resource(said: &[(String, String)]) -> Resource {
    let program = program_name().unwrap_or_default();
    let run = RunContext::from_environment();
    let text = |value: &str| Value::StringValue(value.to_owned());
    let known = [
        // The specification prescribes this default name.
        ("service.name", text(&format!("unknown_service:{program}"))),
        // A random id distinguishes concurrent runs of the same program.
        ("service.instance.id", text(&random_uuid([random(), random()]))),
        ("host.name", text(&host_name())),
        ("process.pid", Value::IntValue(std::process::id().into())),
        ("process.executable.name", text(&program)),
        ("rank", Value::IntValue(run.rank.into())),
        ("world_size", Value::IntValue(run.world_size.into())),
        ("telemetry.sdk.name", text("mlprof")),
        ("telemetry.sdk.language", text("rust")),
        ("telemetry.sdk.version", text(env!("CARGO_PKG_VERSION"))),
    ];
    let is_said = |key: &str| said.iter().any(|(known, _)| known == key);
    let known = known.into_iter().filter(|(key, _)| !is_said(key));
    let known = known.map(|(key, value)| attribute(key, value));
    let said = said.iter().map(|(key, value)| attribute(key, text(value)));
    Resource { attributes: known.chain(said).collect(), ..Resource::default() }
}

pub(super) fn attribute(key: &str, value: Value) -> KeyValue {
    let value = Some(AnyValue { value: Some(value) });
    KeyValue { key: key.to_owned(), value, ..KeyValue::default() }
}

/// Formats a version 4 UUID, as in RFC 9562.
fn random_uuid([high, low]: [u64; 2]) -> String {
    let high = high & !0xf000 | 0x4000;
    let low = low & !(0xc << 60) | 0x8 << 60;
    format!(
        "{:08x}-{:04x}-{:04x}-{:04x}-{:012x}",
        high >> 32,
        high >> 16 & 0xffff,
        high & 0xffff,
        low >> 48,
        low & 0xffff_ffff_ffff
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    fn value(resource: &Resource, key: &str) -> Value {
        let mut all = resource.attributes.iter().filter(|attribute| attribute.key == key);
        let attribute = all.next().unwrap_or_else(|| panic!("no {key} in {resource:?}"));
        assert!(all.next().is_none(), "{key} twice");
        attribute.value.as_ref().and_then(|it| it.value.clone()).expect("a value")
    }

    #[test]
    fn a_process_is_told_from_others_and_its_user_has_the_last_word() {
        let [one, other] = [resource(&[]), resource(&[])];
        let id = |of: &Resource| value(of, "service.instance.id");
        assert_ne!(id(&one), id(&other));
        assert_eq!(value(&one, "process.pid"), Value::IntValue(std::process::id().into()));
        let Value::StringValue(name) = value(&one, "service.name") else { panic!("{one:?}") };
        assert!(name.starts_with("unknown_service:mlprof_live"), "{name}");
        let said = [("service.name", "digits"), ("rank", "seven"), ("team", "vision")];
        let said = resource(&said.map(|(key, value)| (key.to_owned(), value.to_owned())));
        for (key, expected) in [("service.name", "digits"), ("rank", "seven"), ("team", "vision")] {
            assert_eq!(value(&said, key), Value::StringValue(expected.to_owned()));
        }
    }

    #[test]
    fn a_uuid_has_its_version_and_variant() {
        assert_eq!(random_uuid([0, 0]), "00000000-0000-4000-8000-000000000000");
        assert_eq!(random_uuid([u64::MAX; 2]), "ffffffff-ffff-4fff-bfff-ffffffffffff");
    }
}
