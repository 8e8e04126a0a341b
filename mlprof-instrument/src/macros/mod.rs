//! Functions that the crate's own macros make.
//!
//! The body of a macro is tokens. A function in it is found by its shape, gets its hook there, once
//! for all calls, and is named from the macro's fragments. The macro's calls in the crate determine
//! which functions come of it.
//!
//! A call in place of items is also expanded: so modules are found that a macro declares, calls of
//! other macros in its body, and functions that are written in the call.

mod expand;
mod found;
mod matcher;
mod scan;
mod signature;

use std::collections::{BTreeSet, HashMap};

use super::function;
use super::hook::{Hook, Inputs, Made};
use super::outputs;
use super::path::FunctionPath;
use super::result::{FunctionKind, HookKind, LeftOut, SplicedCrate, SplicedFunction};
use super::selection::Selection;
use super::source::Source;
use super::text::owned;
pub(super) use expand::written_braces;
use found::{Call, Definition};
pub(super) use found::{CallSite, Expansion, Found, ItemKind};
use matcher::Match;
use scan::{MadeFunction, Part};

/// Where the compiler's own macros are found.
const CORE: &str = "crate::__mlprof::__core::";

/// One function as one call makes it.
struct One {
    path: FunctionPath,
    /// The value of the fragment that the function is named by.
    fragment: Option<String>,
    hooks: Vec<Hook>,
}

/// Puts hooks into the macros of a crate.
pub(super) fn splice(
    selection: &Selection,
    found: &Found,
    sources: &mut [Source],
    result: &mut SplicedCrate,
) {
    for definition in found.definitions() {
        let calls = found.calls_of(&definition.name);
        for (number, rule) in definition.rules.iter().enumerate() {
            for function in &rule.functions {
                let made = all_made(selection, calls, &definition.rules[..=number], function);
                result.seen.extend(made.iter().map(|one| one.path.full()));
                if made.iter().all(|one| one.hooks.is_empty()) {
                    continue;
                }
                let source = &mut sources[definition.source];
                let done = match obstacle(definition, function) {
                    Some(reason) => Err(reason),
                    None => statements(&made, function),
                };
                let chosen = made.iter().filter(|one| !one.hooks.is_empty());
                match done {
                    Ok((before, after)) => {
                        source.edits.insert(function.place, before);
                        if !after.is_empty() {
                            source.edits.insert(function.end, after);
                        }
                        for one in chosen {
                            report(one, function, source, result);
                        }
                    }
                    Err(reason) => result.left_out.extend(chosen.map(|one| LeftOut {
                        path: one.path.to_string(),
                        file: source.path.clone(),
                        line: function.line,
                        reason: reason.clone(),
                    })),
                }
            }
        }
    }
}

fn report(one: &One, function: &MadeFunction, source: &Source, result: &mut SplicedCrate) {
    let functions = one.hooks.iter().map(|hook| SplicedFunction {
        path: one.path.to_string(),
        name: hook.name.clone(),
        kind: hook.kind,
        function: FunctionKind::Macro,
        file: source.path.clone(),
        line: function.line,
    });
    result.spliced.extend(functions);
}

/// The functions that the calls of a macro make of one in the body of its last rule of `rules`.
fn all_made(
    selection: &Selection,
    calls: &[Call],
    rules: &[scan::Rule],
    function: &MadeFunction,
) -> Vec<One> {
    let Some((rule, before)) = rules.split_last() else { return Vec::new() };
    let mut all = Vec::new();
    for call in calls {
        let fits = |rule: &scan::Rule| matcher::bind(&rule.matcher, &call.tokens);
        if before.iter().any(|rule| matches!(fits(rule), Match::Fits(_))) {
            continue;
        }
        let values = match fits(rule) {
            Match::Fits(bindings) => values_of(function, bindings.names()),
            Match::Differs => continue,
            Match::Unknown => vec![HashMap::new()],
        };
        all.extend(values.iter().map(|values| one_made(selection, call, values, function)));
    }
    all
}

/// The fragments in a function's path: one map for each function that comes of it.
fn values_of(
    function: &MadeFunction,
    all: Vec<HashMap<String, String>>,
) -> Vec<HashMap<String, String>> {
    let fragments: BTreeSet<&String> = function
        .path
        .iter()
        .filter_map(|part| match part {
            Part::Fragment(name) => Some(name),
            Part::Name(_) => None,
        })
        .collect();
    let mut values: Vec<HashMap<String, String>> = Vec::new();
    for names in &all {
        let needed: Option<HashMap<String, String>> = fragments
            .iter()
            .map(|name| Some(((*name).clone(), names.get(*name)?.clone())))
            .collect();
        values.extend(needed.filter(|needed| !values.contains(needed)));
    }
    // Fragments of several repetitions: each is known, but not which belong together.
    let is_bound = |name: &&String| all.iter().any(|names| names.contains_key(*name));
    if values.is_empty() && fragments.iter().all(is_bound) {
        values.push(HashMap::new());
    }
    values
}

fn one_made(
    selection: &Selection,
    call: &Call,
    values: &HashMap<String, String>,
    function: &MadeFunction,
) -> One {
    let mut path = call.context.path.clone();
    let mut fragment = None;
    for part in &function.path {
        let name = match part {
            Part::Name(name) => name.clone(),
            Part::Fragment(name) => {
                let value = values.get(name).cloned();
                fragment.clone_from(&value);
                value.unwrap_or_else(|| format!("${name}"))
            }
        };
        path = path.join(&name);
    }
    if let Some(name) = &function.implemented {
        path.implemented = Some((path.segments.len().saturating_sub(2), name.clone()));
    }
    let is_public = function.is_public || path.implemented.is_some();
    let hooks = selection.hooks(&function::Found {
        path: &path,
        kind: FunctionKind::Macro,
        is_public,
        returns: function.returns.clone(),
    });
    One { path, fragment, hooks }
}

/// Why no function of the macro's can have a hook, if so.
fn obstacle(definition: &Definition, function: &MadeFunction) -> Option<String> {
    if definition.is_exported {
        return Some("an exported macro makes it, also in other crates".to_owned());
    }
    if let Some(obstacle) = &definition.context.obstacle {
        return Some(obstacle.clone());
    }
    if let Some(attribute) = &function.attribute {
        return Some(owned(attribute));
    }
    function.obstacle.clone()
}

/// The statements that a function in a macro begins with: one for each kind of hook that any of its
/// calls is to have. And what stands at its end.
fn statements(made: &[One], function: &MadeFunction) -> Result<(String, String), String> {
    let mut kinds: Vec<(HookKind, &Inputs)> = Vec::new();
    for hook in made.iter().flat_map(|one| &one.hooks) {
        if !kinds.contains(&(hook.kind, &hook.inputs)) {
            kinds.push((hook.kind, &hook.inputs));
        }
    }
    let (mut text, mut after) = (String::new(), String::new());
    for (number, (kind, inputs)) in kinds.into_iter().enumerate() {
        if matches!(kind, HookKind::Lines | HookKind::Memory) {
            return Err("a macro makes it, whose lines are not the program's".to_owned());
        }
        let is_it = |hook: &&Hook| hook.kind == kind && hook.inputs == *inputs;
        let chosen: Vec<(&One, &Hook)> = made
            .iter()
            .filter_map(|one| one.hooks.iter().find(is_it).map(|hook| (one, hook)))
            .collect();
        let only = if chosen.len() == made.len() { None } else { Some(only(&chosen, function)?) };
        let name = name(&chosen, kind, function)?;
        if chosen.iter().any(|(_, hook)| hook.named_by.is_some()) {
            return Err("a macro makes it, and the rule tells its name when it runs".to_owned());
        }
        let outputs = chosen[0].1.outputs.clone();
        let (name_of_function, inputs) = (String::new(), inputs.clone());
        let hook = Hook { kind, name: name_of_function, named_by: None, inputs, outputs };
        if function.is_async {
            let (before, behind) =
                hook.around_made_async(&Made { name, only }, returned_by_async(function)?);
            text += &before;
            after = behind.to_owned() + &after;
            continue;
        }
        text += &hook.made_statement(number, &Made { name, only }, &function.arguments)?;
        let returns = outputs::returned_by_macro(&function.returns, &hook.outputs);
        if let Some(returns) = returns.filter(|_| !hook.outputs.is_empty() && after.is_empty()) {
            let around = outputs::around(&hook, number, &function.arguments, &returns)?;
            text += &around.0;
            after = around.1;
        }
    }
    Ok((text + " ", after))
}

/// The return type of an async function, which the block inside it needs.
fn returned_by_async(function: &MadeFunction) -> Result<Option<String>, String> {
    match function.returns_text.as_str() {
        "" => Ok(Some("()".to_owned())),
        "!" => Ok(None),
        returns if returns.contains("impl ") => {
            Err("it is an `async fn` that a macro makes, whose return type has no name".to_owned())
        }
        returns => Ok(Some(returns.to_owned())),
    }
}

/// What tells the chosen calls of a macro from the others.
fn only(
    chosen: &[(&One, &Hook)],
    function: &MadeFunction,
) -> Result<(String, Vec<String>), String> {
    let unknown = || "a macro makes it, together with others that are not selected".to_owned();
    let Some(Part::Fragment(fragment)) = function.path.last() else { return Err(unknown()) };
    let names: Option<Vec<String>> = chosen.iter().map(|(one, _)| one.fragment.clone()).collect();
    let mut names = names.ok_or_else(unknown)?;
    names.sort();
    names.dedup();
    Ok((format!("{CORE}stringify!(${fragment})"), names))
}

/// An expression for the name of the function that a call makes.
fn name(
    chosen: &[(&One, &Hook)],
    kind: HookKind,
    function: &MadeFunction,
) -> Result<String, String> {
    let Some((one, hook)) = chosen.first() else { return Err("nothing is selected".to_owned()) };
    if chosen.iter().all(|(_, other)| other.name == hook.name) && !hook.name.contains('$') {
        return Ok(format!("{:?}", hook.name));
    }
    if let Some(Part::Fragment(fragment)) = function.path.last()
        && let Some(value) = &one.fragment
        && let Some((before, after)) = hook.name.rsplit_once(value.as_str())
    {
        let fits = |one: &One, hook: &Hook| {
            let value = one.fragment.as_deref().unwrap_or_default();
            hook.name == format!("{before}{value}{after}")
        };
        if chosen.iter().all(|(one, hook)| fits(one, hook)) {
            return Ok(format!(
                "{CORE}concat!({before:?}, {CORE}stringify!(${fragment}), {after:?})"
            ));
        }
    }
    if kind != HookKind::Function {
        return Err(
            "a macro makes it, and its name cannot be put together from the macro's".to_owned()
        );
    }
    let parts: String = function.path.iter().map(Part::expression).collect();
    Ok(format!("{CORE}concat!({CORE}module_path!(){parts})"))
}
