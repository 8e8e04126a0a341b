//! Paths of functions.

/// Path of a function as a list of names: `my_model::net::Net::forward`.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct FunctionPath {
    pub segments: Vec<String>,
    /// For a method of a trait implementation: the index of the type's segment, and the trait's
    /// name.
    pub implemented: Option<(usize, String)>,
}

impl FunctionPath {
    /// Returns the path with one more name.
    pub fn join(&self, name: &str) -> Self {
        let mut path = self.clone();
        path.segments.push(name.to_owned());
        path
    }

    /// Returns the ways to write the path without `<Type as Trait>`: first with the type, as rustc
    /// prints it, and then with the trait.
    pub fn spellings(&self) -> impl Iterator<Item = Vec<&str>> {
        let names = || self.segments.iter().map(String::as_str).collect::<Vec<_>>();
        let both = self.implemented.as_ref();
        let by_trait = both.map(|(place, name)| {
            let mut names = names();
            names[*place] = name;
            names
        });
        std::iter::once(names()).chain(by_trait)
    }

    /// Returns `<Type as Trait>`, and the index of the segment that it replaces.
    pub fn qualified(&self) -> Option<(usize, String)> {
        let (place, name) = self.implemented.as_ref()?;
        Some((*place, format!("<{} as {name}>", self.segments[*place])))
    }

    /// Returns the path in its most specific form, with `<Type as Trait>` for a method of a trait
    /// implementation.
    pub fn full(&self) -> String {
        let mut names: Vec<&str> = self.segments.iter().map(String::as_str).collect();
        let qualified = self.qualified();
        if let Some((place, qualified)) = &qualified {
            names[*place] = qualified;
        }
        names.join("::")
    }

    /// Parses a path returned by [`full`](Self::full).
    pub fn parse(text: &str) -> Self {
        let (mut segments, mut implemented) = (split(text), None);
        for (place, name) in segments.iter_mut().enumerate() {
            let both = name.strip_prefix('<').and_then(|name| name.strip_suffix('>'));
            if let Some((of, by)) = both.and_then(|both| both.split_once(" as ")) {
                implemented = Some((place, by.to_owned()));
                *name = of.to_owned();
            }
        }
        Self { segments, implemented }
    }

    /// Returns the function's own name.
    pub fn name(&self) -> &str {
        self.segments.last().map_or("", String::as_str)
    }
}

/// Splits a path at `::`, except within `<…>`.
pub(super) fn split(path: &str) -> Vec<String> {
    let mut names = vec![String::new()];
    let mut depth = 0_usize;
    let mut rest = path;
    while let Some(character) = rest.chars().next() {
        if depth == 0
            && let Some(after) = rest.strip_prefix("::")
        {
            names.push(String::new());
            rest = after;
            continue;
        }
        match character {
            '<' => depth += 1,
            '>' => depth = depth.saturating_sub(1),
            _ => {}
        }
        if let Some(name) = names.last_mut() {
            name.push(character);
        }
        rest = &rest[character.len_utf8()..];
    }
    names
}

impl std::fmt::Display for FunctionPath {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.write_str(&self.segments.join("::"))
    }
}
