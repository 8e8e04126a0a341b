//! Checks that extension traits have names ending in `Ext`, and that only their own crate can
//! implement them.

/// Returns the public extension traits in `source` that violate a rule, each with the rule.
///
/// A trait counts as an extension trait if its name ends with `Ext` or begins with the verb
/// `Profile` or `Emit`. Our other traits do not begin with these verbs.
pub fn offences(source: &str) -> Vec<String> {
    let mut offences = Vec::new();
    let declarations =
        source.lines().filter_map(|line| line.trim_start().strip_prefix("pub trait "));
    for declared in declarations {
        let name = declared.split(['<', ':', ' ']).next().unwrap_or(declared);
        let is_verb = |verb: &str| {
            name.strip_prefix(verb).is_some_and(|rest| rest.starts_with(char::is_uppercase))
        };
        if !name.ends_with("Ext") {
            if ["Profile", "Profiled", "Emit", "Bind"].into_iter().any(is_verb) {
                offences.push(format!("{name}: its name does not end in `Ext`"));
            }
        } else if !["sealed::", "Sealed"].into_iter().any(|seal| declared.contains(seal)) {
            offences.push(format!("{name}: it is not sealed by a private supertrait"));
        }
    }
    offences
}

#[test]
fn open_extension_traits_and_other_names_are_found() {
    let source = "pub trait ProfilerExt: Profiler {\npub trait ProfileModule: Module {\n\
                  pub trait ProfileLayerExt: Module + sealed::Layer {\npub trait Profiler: Send {\n\
                  trait ProfileInside {\n";
    assert_eq!(
        offences(source),
        [
            "ProfilerExt: it is not sealed by a private supertrait",
            "ProfileModule: its name does not end in `Ext`"
        ]
    );
}
